"""Folders of files that are complete or not there, each file with its SHA-256.

A folder is written beside its place, sealed with checksums, renamed, and never written to again.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.errors import SearchError
from assay.files import (
    FileLock,
    atomic_write,
    make_private_folder,
    open_file,
    read_file,
    staging_folder,
    sync_file,
)
from assay.net.json import JsonObject, parse_object
from assay.progress import Progress

_MANIFEST = "manifest.json"
# A folder of fewer bytes is hashed whenever it is opened (0.1 s at most for each 100 MB); of a
# larger one, only the sizes are compared. `assay index` hashes all.
HASHED_WHEN_OPENED = 256 << 20


class DamagedIndexError(SearchError):
    """The index exists but cannot be used: `damage` says which, and what is wrong with it."""

    def __init__(self, damage: str) -> None:
        super().__init__(f"{damage}; rebuild it with: assay index (vectors come from the cache)")
        self.damage = damage


@contextmanager
def writing_folder(path: Path) -> Iterator[Path]:
    """An empty folder that takes the place of `path` if the block ends well and it is sealed."""
    with disk_errors(path.parent), staging_folder(path) as staging:
        part = staging / path.name
        make_private_folder(part)
        yield part
        shutil.rmtree(path, ignore_errors=True)  # a damaged one
        part.rename(path)


def seal(folder: Path, about: JsonObject) -> None:
    """Describe a folder, with the checksums of its files; a power cut leaves all or nothing."""
    files = {}
    for path in sorted(folder.iterdir()):
        path.chmod(0o600)  # libraries ask nobody, and it is made of texts
        sync_file(path)
        files[path.name] = [path.stat().st_size, _hash(path)]
    content: JsonObject = {"about": about, "files": files}
    content["sha256"] = _content_hash(content)
    atomic_write(folder / _MANIFEST, json.dumps(content, indent=1).encode())


def is_sealed(folder: Path) -> bool:
    """Whether there is a folder that was completed once."""
    return (folder / _MANIFEST).is_file()


def check_folder(folder: Path, *, every: bool = False) -> JsonObject:
    """What it was sealed with; `DamagedIndexError` unless its files (`every`: also those of a large
    folder) are as they were.
    """
    try:
        content = parse_object(read_file(folder / _MANIFEST)) or {}
        if content.get("sha256") != _content_hash(content):
            raise ValueError(f"{_MANIFEST} does not match its checksum")
        files: dict[str, list[object]] = content["files"]
        sizes = {name: (folder / name).stat().st_size for name in files}
        hashed = files if every or sum(sizes.values()) <= HASHED_WHEN_OPENED else ()
        # Sizes first: they cost nothing, and catch what a power cut or a full disk leaves.
        wrong = [name for name in files if sizes[name] != files[name][0]]
        wrong = wrong or [name for name in hashed if _hash(folder / name) != files[name][1]]
        if wrong:
            raise ValueError(f"{wrong[0]} does not match its checksum")
    except (OSError, ValueError, KeyError) as error:
        why = getattr(error, "strerror", None) or error
        raise DamagedIndexError(f"the index at {folder.parent} is damaged ({why})") from None
    about: JsonObject = content["about"]
    return about


def _content_hash(content: JsonObject) -> str:
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _hash(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def disk_errors(home: Path) -> Iterator[None]:
    """Errors of the disk as `SearchError`, with what to do about them."""
    try:
        yield
    except OSError as error:
        raise SearchError(
            f"the index at {home} cannot be written ({error.strerror or error}); the previous one "
            "is intact. Free some space, or set QDRANT_PATH to another folder"
        ) from error


@contextmanager
def writer_lock(path: Path, progress: Progress) -> Iterator[None]:
    """Held while an index is built; `progress` is told if another process holds it."""
    lock = FileLock(path)
    with disk_errors(path.parent):
        make_private_folder(path.parent)
        what = "waiting for another process, which is building this index"
        lock.wait(lambda: progress(what, 0, None))
    try:
        yield
    finally:
        lock.release()

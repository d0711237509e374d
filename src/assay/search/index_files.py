"""The files of one index, their checksums, and the lock of its writer.

A generation is a folder that is complete before it is named, and never changed afterwards: each
file has the SHA-256 that its manifest says, or it is damaged. The engine is given no file that was
not checked, since it answers damage with other results or with the end of the process.
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from assay.errors import SearchError
from assay.files import atomic_write, open_file, read_file, read_text_file, sync_file
from assay.locks import FileLock
from assay.net.json import JsonObject, parse_json
from assay.progress import Progress
from assay.search.store import DamagedIndexError

_MANIFEST = "manifest.json"
_CURRENT = "current"
# The engine maps its files into memory, where a full disk is not an error but kills the process:
# so this much must be left at each step.
DISK_MARGIN = 64 << 20
HASHED_WHEN_OPENED = 256 << 20
"""An index of fewer bytes is read and hashed whenever it is opened (0.1 s at most for
each 100 MB); of a larger one, only files whose time has changed.
"""


@dataclass(frozen=True, slots=True)
class _Sealed:
    """What a file was when the generation was sealed."""

    size: int
    sha256: str
    modified_ns: int

    def __post_init__(self) -> None:
        if (type(self.size), type(self.sha256), type(self.modified_ns)) != (int, str, int):
            raise TypeError


def live_generation(home: Path) -> Path | None:
    """The generation of the index in `home` that is searched; None if there is none."""
    try:
        name = read_text_file(home / _CURRENT, encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    # Emptied or overwritten, it names no generation: then there is none.
    return home / name if name.isalnum() else None


def name_live_generation(home: Path, generation: Path) -> None:
    """Make a generation the one that is searched."""
    atomic_write(home / _CURRENT, generation.name.encode("ascii"))


def retract_generation(generation: Path) -> None:
    """It is damaged, which checksums did not show: from now on, opening it says so.

    Nothing but the generation is touched: a writer may be naming the next one at this moment.
    """
    with suppress(OSError):
        (generation / _MANIFEST).unlink()


def remove_generations_but(home: Path, live: Path | None) -> None:
    """Old generations, and what killed writers left. A process that still searches an old one
    has its files open, and so keeps them.
    """
    for path in home.iterdir() if home.is_dir() else ():
        if path.is_dir() and path != live:
            shutil.rmtree(path, ignore_errors=True)


def seal(generation: Path, manifest: JsonObject) -> None:
    """Nothing is written to the generation after this; a power cut leaves all of it or nothing.

    `manifest`: what the index says about itself.
    """
    files = _describe(generation)
    for name in files:
        (generation / name).chmod(0o600)  # it holds texts, and libraries ask nobody
        sync_file(generation / name)
    content: JsonObject = {"manifest": manifest, "files": files}
    content["sha256"] = _content_hash(content)
    atomic_write(generation / _MANIFEST, json.dumps(content, indent=1).encode())


def read_manifest(generation: Path) -> JsonObject:
    """The manifest that a generation was sealed with."""
    manifest: JsonObject = _content(generation)["manifest"]
    return manifest


def check_files(generation: Path, *, every: bool = False) -> None:
    """Raise `DamagedIndexError` unless the files are those that were sealed.

    Parameters:
        every: hash all files; else those whose time of change is another than when they were
            sealed. Sizes are compared in any case.
    """
    for path, sealed in _files(generation).items():
        try:
            status = path.lstat()
        except OSError:
            raise damaged_index(generation, f"{path.name} is missing") from None
        if not stat.S_ISREG(status.st_mode):
            raise damaged_index(generation, f"{path.name} is not a regular file")
        if status.st_size != sealed.size:
            raise damaged_index(generation, f"{path.name} has another size")
        untouched = status.st_mtime_ns == sealed.modified_ns
        if untouched and not every:
            continue
        try:
            same = _file_hash(path) == sealed.sha256
        except OSError as error:
            raise damaged_index(generation, str(error)) from None
        if not same:
            raise damaged_index(generation, f"{path.name} does not match its checksum")
        if not untouched:
            # The engine rewrites some files as they were, and a copy has new times: by setting
            # them back, the next one who opens the index has less to hash.
            with suppress(OSError, OverflowError):
                os.utime(path, ns=(status.st_atime_ns, sealed.modified_ns))


def is_hashed_when_opened(generation: Path) -> bool:
    """Whether the index is small enough to be hashed entirely whenever it is opened."""
    return sum(one.size for one in _files(generation).values()) <= HASHED_WHEN_OPENED


def are_sealed(generation: Path, paths: Iterable[Path]) -> bool:
    """Whether all of these files belong to the generation."""
    files = _files(generation)
    return all(path in files for path in paths)


def copy_generation(source: Path, target: Path) -> None:
    """Only the files that were sealed: a process that opens the source makes some for a moment."""
    files = _files(source)
    require_disk_space(target.parent, sum(one.size for one in files.values()))
    for path in files:
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copied)


def require_disk_space(home: Path, needed: int) -> None:
    """Raise `SearchError` where fewer than `needed` bytes and a margin are free."""
    free = shutil.disk_usage(home).free
    if free < needed + DISK_MARGIN:
        raise _full_disk(home, f"{free >> 20} MB free, {(needed + DISK_MARGIN) >> 20} MB needed")


def damaged_index(generation: Path, why: str) -> DamagedIndexError:
    """The error for an index whose files are not as they were written."""
    return DamagedIndexError(f"the index at {generation.parent} is damaged ({why})")


@contextmanager
def engine_errors(where: str) -> Iterator[None]:
    """The engine raises bare Exceptions, and its panics are not even those."""
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise DamagedIndexError(f"the index at {where} cannot be used ({error})") from error


@contextmanager
def disk_errors(home: Path) -> Iterator[None]:
    """Errors of the disk and of the engine as `SearchError`, with what to do about them."""
    try:
        with engine_errors(str(home)):
            yield
    except OSError as error:
        raise _full_disk(home, str(error)) from error
    except SearchError as error:
        if "No space left" in str(error):
            raise _full_disk(home, "no space left") from error
        raise


def _full_disk(home: Path, why: str) -> SearchError:
    return SearchError(
        f"the index at {home} cannot be written ({why}); the previous index is intact, and "
        "computed embeddings are cached. Free some space, or set QDRANT_PATH to another folder"
    )


def _content(generation: Path) -> JsonObject:
    try:
        content = parse_json(read_file(generation / _MANIFEST))
    except (OSError, ValueError) as error:
        raise damaged_index(generation, str(error)) from None
    if not isinstance(content, dict) or not isinstance(content.get("manifest"), dict):
        raise damaged_index(generation, f"{_MANIFEST} has no manifest")
    if content.get("sha256") != _content_hash(content):
        raise damaged_index(generation, f"{_MANIFEST} does not match its checksum")
    return content


def _files(generation: Path) -> dict[Path, _Sealed]:
    content = _content(generation)
    try:
        listed = {name: _Sealed(**one) for name, one in content["files"].items()}
    except (KeyError, TypeError, AttributeError):
        raise damaged_index(generation, f"{_MANIFEST} lists no files") from None
    for name in map(Path, listed):
        # The files of a list are read, and copied.
        if name.anchor or ".." in name.parts or "\0" in str(name):
            raise damaged_index(generation, f"{_MANIFEST} lists files outside of the index")
    return {generation / name: sealed for name, sealed in listed.items()}


def _describe(generation: Path) -> JsonObject:
    return {
        str(path.relative_to(generation)): {
            "size": path.stat().st_size,
            "sha256": _file_hash(path),
            "modified_ns": path.stat().st_mtime_ns,
        }
        for path in sorted(generation.rglob("*"))
        if path.is_file() and path.name != _MANIFEST
    }


def _content_hash(content: JsonObject) -> str:
    """The hash of everything in the manifest's file but this hash itself."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _file_hash(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def writer_lock(path: Path, progress: Progress) -> Iterator[None]:
    """Held while an index is built; `progress` gets the process that is waited for."""
    lock = FileLock(path)
    with disk_errors(path.parent):
        for holder in lock.wait():
            progress(f"waiting for {holder}, which is building this index", 0, None)
    try:
        yield
    finally:
        lock.release()

"""The files of one embedded index, and the lock of its writer.

A generation is complete before it is named, and never changed afterwards.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.errors import SearchError
from assay.files import FileLock, atomic_write
from assay.net.json import JsonObject
from assay.progress import Progress
from assay.search.store import DamagedIndexError, Manifest

_MANIFEST = "manifest.json"
_BLOCK = 1 << 16
# The engine maps its files into memory, where a full disk is not an error but kills the process:
# so this much must be left at each step.
DISK_MARGIN = 64 << 20


def seal(generation: Path, manifest: Manifest) -> None:
    """Nothing is written to the generation after this."""
    content = {"manifest": manifest.as_json(), "sizes": _sizes(generation)}
    atomic_write(generation / _MANIFEST, json.dumps(content, indent=1).encode())


def read_manifest(generation: Path) -> Manifest:
    """What the index says about itself."""
    content = _content(generation)
    return Manifest.from_json(content["manifest"], str(generation.parent))


def check_sizes(generation: Path) -> None:
    """A file that was cut short would end the process when the engine maps it."""
    for path, size in _files(generation).items():
        if not path.is_file() or path.stat().st_size != size:
            raise damaged_index(generation, f"{path.name} is missing or has a different size")


def copy_generation(source: Path, target: Path) -> None:
    """Only the files that were sealed: a process that opens the source makes some for a moment."""
    files = _files(source)
    refuse_full_disk(target.parent, sum(_used(path) for path in files))
    for path in files:
        copied = target / path.relative_to(source)
        copied.parent.mkdir(parents=True, exist_ok=True)
        _copy_sparse(path, copied)


def refuse_full_disk(home: Path, needed: int) -> None:
    """Raise `SearchError` where fewer than `needed` bytes and a margin are free."""
    free = shutil.disk_usage(home).free
    if free < needed + DISK_MARGIN:
        raise _full_disk(home, f"{free >> 20} MB free, {(needed + DISK_MARGIN) >> 20} MB needed")


def damaged_index(generation: Path, why: str) -> DamagedIndexError:
    """The error for an index whose files are not as they were written."""
    return DamagedIndexError(
        f"the index at {generation.parent} is damaged ({why}); rebuild it with: assay index "
        "(vectors come from the cache)"
    )


@contextmanager
def engine_errors(where: str) -> Iterator[None]:
    """The engine raises bare Exceptions, and its panics are not even those."""
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise DamagedIndexError(
            f"the index at {where} cannot be used ({error}); rebuild it with: assay index "
            "(vectors come from the cache)"
        ) from error


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
        content = json.loads((generation / _MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise damaged_index(generation, str(error)) from None
    if not isinstance(content, dict) or not isinstance(content.get("manifest"), dict):
        raise damaged_index(generation, f"{_MANIFEST} has no manifest")
    return content


def _files(generation: Path) -> dict[Path, int]:
    sizes = _content(generation).get("sizes")
    if not isinstance(sizes, dict):
        raise damaged_index(generation, f"{_MANIFEST} lists no files")
    return {generation / name: size for name, size in sizes.items()}


def _sizes(generation: Path) -> dict[str, int]:
    return {
        str(path.relative_to(generation)): path.stat().st_size
        for path in sorted(generation.rglob("*"))
        if path.is_file() and path.name != _MANIFEST
    }


def _used(path: Path) -> int:
    """On the disk, which is less than the size: the engine preallocates."""
    status = path.stat()
    return getattr(status, "st_blocks", status.st_size // 512) * 512


def _copy_sparse(source: Path, target: Path) -> None:
    """Most of a preallocated file is holes, which a plain copy would fill."""
    with source.open("rb") as reader, target.open("wb") as writer:
        while block := reader.read(_BLOCK):
            if block.count(0) == len(block):
                writer.seek(len(block), os.SEEK_CUR)
            else:
                writer.write(block)
        writer.truncate()


@contextmanager
def writer_lock(path: Path, progress: Progress) -> Iterator[None]:
    """Held while an index is built; `progress` gets the process that is waited for."""
    lock = FileLock(path)
    for holder in lock.wait():
        progress(f"waiting for {holder}, which is building this index", 0, None)
    try:
        yield
    finally:
        lock.release()

"""Files that survive a crash: atomic writes, and locks that the operating system frees.

Every file that Assay replaces is replaced here, so that a reader never sees half of one, and a
power cut leaves either the old content or the new.
"""

import errno
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

_STALE_S = 3600.0
"""A part file that nobody has written to for so long belongs to a process that was killed."""

_STALE_FOLDER_S = 86_400.0
"""The same of a folder, whose own time says nothing about what is written in the files in it."""

_OWNER_ONLY = 0o600
"""Of new files: nearly all hold texts of queries, documents or answers, or figures of them."""

_LOCK_BYTE = 0x7FFFFFF0
"""Windows locks byte ranges, and nobody can read a locked one: this is far beyond any content."""


def atomic_write(path: Path, content: bytes) -> None:
    """Replace `path` by `content`, all or nothing; parent folders are created.

    Raises `OSError`. Concurrent writers do not disturb each other: the last rename wins.
    """
    with atomic_writer(path) as file:
        file.write(content)


@contextmanager
def atomic_writer(path: Path) -> Iterator[BinaryIO]:
    """A file object whose content replaces `path` when the block ends without an exception.

    The content goes to a part file beside `path`, is synced to disk and renamed. On an exception
    the part file is removed and `path` stays as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        mode = _mode_of(path)
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    remove_part_files(path.parent, f".{path.name}.", older_than=_STALE_S)


def sync_file(path: Path) -> None:
    """Wait until a file that another has written is on disk. Raises `OSError`."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def reserve_file(path: Path) -> None:
    """Take the room on disk that a file has in name only. Raises `OSError` where it is full.

    Who writes into a mapped file for which there is no room is killed by a signal.
    """
    if sys.platform != "win32" and hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise  # others: a file system that cannot tell


def move_into_place(part: Path, path: Path) -> None:
    """Replace `path` by `part`, a finished file beside it, once it is on disk. Raises `OSError`."""
    sync_file(part)
    part.replace(path)
    _sync_folder(path.parent)


def _mode_of(path: Path) -> int:
    """For its owner alone, unless the file that is replaced was opened to others."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        return _OWNER_ONLY


def make_private_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Create `path` for its owner alone, where it does not exist; its parents are created as usual.

    For folders that hold texts of documents, queries or answers. Raises `OSError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=0o700, exist_ok=exist_ok)


@contextmanager
def staging_folder(target: Path) -> Iterator[Path]:
    """An empty folder beside `target`: what is made in it is renamed to its place when it is whole.

    It is removed at the end, as are those that killed processes left. Raises `OSError`.
    """
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    make_private_folder(part)
    try:
        yield part
    finally:
        shutil.rmtree(part, ignore_errors=True)
    _sync_folder(target.parent)
    remove_part_files(target.parent, f".{target.name}.", older_than=_STALE_FOLDER_S)


def remove_part_files(folder: Path, prefix: str = ".", *, older_than: float = 0.0) -> None:
    """Remove part files, and staging folders, that killed processes left in `folder`.

    Parameters:
        prefix: how their names begin.
        older_than: seconds since they were last written to; with 0, the caller must be sure that
            no other process writes there.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(".part"):
                with suppress(OSError):
                    if time.time() - entry.stat().st_mtime < older_than:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path)
                    else:
                        os.unlink(entry.path)  # noqa: PTH108 (of an entry of scandir)


def _sync_folder(folder: Path) -> None:
    """The rename itself is on disk only when the folder is; not every system lets it be synced."""
    if sys.platform == "win32":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def try_lock(descriptor: int, *, shared: bool = False) -> bool:
    """Lock an open file without waiting; False if another process holds the lock.

    The lock ends with the descriptor, also when the process dies. `shared` locks exclude only
    exclusive ones (on Windows every lock is exclusive).
    """
    if sys.platform == "win32":
        import msvcrt

        position = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCK_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(descriptor, position, os.SEEK_SET)
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_locked(path: Path) -> bool:
    """Whether some process holds an exclusive lock on `path`; False if there is no file."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        return not try_lock(file.fileno(), shared=True)


class FileLock:
    """An exclusive lock between processes, held on a file of its own.

    The file keeps the process id of its holder, for messages, and is never deleted: two processes
    could otherwise hold locks on two files of one name.

    Parameters:
        path: the lock file; created where it is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting; False if another process holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
        if not try_lock(descriptor):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        with suppress(OSError):  # a full disk has no room for the name, but the lock is held
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()}".encode())
        return True

    def wait(self, *, interval: float = 0.2) -> Iterator[str]:
        """Yield the holder's name each time the lock is found taken; end when it is acquired."""
        while not self.acquire():
            yield self.holder()
            time.sleep(interval)

    def holder(self) -> str:
        """Who holds the lock, as far as its file says."""
        with suppress(OSError):
            if text := self.path.read_text(encoding="utf-8", errors="replace").strip():
                return text
        return "another process"

    def release(self) -> None:
        """Free the lock; does nothing where it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        for _ in self.wait():
            pass
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.release()

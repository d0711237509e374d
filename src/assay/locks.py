"""Locks between processes, which the operating system frees when their holder dies."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

from assay.files import UnreadableFile, open_file, open_to_lock, read_file

_LOCK_POLL_S = 0.2
_LOCK_BYTE = 0x7FFFFFF0
"""Windows locks byte ranges, and nobody can read a locked one: this is far beyond any content."""


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
    """Whether some process holds an exclusive lock on `path`; False if the file does not exist."""
    try:
        file = open_file(path)
    except (FileNotFoundError, UnreadableFile):  # who reads it says what is wrong
        return False
    with file:
        return not try_lock(file.fileno(), shared=True)


class FileLock:
    """An exclusive lock between processes, held on its own file.

    The file keeps the process id of its holder, for messages, and is never deleted: two processes
    could otherwise hold locks on two files of one name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting; False if another process holds it."""
        descriptor = open_to_lock(self.path)
        if not try_lock(descriptor):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        with suppress(OSError):  # a full disk has no room for the name, but the lock is held
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()}".encode())
        return True

    def wait(self) -> Iterator[str]:
        """Yield the holder's name each time the lock is found taken; end when it is acquired."""
        while not self.acquire():
            yield self.holder()
            time.sleep(_LOCK_POLL_S)

    def holder(self) -> str:
        """Who holds the lock, as far as its file says."""
        with suppress(OSError):
            if text := read_file(self.path, limit=200).decode(errors="replace").strip():
                return text
        return "another process"

    def release(self) -> None:
        """Free the lock; does nothing if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        for _ in self.wait():
            pass
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

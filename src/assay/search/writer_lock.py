"""One process at a time makes a new index of a collection; the others wait for it."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assay.progress import Progress

_PAUSE = 0.2


@contextmanager
def writer_lock(path: Path, progress: Progress) -> Iterator[None]:
    """The kernel frees the lock of a process that dies, so it is never left behind."""
    with path.open("a+") as file:
        while not _taken(file.fileno()):
            file.seek(0)
            holder = file.read().strip() or "another process"
            progress(f"waiting for {holder}, which is building this index", 0, None)
            time.sleep(_PAUSE)
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()}")
        file.flush()
        yield


def _taken(descriptor: int) -> bool:
    if sys.platform == "win32":
        return True  # two builders at once are then on their own: the later one wins
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

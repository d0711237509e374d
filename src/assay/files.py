"""Files: atomic writes, locks between processes, and reading what others wrote.

A reader never sees half of a file, and a power cut leaves the old content or the new. A pipe or a
device in the place of a file would block for ever, or never end, so it is not opened.
"""

import errno
import os
import secrets
import shutil
import stat
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, Self

from assay.errors import AssayError, UsageError

PROJECT_FILE = "assay.toml"
FILE_MAX_BYTES = 256 * 2**20  # of a file that is read as a whole
# Of one line: a few kilobytes of gzip unpack to gigabytes without a line end.
MAX_LINE = 64 * 2**20
# A part file that nobody has written to for so long belongs to a process that was killed. A folder
# needs longer: its own time says nothing about what is written in the files in it.
_STALE_S = 3600.0
_STALE_FOLDER_S = 86_400.0
# New files nearly all hold texts of queries, documents or answers, or figures of them.
_OWNER_ONLY = 0o600
_LOCK_POLL_S = 0.2
# Windows locks byte ranges, and nobody can read a locked one: this is far beyond any content.
_LOCK_BYTE = 0x7FFFFFF0
_FROM_THE_SHELL = ("/dev/fd/", "/dev/stdin")
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)
_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_BINARY = getattr(os, "O_BINARY", 0)


def find_project_file(folder: Path | None = None) -> Path | None:
    """The nearest `assay.toml`: in `folder` (default: the working folder) or in one above it.

    None if there is none. Relative paths in the file are relative to the file's own folder.
    """
    start = (folder or Path.cwd()).absolute()
    places = (each / PROJECT_FILE for each in (start, *start.parents))
    return next((path for path in places if path.is_file()), None)


def read_project_file(folder: Path | None = None) -> dict[str, Any]:
    """The content of `assay.toml`; empty if there is none. Raises `UsageError`."""
    path = find_project_file(folder)
    if path is None:
        return {}
    # One in /tmp, say, that another user put there can name programs to run.
    owner, parent = path.lstat().st_uid, path.absolute().parent.stat()
    if parent.st_mode & stat.S_IWOTH and sys.platform != "win32" and owner not in (0, os.getuid()):
        raise UsageError(
            f"{path} belongs to another user, in a folder that all can write to: it could run any "
            "program; run assay in a folder of your own, or remove the file"
        )
    try:
        return tomllib.loads(read_text_file(path, encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{PROJECT_FILE} is not TOML: {error}") from None


class UnreadableFile(AssayError, OSError):
    """A file that is there and cannot be read: a pipe, no permission, too large."""

    def __str__(self) -> str:
        return f"{self.filename}: cannot be read: {self.strerror}"


def open_file(path: Path) -> BufferedReader:
    """Open a regular file for reading. A pipe, a socket or a device is refused, without waiting.

    What the shell hands over, `<(command)` or /dev/stdin, is read, and waited for. Raises
    `FileNotFoundError`, or `UnreadableFile` for one that cannot be read.
    """
    try:
        if str(path).startswith(_FROM_THE_SHELL):
            return Path(path).open("rb")
        return open(path, "rb", opener=_open_regular)
    except (FileNotFoundError, UnreadableFile):
        raise
    except OSError as error:
        raise UnreadableFile(error.errno, error.strerror, str(path)) from None


def read_file(path: Path, *, limit: int = FILE_MAX_BYTES) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises as `open_file` does."""
    with open_file(path) as file:
        # Not all of `limit` at once: room would be taken for it, whatever the size of the file.
        size = min(limit, os.fstat(file.fileno()).st_size)
        content = file.read(size + 1)
        if size < len(content) <= limit:  # of the shell's pipe, or of a file that has grown
            content += file.read(limit + 1 - len(content))
    if len(content) > limit:
        raise UnreadableFile(errno.EFBIG, f"it is larger than {limit:,} bytes", str(path))
    return content


def read_text_file(path: Path, *, encoding: str = "utf-8", limit: int = FILE_MAX_BYTES) -> str:
    """The text of a regular file, with `\\n` at the ends of lines.

    Raises as `open_file` does, and UnicodeDecodeError.
    """
    text = read_file(path, limit=limit).decode(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_lines(path: Path, *, limit: int = MAX_LINE) -> Iterator[bytes]:
    """The lines of a regular file with their ends, none longer than `limit`."""
    with open_file(path) as file:
        for number, line in enumerate(iter(partial(file.readline, limit + 1), b""), start=1):
            if len(line) > limit:
                what = f"line {number} is longer than {limit:,} bytes"
                raise UnreadableFile(errno.EFBIG, what, str(path))
            yield line


def read_tail(file: BinaryIO, limit: int = 4096) -> str:
    """The last `limit` bytes of an open file as text."""
    end = file.seek(0, os.SEEK_END)
    file.seek(max(0, end - limit))
    return file.read(limit).decode("utf-8", errors="replace")


def complete_lines(
    path: Path, start: int = 0, *, limit: int = MAX_LINE
) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that may still grow, from offset `start`, each with that of its end.

    A last line without an end is left out: somebody is writing it, or was killed in the middle.
    """
    with open_file(path) as file:
        file.seek(start)
        while (line := file.readline(limit + 1)).endswith(b"\n") and len(line) <= limit:
            start += len(line)
            yield start, line
    if len(line) > limit:
        what = f"it has a line of more than {limit:,} bytes"
        raise UnreadableFile(errno.EFBIG, what, str(path))


def require_regular(path: Path) -> None:
    """For a path that a library will open itself. Raises as `open_file` does."""
    open_file(path).close()


def open_to_append(path: Path) -> int:
    """A descriptor of a regular file that is read and appended to; created if it is missing.

    A link is not followed: a run folder from elsewhere must not lead a writer to other files.
    """
    return _open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _NO_LINKS | _BINARY)


def create_file(path: Path) -> BinaryIO:
    """A new file for its owner alone, to be written and read; what had the name is removed."""
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _BINARY
    return os.fdopen(os.open(path, flags, _OWNER_ONLY), "w+b")


def _open_regular(path: str | Path, flags: int) -> int:
    try:
        # Without O_NONBLOCK, opening a pipe waits for somebody at its other end.
        descriptor = os.open(path, flags | _NO_WAITING, _OWNER_ONLY)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    except OSError as error:
        if error.errno not in (errno.ENXIO, errno.ELOOP):  # a socket; a link if none is followed
            raise
    raise UnreadableFile(errno.EINVAL, "it is not a regular file", str(path))


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
    # A random name: two writers of one path must not write into one part file.
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        mode = _OWNER_ONLY
        with suppress(OSError):  # unless the file that is replaced was opened to others
            mode = path.stat().st_mode & 0o777
        with os.fdopen(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    _sync_folder(path.parent)
    remove_part_files(path.parent, f".{path.name}.", older_than=_STALE_S)


@contextmanager
def output_writer(path: Path) -> Iterator[BinaryIO]:
    """`atomic_writer` for a path that a user named: what a link points to is replaced, not the
    link, and a pipe or a device such as /dev/stdout is written to.
    """
    is_device = path.exists() and not path.is_file()
    if is_device or path.is_relative_to("/dev") or path.is_relative_to("/proc"):
        with path.open("wb") as file:
            yield file
    else:
        with atomic_writer(Path(os.path.realpath(path))) as file:
            yield file


def sync_file(path: Path) -> None:
    """Wait until a file that another has written is on disk. Raises `OSError`."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def reserve_file(path: Path) -> None:
    """Take the room on disk that a file has in name only. Raises `OSError` if it is full.

    Writing to a sparse mmap on a full disk raises SIGBUS.
    """
    if sys.platform != "win32" and hasattr(os, "posix_fallocate"):
        with path.open("rb+") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                    raise  # others: a file system that cannot tell


def make_private_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Create `path` for its owner alone, if it does not exist; its parents are created as usual.

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

    With `older_than` 0 (seconds), the caller must be sure that no other process writes there.
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
    """Whether some process holds an exclusive lock on `path`; False if the file does not exist."""
    try:
        file = open_file(path)
    except (FileNotFoundError, UnreadableFile):  # who reads it says what is wrong
        return False
    with file:
        return not try_lock(file.fileno(), shared=True)


class FileLock:
    """An exclusive lock between processes, held on its own file.

    The file is never deleted: two processes could otherwise hold locks on two files of one name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting; False if another process holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_to_append(self.path)
        if not try_lock(descriptor):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        return True

    def wait(self, tell: Callable[[], None] = lambda: None) -> None:
        """Take the lock; `tell` is called each time another process is found to hold it."""
        while not self.acquire():
            tell()
            time.sleep(_LOCK_POLL_S)

    def release(self) -> None:
        """Free the lock; does nothing if it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.wait()
        return self

    def __exit__(self, *_error: object) -> None:
        self.release()

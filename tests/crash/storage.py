"""A file system that fails at the n-th step, and a process that dies there.

Every change that this process makes below one folder is a step: opening for writing, each write,
sync, rename, removal and truncation, and each SQL statement. The functions of `os`, `io` and
`sqlite3` are replaced, so code that writes past `assay.files` is covered as well.
"""

import builtins
import errno
import io
import os
import signal
import sqlite3
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Fault(StrEnum):
    KILL = "killed"
    TORN = "killed in the middle of a write"
    POWER = "power cut: what was not synced is lost"
    ENOSPC = "disk full from here on"
    EIO = "one I/O error"
    EROFS = "read-only from here on"
    SHORT = "one short write"


KILLS = (Fault.KILL, Fault.TORN, Fault.POWER)
ERRORS = (Fault.ENOSPC, Fault.EIO, Fault.EROFS, Fault.SHORT)

_TAKES_SPACE = ("open", "write", "mkdir", "sql")
_SQL_TEXT = {
    Fault.ENOSPC: "database or disk is full",
    Fault.EIO: "disk I/O error",
    Fault.EROFS: "attempt to write a readonly database",
}


def applies(fault: Fault, step: str) -> bool:
    if fault in (Fault.TORN, Fault.SHORT):
        return step == "write"
    if fault is Fault.ENOSPC:
        return step in _TAKES_SPACE or step == "fsync"
    return True


class FaultyStorage:
    """Counts the steps below `root`, and fails at number `at` (from 1; 0: never).

    `steps` are the names of the steps so far.
    """

    def __init__(self, root: Path, fault: Fault | None = None, at: int = 0) -> None:
        self.root = str(root.resolve()) + os.sep
        self.fault, self.at = fault, at
        self.steps: list[str] = []
        self._synced: dict[str, int] = {}
        self._real = {name: getattr(os, name) for name in _OS_FUNCTIONS}

    def install(self) -> None:
        """For the rest of this process: it is a child that ends with the test."""
        for name, make in _OS_FUNCTIONS.items():
            setattr(os, name, make(self, self._real[name]))
        opened = _opening(self, io.open)
        io.open = builtins.open = opened
        _install_sql(self)

    def covers(self, path: Any) -> bool:
        return self.name_of(path) is not None

    def name_of(self, path: Any) -> str | None:
        """The absolute name of what is below the folder."""
        if isinstance(path, int):
            try:
                name = os.readlink(f"/proc/self/fd/{path}")  # noqa: PTH115
            except OSError:
                return None
        else:
            name = os.path.abspath(os.fspath(path))  # noqa: PTH100 (no symbolic links)
        return name if name.startswith(self.root) else None

    def step(self, kind: str) -> None:
        self.steps.append(kind)
        if self.fault is None or len(self.steps) < self.at or not self.at:
            return
        first = len(self.steps) == self.at
        if self.fault in (Fault.KILL, Fault.POWER) and first:
            self.die()
        if self.fault is Fault.EIO and first:
            _fail(kind, self.fault, errno.EIO)
        if self.fault is Fault.EROFS:
            _fail(kind, self.fault, errno.EROFS)
        if self.fault is Fault.ENOSPC and (first or kind in _TAKES_SPACE):
            _fail(kind, self.fault, errno.ENOSPC)

    def write(self, number: Any, data: Any, real: Callable[[Any], int]) -> int:
        self.remember(number)
        self.step("write")
        if len(self.steps) == self.at and self.fault in (Fault.TORN, Fault.SHORT):
            part = bytes(data)[: len(data) // 2]
            written = real(part) if part else 0
            if self.fault is Fault.TORN:
                self.die()
            return written
        return real(data)

    def remember(self, path: Any, *, size: int | None = None) -> None:
        """That a file is about to have content which is not synced."""
        name = self.name_of(path)
        if name is not None and name not in self._synced:
            self._synced[name] = os.stat(name).st_size if size is None else size  # noqa: PTH116

    def synced(self, path: Any) -> None:
        if (name := self.name_of(path)) is not None:
            self._synced.pop(name, None)

    def moved(self, source: Any, target: Any) -> None:
        before, after = self.name_of(source), self.name_of(target)
        if before is not None and after is not None:
            self._synced.pop(after, None)
            if before in self._synced:
                self._synced[after] = self._synced.pop(before)

    def die(self) -> NoReturn:
        """Leave the disk as a kill, or a power cut, leaves it."""
        if self.fault is Fault.POWER:
            for name, size in self._synced.items():
                if os.path.exists(name):  # noqa: PTH110
                    os.truncate(name, size)
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


def _fail(kind: str, fault: Fault, number: int) -> NoReturn:
    if kind == "sql":
        raise sqlite3.OperationalError(_SQL_TEXT[fault])
    raise OSError(number, os.strerror(number))


def _os_open(storage: FaultyStorage, real: Callable[..., int]) -> Callable[..., int]:
    def opened(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & _WRITING and storage.covers(path):
            storage.step("open")
        return real(path, flags, *more, **named)

    return opened


def _os_write(storage: FaultyStorage, real: Callable[..., int]) -> Callable[..., int]:
    def written(number: int, data: Any) -> int:
        if not storage.covers(number):
            return real(number, data)
        return storage.write(number, data, lambda part: real(number, part))

    return written


def _os_fsync(storage: FaultyStorage, real: Callable[..., None]) -> Callable[..., None]:
    def synced(number: int) -> None:
        if storage.covers(number):
            storage.step("fsync")
            storage.synced(number)
        # A real sync takes as long as all others of this test together, and nothing depends on it.

    return synced


def _os_replace(storage: FaultyStorage, real: Callable[..., None]) -> Callable[..., None]:
    def replaced(source: Any, target: Any, **named: Any) -> None:
        if storage.covers(target):
            storage.step("replace")
        real(source, target, **named)
        storage.moved(source, target)

    return replaced


def _on_path(kind: str) -> Callable[[FaultyStorage, Callable[..., Any]], Callable[..., Any]]:
    def make(storage: FaultyStorage, real: Callable[..., Any]) -> Callable[..., Any]:
        def changed(path: Any, *more: Any, **named: Any) -> Any:
            if named.get("dir_fd") is None and storage.covers(path):
                storage.step(kind)
            return real(path, *more, **named)

        return changed

    return make


_OS_FUNCTIONS: dict[str, Callable[[FaultyStorage, Any], Callable[..., Any]]] = {
    "open": _os_open,
    "write": _os_write,
    "fsync": _os_fsync,
    "replace": _os_replace,
    "rename": _os_replace,
    "unlink": _on_path("unlink"),
    "mkdir": _on_path("mkdir"),
    "ftruncate": _on_path("truncate"),
}


class _File(io.FileIO):
    storage: FaultyStorage

    def write(self, data: Any) -> int:
        return self.storage.write(self.fileno(), data, super().write)


def _opening(storage: FaultyStorage, real: Callable[..., Any]) -> Callable[..., Any]:
    def opened(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        **named: Any,
    ) -> Any:
        if isinstance(file, int) or not set(mode) & set("wax+") or not storage.covers(file):
            return real(file, mode, buffering, encoding, errors, newline, **named)
        storage.step("open")
        raw = _File(os.fspath(file), mode.replace("b", "").replace("t", ""))
        raw.storage = storage
        if "a" not in mode:
            storage.remember(file, size=0)
        if buffering == 0:
            return raw
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    return opened


def _install_sql(storage: FaultyStorage) -> None:
    real: Any = sqlite3.connect

    class Connection(sqlite3.Connection):
        def execute(self, *statement: Any) -> sqlite3.Cursor:
            storage.step("sql")
            return super().execute(*statement)

        def executemany(self, *statement: Any) -> sqlite3.Cursor:
            storage.step("sql")
            return super().executemany(*statement)

        def __exit__(self, *error: Any) -> Any:  # commits
            storage.step("sql")
            return super().__exit__(*error)

    def connect(path: Any, *more: Any, **named: Any) -> sqlite3.Connection:
        factory = Connection if storage.covers(path) else sqlite3.Connection
        opened: sqlite3.Connection = real(path, *more, **{"factory": factory, **named})
        return opened

    sqlite3.connect = connect  # type: ignore[assignment]

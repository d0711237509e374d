"""Work in processes beside this one: a large corpus is read, split and counted on all cores.

They are `python -m assay.search.workers` with pickled calls on their standard input: those of
multiprocessing would run the user's own script once more.
"""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any, TypeVar, cast

from assay.errors import SearchError, UsageError

_Item = TypeVar("_Item")
_Process = subprocess.Popen[bytes]


def usable_cores() -> int:
    """The cores that this process may use."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return found or 1


def integer_setting(name: str) -> int | None:
    """The environment variable; None if it is not set. Raises `UsageError` for one below 1."""
    value = os.environ.get(name, "")
    if value and (not value.isdecimal() or int(value) < 1):
        raise UsageError(f"{name} must be an integer >= 1, got {value!r}")
    return int(value) if value else None


class Workers:
    """with Workers(context) as workers: workers.submit(function, 1, 2).result()

    Calls `function(context, 1, 2)` in one of `count` processes, to which `context` is sent once.
    With a `count` of 0, or a context that no other process can load, every call is made at once,
    in this process.
    """

    def __init__(self, context: object, count: int) -> None:
        self._context = context
        self._packed = _packed(context) if count else b""
        self._count = count = count if self._packed else 0
        self._threads = ThreadPoolExecutor(max(1, count), thread_name_prefix="assay-worker")
        self._started: list[_Process] = []
        self._idle: SimpleQueue[_Process | None] = SimpleQueue()
        for _ in range(count):
            self._idle.put(None)  # started when it is first needed

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for process in self._started if kind else ():
            process.kill()  # an interrupt does not wait for what they do
        self._threads.shutdown(cancel_futures=True)
        for process in self._started:
            with suppress(BrokenPipeError):
                cast(IO[bytes], process.stdin).close()
            process.wait()
            cast(IO[bytes], process.stdout).close()

    def submit(self, function: Callable[..., Any], *arguments: object) -> "Future[Any]":
        """The result of a call, as soon as there is one."""
        if self._count:
            return self._threads.submit(self._call, function, arguments)
        done: Future[Any] = Future()
        done.set_result(function(self._context, *arguments))
        return done

    def map(
        self, function: Callable[..., Any], arguments: Iterable[tuple[object, ...]]
    ) -> Iterator[Any]:
        """The results in order; only a few calls are ahead of the one that is waited for."""
        waiting: deque[Future[Any]] = deque()
        for each in arguments:
            waiting.append(self.submit(function, *each))
            if len(waiting) > self._count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _call(self, function: Callable[..., Any], arguments: tuple[object, ...]) -> Any:
        process = self._idle.get()
        try:
            process = process or self._start()
            pickle.dump((function, arguments), cast(IO[bytes], process.stdin), protocol=5)
            cast(IO[bytes], process.stdin).flush()
            good, result = pickle.load(cast(IO[bytes], process.stdout))
        except (EOFError, OSError):
            raise SearchError(
                "an indexing process was killed, perhaps because memory ran out; free some and "
                "run this again: stored vectors are not computed again"
            ) from None
        finally:
            self._idle.put(process)
        if not good:
            raise result
        return result

    def _start(self) -> _Process:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__],  # no code from the working folder
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process; the others end with it
        )
        self._started.append(process)
        stdin = cast(IO[bytes], process.stdin)
        stdin.write(self._packed)
        stdin.flush()
        return process


def _packed(context: object) -> bytes:
    try:
        packed = pickle.dumps(context)
    except (AttributeError, TypeError, pickle.PicklingError):  # it holds a lambda or a connection
        return b""
    # What the user's own script defines, an embedder say, is not found under that name elsewhere.
    return b"" if b"__main__" in packed else packed


def ahead(items: Iterator[_Item]) -> Iterator[_Item]:
    """The items, each made in a thread while the one before is used."""
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="assay-ahead") as thread:
        coming = thread.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, items, end)
            yield cast(_Item, item)


def _serve(calls: IO[bytes], answers: IO[bytes]) -> None:
    context = pickle.load(calls)
    while True:
        try:
            function, arguments = pickle.load(calls)
        except EOFError:  # the process that started this one has ended
            return
        try:
            answer = True, function(context, *arguments)
        except Exception as error:
            answer = False, error
        pickle.dump(answer, answers, protocol=5)
        answers.flush()


if __name__ == "__main__":
    _serve(sys.stdin.buffer, sys.stdout.buffer)

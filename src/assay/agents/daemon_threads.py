"""Runs blocking functions beside the event loop without ever waiting for one that hangs.

`concurrent.futures` joins its threads when the interpreter exits, so a target that never returns
would keep Assay from ending. These threads are daemons, and one that hangs is simply replaced.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")
_Job = tuple[Callable[..., Any], tuple[Any, ...], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class DaemonThreads:
    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle = 0
        self._threads = 0
        self._lock = threading.Lock()

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._work, daemon=True).start()
        self._jobs.put((function, arguments, loop, future))
        return await future

    def close(self) -> None:
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)
            self._threads = self._idle = 0

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, arguments, loop, future = job
            try:
                outcome: tuple[Any, BaseException | None] = (function(*arguments), None)
            except BaseException as error:
                outcome = (None, error)
            with self._lock:
                self._idle += 1
            _deliver(loop, future, *outcome)
            del job, function, arguments, loop, future, outcome


def _deliver(
    loop: asyncio.AbstractEventLoop,
    future: "asyncio.Future[Any]",
    result: Any,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if future.done():  # the caller gave up waiting
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):  # which a future cannot carry
            future.set_exception(RuntimeError("the function raised StopIteration"))
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        # The run ended while this call was still out; nobody waits for it.
        return

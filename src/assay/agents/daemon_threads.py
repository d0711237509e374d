"""Runs blocking functions beside the event loop without ever waiting for one that hangs.

`concurrent.futures` joins its threads when the interpreter exits, so a target that never returns
would keep Assay from ending. These threads are daemons, and one that hangs is replaced, up to a
bound: a call that was given up on still runs, and calls without number would pile up behind it.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")
_Job = tuple[Callable[..., Any], tuple[Any, ...], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


MOST_ABANDONED = 8
"""So many calls that nobody waits for may run beside those that somebody does."""


class DaemonThreads:
    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle = 0
        self._threads = 0
        self._lock = threading.Lock()
        # Looked at by the event loop alone.
        self._abandoned = 0
        self._one_has_ended = asyncio.Event()

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Waits first where too many calls that were given up on have not ended yet."""
        while self._abandoned >= MOST_ABANDONED:
            self._one_has_ended.clear()
            await self._one_has_ended.wait()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._work, daemon=True).start()
        self._jobs.put((function, arguments, loop, future))
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._abandoned += 1
            raise

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
            self._deliver(loop, future, *outcome)
            del job, function, arguments, loop, future, outcome

    def _deliver(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
        result: Any,
        error: BaseException | None,
    ) -> None:
        def settle() -> None:
            if future.done():  # the caller gave up waiting
                self._abandoned -= 1
                self._one_has_ended.set()
            elif error is None:
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

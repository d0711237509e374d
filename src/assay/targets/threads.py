"""Runs users' blocking functions in daemon threads, and never waits for a call that hangs.

`concurrent.futures` joins its threads when the interpreter exits, so a target that never returns
would keep Assay from ending.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")
_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]


class DaemonThreads:
    """A pool of daemon threads that grows as needed."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle = 0
        self._threads = 0
        self._lock = threading.Lock()

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of `function(*arguments)`, called in a thread."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                self._threads += 1
                threading.Thread(target=self._work, daemon=True).start()
        # The thread is another run's next: what is a run's own goes with the call.
        call = partial(copy_context().run, function, *arguments)
        self._jobs.put((call, loop, future))
        return await future

    def close(self) -> None:
        """End the threads that are idle; the others end when their call does."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)
            self._threads = self._idle = 0

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, loop, future = job
            try:
                settle = partial(_settle, future, call(), None)
            except StopIteration:  # which a future cannot carry
                settle = partial(_settle, future, None, RuntimeError("it raised StopIteration"))
            except BaseException as error:
                settle = partial(_settle, future, None, error)
            with self._lock:
                self._idle += 1
            try:
                loop.call_soon_threadsafe(settle)
            except RuntimeError:
                return  # the run ended while this call was still running
            del job, call, loop, future, settle  # an idle thread keeps no answer alive


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.done():  # the caller was canceled
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)

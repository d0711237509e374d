"""Runs users' functions outside of Assay's event loop, and never waits for a call that hangs.

Blocking functions run in daemon threads: `concurrent.futures` joins its threads when the
interpreter exits, so a target that never returns would keep Assay from ending. A thread that hangs
is replaced, up to a bound: an abandoned call still runs, and they would pile up without end.

Coroutines run in an event loop of their own: in ours, one that blocks would hold up timeouts,
Ctrl-C and every other call.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

Result = TypeVar("Result")
_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]

MOST_ABANDONED = 8
"""How many abandoned calls may still run before further calls wait."""


class DaemonThreads:
    """A pool of daemon threads that grows as needed."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle = 0
        self._threads = 0
        self._lock = threading.Lock()
        # Only used by the event loop.
        self._abandoned = 0
        self._abandoned_call_ended = asyncio.Event()

    async def run(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """The result of `function(*arguments)`, called in a thread.

        Waits first while too many abandoned calls are still running.
        """
        while self._abandoned >= MOST_ABANDONED:
            self._abandoned_call_ended.clear()
            await self._abandoned_call_ended.wait()
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
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._abandoned += 1
            raise

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
                outcome: tuple[Any, BaseException | None] = (call(), None)
            except BaseException as error:
                outcome = (None, error)
            with self._lock:
                self._idle += 1
            self._deliver(loop, future, *outcome)
            del job, call, loop, future, outcome

    def _deliver(
        self,
        loop: asyncio.AbstractEventLoop,
        future: "asyncio.Future[Any]",
        result: Any,
        error: BaseException | None,
    ) -> None:
        def settle() -> None:
            if future.done():  # the caller was canceled
                self._abandoned -= 1
                self._abandoned_call_ended.set()
            elif error is None:
                future.set_result(result)
            elif isinstance(error, StopIteration):  # which a future cannot carry
                future.set_exception(RuntimeError("the function raised StopIteration"))
            else:
                future.set_exception(error)

        try:
            loop.call_soon_threadsafe(settle)
        except RuntimeError:
            # The run ended while this call was still running; nothing waits for it.
            return


class LoopThread:
    """An event loop in a daemon thread, started by the first call."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
        """The result of the coroutine `function(*arguments)`, awaited in that loop."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_serve, args=(self._loop,), daemon=True).start()
        there = asyncio.run_coroutine_threadsafe(_guarded(function, *arguments), self._loop)
        return await asyncio.wrap_future(there)

    def close(self) -> None:
        """Stop the loop and cancel what still runs in it."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_the_rest())
    finally:
        loop.close()


async def _cancel_the_rest() -> None:
    """Cancel calls that nothing waits for any more, because the run was stopped."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


async def _guarded(function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> Any:
    """Turn exceptions that would end the loop, or look like our own cancellation, into errors."""
    try:
        return await function(*arguments)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise RuntimeError("the function raised CancelledError") from None
    except (KeyboardInterrupt, SystemExit) as error:
        raise RuntimeError(f"the function raised {type(error).__name__}") from None

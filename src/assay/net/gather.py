"""Concurrent calls: with a limit, where the first failure stops the others, and in threads."""

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, TypeVar

from assay.progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

_Job = tuple[Callable[[], Any], asyncio.AbstractEventLoop, "asyncio.Future[Any]"]

_AT_ONCE = 64


async def gather(calls: Iterable[Coroutine[Any, Any, Result]]) -> list[Result]:
    """The results in order. The first failure cancels the rest and is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]


async def for_each(
    items: Iterable[Item], work: Callable[[Item], Awaitable[None]], limit: int
) -> None:
    """Call `work` for every item, at most `limit` at a time.

    A fixed number of workers share the iterator, so a million items never become a million tasks.
    """
    remaining = iter(items)

    async def worker() -> None:
        for item in remaining:
            await work(item)

    await gather(worker() for _ in range(max(1, limit)))


async def gather_for(
    items: Sequence[Item],
    work: Callable[[Item], Awaitable[Result]],
    what: str,
    progress: Progress,
) -> list[Result]:
    """The result of `work` for each item, in order; `progress` counts them as they come.

    At most 64 are in work at a time, whatever limit the model behind `work` has.
    """
    results: dict[int, Result] = {}

    async def one(place: int) -> None:
        results[place] = await work(items[place])
        progress(what, len(results), len(items))

    await for_each(range(len(items)), one, _AT_ONCE)
    return [results[place] for place in range(len(items))]


def run_coroutine(work: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, also inside a running event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as beside:  # a loop cannot be entered twice in one thread
        return beside.submit(copy_context().run, asyncio.run, work).result()


class DaemonThreads:
    """A pool of daemon threads that grows as needed; a call that hangs is not waited for.

    `concurrent.futures` joins its threads when the interpreter exits, so a target that never
    returns would keep Assay from ending.
    """

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

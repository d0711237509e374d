"""Concurrent calls with a limit, whose first failure stops the others."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from assay.progress import Progress

Item = TypeVar("Item")
Result = TypeVar("Result")

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

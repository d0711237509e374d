"""Work on many things, so many at a time; the first failure ends it all."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Thing = TypeVar("Thing")


async def each(
    things: Iterable[Thing], work: Callable[[Thing], Awaitable[None]], at_once: int
) -> None:
    """As many workers as wanted share one line of things: thousands make no thousands of tasks."""
    line = iter(things)

    async def worker() -> None:
        for thing in line:
            await work(thing)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(max(1, at_once)):
                group.create_task(worker())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None

"""Several calls at once, with their results in order and their first failure as it was raised."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

Reply = TypeVar("Reply")


async def gathered(calls: Iterable[Coroutine[Any, Any, Reply]]) -> list[Reply]:
    """The first failure stops the others: none goes on unseen, asking and paying."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]

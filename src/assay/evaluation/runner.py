"""Puts many queries to a target at once, and stops at once when told to."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from assay.data.dataset import Query
from assay.evaluation.asking import Call, Put, ask
from assay.net.breaker import CircuitBreaker, CircuitLost
from assay.net.retry import RetryPolicy


async def run_calls(
    put: Put,
    queries: Iterable[Query],
    *,
    concurrency: int,
    policy: RetryPolicy,
    breaker: CircuitBreaker,
    on_call: Callable[[Call], None],
    stop: asyncio.Event,
) -> None:
    """Ask every query, `concurrency` at a time; return early when `stop` is set or it is lost.

    Calls in flight when `stop` is set are dropped, not recorded: a resumed run asks them again.
    """
    waiting = iter(queries)

    async def work() -> None:
        for query in waiting:
            try:
                call = await ask(put, query, policy, breaker)
            except CircuitLost:
                return
            on_call(call)
            # An agent that answers without waiting would never let the loop see Ctrl-C.
            await asyncio.sleep(0)

    workers = {asyncio.create_task(work()) for _ in range(concurrency)}
    stopping: asyncio.Task[Any] = asyncio.create_task(stop.wait())
    try:
        busy = set(workers)
        while busy and not stop.is_set():
            done, _ = await asyncio.wait({*busy, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for worker in done & busy:
                worker.result()  # a call that cannot be recorded ends the run
            busy -= done
    finally:
        for task in (*workers, stopping):
            task.cancel()
        await asyncio.gather(*workers, stopping, return_exceptions=True)

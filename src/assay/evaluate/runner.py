"""Puts many queries to a target at once, and stops at once when told to."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable

from assay.agents.protocol import Agent
from assay.data.dataset import Query
from assay.evaluate.asking import Call, Patience, ask
from assay.evaluate.circuit import Circuit, TargetLost


async def run_calls(
    agent: Agent,
    queries: Iterable[Query],
    *,
    top_k: int,
    concurrency: int,
    patience: Patience,
    circuit: Circuit,
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
                call = await ask(agent, query, top_k, patience, circuit)
            except TargetLost:
                return
            on_call(call)
            # An agent that answers without waiting would never let the loop see Ctrl-C.
            await asyncio.sleep(0)

    workers = asyncio.gather(*(work() for _ in range(concurrency)))
    stopper = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({workers, stopper}, return_when=asyncio.FIRST_COMPLETED)
        if workers.done():
            workers.result()
    finally:
        stopper.cancel()
        workers.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await workers

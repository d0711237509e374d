"""One query put to the target: time limit, retries for what can pass, and a classified outcome."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from assay.agents.protocol import AgentAnswer, AgentFailure, FailureKind
from assay.data.dataset import Query
from assay.evaluate.circuit import Circuit

KEPT_IDS = 1000
"""More ids than this are not kept: no metric looks that far, and an agent may send millions."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 8.0
_LONGEST_RETRY_AFTER = 60.0


@dataclass(frozen=True, slots=True)
class Call:
    """One query sent to the target, with its outcome; a line of `calls.jsonl`."""

    query_id: str
    doc_ids: tuple[str, ...]
    latency_ms: float
    attempts: int
    at: float = 0.0
    """Seconds into the run, pauses between interruption and resumption left out."""
    failure: FailureKind | None = None
    message: str = ""
    returned: int = 0
    answer: str | None = None
    citations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Patience:
    timeout: float
    retries: int


Put = Callable[[Query], Awaitable[AgentAnswer]]
"""How a query is put to the target: alone, or with a context of our choice."""


async def ask(put: Put, query: Query, patience: Patience, circuit: Circuit) -> Call:
    """Ask until there is an answer, a failure that asking again cannot mend, or no patience left.

    The latency is that of the last attempt alone: pauses between attempts are ours, not the
    agent's.
    """
    attempts = 0
    while True:
        attempts += 1
        ticket = await circuit.enter()
        started = time.perf_counter()
        outcome = await _attempt(put, query, patience.timeout)
        latency_ms = (time.perf_counter() - started) * 1000
        if isinstance(outcome, AgentAnswer):
            circuit.record(ticket, None)
            return _answered(query, outcome, latency_ms, attempts)
        circuit.record(ticket, outcome.kind)
        if not outcome.retryable or attempts > patience.retries:
            message = str(outcome)
            return Call(query.id, (), latency_ms, attempts, failure=outcome.kind, message=message)
        await asyncio.sleep(pause_before(attempts, outcome.retry_after))


async def _attempt(put: Put, query: Query, timeout: float) -> AgentAnswer | AgentFailure:
    try:
        async with asyncio.timeout(timeout):
            return await put(query)
    except AgentFailure as failure:
        return failure
    except TimeoutError:
        return AgentFailure(FailureKind.TIMEOUT, f"no answer within {timeout:g} s")


def pause_before(attempt: int, retry_after: float | None) -> float:
    """Exponential backoff with full jitter, unless the target said when to come back.

    Full jitter spreads the retries of concurrent callers best (Brooker, "Exponential Backoff
    And Jitter", 2015).
    """
    if retry_after is not None:
        return min(retry_after, _LONGEST_RETRY_AFTER)
    return random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (attempt - 1)))


def _answered(query: Query, answer: AgentAnswer, latency_ms: float, attempts: int) -> Call:
    return Call(
        query_id=query.id,
        doc_ids=answer.doc_ids[:KEPT_IDS],
        latency_ms=latency_ms,
        attempts=attempts,
        returned=len(answer.doc_ids),
        answer=answer.answer,
        citations=answer.citations,
    )

"""One query put to the target: time limit, retries for what can pass, and a classified outcome."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from assay.agents.protocol import AgentAnswer
from assay.data.dataset import Query
from assay.errors import AgentFailure, FailureKind
from assay.net.breaker import CircuitBreaker
from assay.net.retry import RetryPolicy

KEPT_IDS = 1000
"""More ids than this are not kept: no metric looks that far, and an agent may send millions."""

OUTAGES = frozenset({FailureKind.CONNECTION, FailureKind.TIMEOUT})
"""What says that the target is gone; an error that it answers with is a finding."""


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


Put = Callable[[Query], Awaitable[AgentAnswer]]
"""How a query is put to the target: alone, or with a context of our choice."""


def retry_policy(timeout: float, retries: int) -> RetryPolicy:
    """The policy for one query: `retries` further attempts of `timeout` seconds each."""
    return RetryPolicy(attempts=retries + 1, timeout=timeout, cap_retry_after=True)


async def ask(put: Put, query: Query, policy: RetryPolicy, breaker: CircuitBreaker) -> Call:
    """Ask until there is an answer, a permanent failure, or no attempt left.

    The latency is that of the last attempt alone: pauses between attempts are ours, not the
    agent's.
    """
    attempts = 0
    while True:
        attempts += 1
        ticket = await breaker.enter()
        started = time.perf_counter()
        outcome = await _attempt(put, query, policy.timeout)
        latency_ms = (time.perf_counter() - started) * 1000
        if isinstance(outcome, AgentAnswer):
            breaker.record(ticket, outage=False)
            return _answered(query, outcome, latency_ms, attempts)
        breaker.record(ticket, outage=outcome.kind in OUTAGES)
        if not outcome.retryable or policy.gives_up(attempts, outcome.retry_after):
            message = str(outcome)
            return Call(query.id, (), latency_ms, attempts, failure=outcome.kind, message=message)
        await policy.sleep(policy.delay(attempts, outcome.retry_after))


async def _attempt(put: Put, query: Query, timeout: float | None) -> AgentAnswer | AgentFailure:
    try:
        async with asyncio.timeout(timeout):
            return await put(query)
    except AgentFailure as failure:
        return failure
    except TimeoutError:
        return AgentFailure(FailureKind.TIMEOUT, f"no answer within {timeout:g} s")


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

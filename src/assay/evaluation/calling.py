"""Sends queries to a target: time limits, retries, concurrency, a classified outcome for each."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

from assay.agents.protocol import RATE_LIMITED, REFUSED_CREDENTIALS, AgentAnswer, status_of
from assay.data.dataset import Query
from assay.errors import AgentFailure, FailureKind, RunError
from assay.net.retry import CircuitBreaker, CircuitLost, RetryPolicy
from assay.run.calls import Call, CallLog
from assay.run.folder import RunFolder
from assay.run.models import COMPLETE, NOT_JUDGED
from assay.run.run_record import PacingRecord, WarmUpRecord


class ConcurrencyLimit:
    """How many calls may be in flight: fewer, once timeouts come in clusters.

    An agent that is sent more than it can work on answers nobody in time. Where at least half of
    the last calls timed out, and more than one of them, the limit is halved; it is not raised
    again, since figures of one run should be of one load.

    Parameters:
        limit: how many at first.
        say: receives a sentence for each change.
    """

    def __init__(self, limit: int, say: Callable[[str], None] = lambda _message: None) -> None:
        self.asked_for = self.limit = limit
        self._say = say
        self._recent: deque[bool] = deque(maxlen=max(2, limit))
        self._free = asyncio.Condition()
        self._in_flight = 0
        self.changes = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[int]:
        """Wait for a place, and hold it; the ticket goes into `record`."""
        async with self._free:
            await self._free.wait_for(lambda: self._in_flight < self.limit)
            self._in_flight += 1
        try:
            yield self.changes
        finally:
            self._in_flight -= 1
            async with self._free:
                self._free.notify_all()

    def record(self, ticket: int, *, timed_out: bool) -> None:
        """Take note of how a call ended. One that was sent under an earlier limit says nothing."""
        if ticket != self.changes:
            return
        self._recent.append(timed_out)
        timeouts = sum(self._recent)
        if self.limit == 1 or timeouts < 2 or 2 * timeouts < len(self._recent):
            return
        self.limit = max(1, self.limit // 2)
        self.changes += 1
        self._say(
            f"{timeouts} of the last {len(self._recent)} queries timed out; sending "
            f"{self.limit} at once from now on"
        )
        self._recent = deque(maxlen=max(2, self.limit))


def every_query_is_asked(folder: RunFolder) -> bool:
    """Whether an earlier process came to the end of the plan: then nothing is asked once more."""
    if not folder.report_file.exists():
        return False
    try:
        return folder.read_report().state in (COMPLETE, NOT_JUDGED)
    except RunError:  # damaged: resuming is what writes it anew
        return False


def note_warm_up(folder: RunFolder, warm_up: WarmUpRecord | None, concurrency: int) -> None:
    """Keep what was done before the first query, if anything was, in `run.json`."""
    if warm_up is None:
        return
    pacing = _recorded(folder, concurrency).model_copy(update={"warm_up": warm_up})
    _write(folder, pacing)


def note_concurrency(folder: RunFolder, limit: ConcurrencyLimit) -> None:
    """Keep the lowest number of queries in flight in `run.json`, where it is not the usual one."""
    pacing = _recorded(folder, limit.asked_for)
    if limit.limit < pacing.lowest_concurrency:
        _write(folder, pacing.model_copy(update={"lowest_concurrency": limit.limit}))


def _recorded(folder: RunFolder, concurrency: int) -> PacingRecord:
    known = folder.read_header().pacing
    return known or PacingRecord(concurrency=concurrency, lowest_concurrency=concurrency)


def _write(folder: RunFolder, pacing: PacingRecord) -> None:
    folder.write_header(folder.read_header().model_copy(update={"pacing": pacing}))


MOST_UNANSWERED = 3
"""Timeouts in a row after which no further query is asked alone: load is not what causes them."""

KEPT_IDS = 1000
"""More ids than this are not kept: no metric looks that far, and an agent may send millions."""

OUTAGES = frozenset({FailureKind.CONNECTION, FailureKind.TIMEOUT})
"""What says that the target is gone; an error that it answers with is a finding."""

MOST_REFUSED = 5
"""So many queries in a row are refused for what they do not hold: the run stops. One refusal may be
about one query, or the first call of a session."""

RATE_SECONDS = 120.0
"""How long one query waits in all for a target that says it is asked too often: many limits are
those of a minute."""

Put = Callable[[Query], Awaitable[AgentAnswer]]
"""How a query is put to the target: alone, or with a context of our choice."""


def retry_policy(timeout: float, retries: int) -> RetryPolicy:
    """The policy for one query: `retries` further attempts of `timeout` seconds each."""
    return RetryPolicy(attempts=retries + 1, timeout=timeout, cap_retry_after=True)


def answer_warnings(call: Call, warned: set[str]) -> Iterator[str]:
    """Warnings about an answer, each once in a run: `warned` holds what was warned of before."""
    if unknown := sorted(set(call.unknown_keys) - warned):
        warned.update(unknown)
        names = ", ".join(map(repr, unknown))
        yield (
            f"warning: the agent's answer has keys that are not read: {names}; an answer may have "
            "doc_ids, answer, citations and contexts"
        )
    if _UNORDERED not in warned and any(after > before for before, after in pairwise(call.scores)):
        warned.add(_UNORDERED)
        yield _UNORDERED


_UNORDERED = (
    "warning: the scores of an answer are not in descending order; documents count in the order in "
    "which they came, so let the target sort them, or leave --map scores out if less is better"
)


class Refusals:
    """Notices a target that refuses whatever it is sent: credentials that it never accepted, or no
    longer (401), and a rate or quota that waiting did not help with (429). Once something was
    answered, 403 may be about the query.

    `query_ids` are those that were refused in a row.
    """

    def __init__(self) -> None:
        self.query_ids: list[str] = []
        self._answered = False

    def add(self, call: Call) -> int:
        """The HTTP status of the refusals where it is time to stop, else 0."""
        status = status_of(call.message) if call.failure else 0
        refused = (*REFUSED_CREDENTIALS[: 1 if self._answered else 2], RATE_LIMITED)
        if status not in refused:
            self._answered = True
            self.query_ids.clear()
            return 0
        self.query_ids.append(call.query_id)
        return status if len(self.query_ids) == MOST_REFUSED else 0


async def run_calls(
    put: Put,
    queries: Iterable[Query],
    *,
    concurrency: ConcurrencyLimit,
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
        while True:
            async with concurrency.place() as ticket:
                query = next(waiting, None)
                if query is None:
                    return
                try:
                    call = await ask(put, query, policy, breaker)
                except CircuitLost:
                    return
                concurrency.record(ticket, timed_out=call.failure is FailureKind.TIMEOUT)
            on_call(call)
            # An agent that answers without waiting would never let the loop see Ctrl-C.
            await asyncio.sleep(0)

    workers = {asyncio.create_task(work()) for _ in range(concurrency.limit)}
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


def timed_out_queries(queries: Sequence[Query], log: CallLog) -> list[Query]:
    """The queries that were asked among others and got no answer in time."""
    calls = zip(queries, log.read([query.id for query in queries]), strict=True)
    return [
        query
        for query, call in calls
        if call and call.failure is FailureKind.TIMEOUT and not call.asked_again
    ]


async def ask_alone(
    put: Put,
    queries: Iterable[Query],
    *,
    policy: RetryPolicy,
    on_call: Callable[[Call], None],
    stop: asyncio.Event,
) -> None:
    """Ask queries that timed out once more, one at a time, and mark their calls.

    Nothing is recorded of an agent that cannot be connected to now: what it said before stands.
    """
    unanswered = 0

    def record(call: Call) -> None:
        nonlocal unanswered
        unanswered = unanswered + 1 if call.failure in OUTAGES else 0
        if call.failure not in (FailureKind.CONNECTION, FailureKind.CIRCUIT_OPEN):
            on_call(replace(call, asked_again=True))

    for query in queries:
        if stop.is_set() or unanswered == MOST_UNANSWERED:
            return
        await run_calls(
            put,
            [query],
            concurrency=ConcurrencyLimit(1),
            policy=policy,
            breaker=CircuitBreaker(),
            on_call=record,
            stop=stop,
        )


async def ask(put: Put, query: Query, policy: RetryPolicy, breaker: CircuitBreaker) -> Call:
    """Ask until there is an answer, a permanent failure, or no attempt left.

    The latency is that of the last attempt alone: delays between attempts are ours, not the
    agent's. How often we ask is ours as well: where that is too often, no number of retries counts,
    unless there are none, but `RATE_SECONDS`.
    """
    attempts, waited = 0, 0.0
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
        waits = policy.attempts > 1 and status_of(str(outcome)) == RATE_LIMITED
        backoff = replace(policy, first_delay=2.0, max_delay=32.0) if waits else policy
        delay = backoff.delay(attempts, outcome.retry_after)
        spent = (
            waited + delay > RATE_SECONDS
            if waits
            else policy.gives_up(attempts, outcome.retry_after)
        )
        if spent or not outcome.retryable:
            return Call(
                query_id=query.id,
                doc_ids=(),
                latency_ms=latency_ms,
                attempts=attempts,
                failure=outcome.kind,
                message=str(outcome),
                said=outcome.said,
            )
        waited += delay
        await policy.sleep(delay)


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
        contexts=answer.contexts,
        unknown_keys=answer.unknown_keys,
        scores=answer.scores[:KEPT_IDS],
    )

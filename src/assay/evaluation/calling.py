"""Sends queries to a target: time limits, retries, concurrency, a classified outcome for each."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

from assay.data.dataset import Query
from assay.errors import RATE_LIMITED, AgentFailure, FailureKind, RunError, TargetError
from assay.evaluation.pacing import ConcurrencyLimit
from assay.net.redact import known_secrets
from assay.net.retry import CircuitBreaker, CircuitLost, RetryPolicy
from assay.run.calls import AskKey, Call, CallLog, CallWriter, with_quote
from assay.run.folder import RunFolder
from assay.steps import MAX_STEPS
from assay.targets.protocol import AgentAnswer
from assay.targets.remedies import USUAL, remedy_for
from assay.targets.target_kinds import TARGET_KINDS

# Timeouts in a row after which no further query is asked alone: load is not what causes them.
MAX_UNANSWERED = 3
# No metric looks further, and an agent may send millions.
KEPT_IDS = 1000
# An error that the target answers with is a finding; these say that it is gone.
OUTAGES = frozenset({FailureKind.CONNECTION, FailureKind.TIMEOUT})
# So many in a row are about credentials or a quota; one may be about its query or its session.
MAX_REJECTED = 5
# How long one query waits for a target that says it is asked too often: many limits are a minute's.
RATE_SECONDS = 120.0

SendQuery = Callable[[Query], Awaitable[AgentAnswer]]
"""Sends one query to the target, alone or with a context of our choice."""


def retry_policy(timeout: float, retries: int) -> RetryPolicy:
    """The policy for one query: `retries` further attempts of `timeout` seconds each.

    How often we ask is ours: a target that says "too often" is waited for, unless there are no
    retries at all.
    """
    return RetryPolicy(
        attempts=retries + 1,
        timeout=timeout,
        cap_retry_after=True,
        rate_limit_seconds=RATE_SECONDS if retries else None,
    )


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
    "warning: the scores of an answer are not in descending order; documents count in the order "
    "received, so let the target sort them, or leave --map scores out if less is better"
)


class RejectionCounter:
    """Stops the run after `MAX_REJECTED` consecutive 401, 403 or 429.

    Once a query was answered, 403 may be about the query, and does not count. `keys` are those
    that were rejected in a row.
    """

    def __init__(self) -> None:
        self.keys: list[AskKey] = []
        self._answered = False

    def add(self, call: Call) -> int | None:
        """The HTTP status of the rejections if it is time to stop, else None."""
        self._answered = self._answered or call.failure is None
        rejections = (401, RATE_LIMITED) if self._answered else (401, 403, RATE_LIMITED)
        if call.failure is None or call.status not in rejections:
            self.keys.clear()
            return None
        self.keys.append(call.key)
        return call.status if len(self.keys) == MAX_REJECTED else None


class OutageCalls:
    """Calls in a row that failed because the target was gone: they say nothing of its answers."""

    def __init__(self) -> None:
        self._keys: list[AskKey] = []

    def add(self, call: Call) -> None:
        """Count one more call."""
        if call.failure in OUTAGES:
            self._keys.append(call.key)
        else:
            self._keys.clear()

    def withdraw(self, writer: CallWriter) -> None:
        """Let their queries count as not asked."""
        for key in self._keys:
            writer.withdraw(key)


class CallRecorder:
    """Records the calls of a run as they come back.

    Parameters:
        folder: the run.
        writer: appends to its log.
        count: told of every call that is recorded.
        say: told, once each, what is wrong with answers.
        elapsed: the seconds that an interrupted run took before.
        protocol: that of a target whose rejections end the run; None if they do not.
    """

    def __init__(
        self,
        folder: RunFolder,
        writer: CallWriter,
        *,
        count: Callable[[Call], None],
        say: Callable[[str], None],
        elapsed: float,
        protocol: str | None,
    ) -> None:
        self._folder, self._writer = folder, writer
        self._count, self._say, self._protocol = count, say, protocol
        self._started = time.perf_counter() - elapsed
        self._outage, self._rejections = OutageCalls(), RejectionCounter()
        self._warned: set[str] = set()

    @property
    def seconds(self) -> float:
        """How long the run has taken, without the time between interruption and resumption."""
        return time.perf_counter() - self._started

    def write(self, call: Call) -> None:
        """Append a call to the log."""
        with run_write_errors(self._folder):
            self._writer.append(replace(call.without(known_secrets()), at=self.seconds))

    def add(self, call: Call) -> None:
        """Take one more call into account. Raises `TargetError` if the target rejects all."""
        call = call.without(known_secrets())
        self.write(call)
        self._count(call)
        self._outage.add(call)
        if (status := self._rejections.add(call)) and self._protocol is not None:
            with run_write_errors(self._folder):
                for key in self._rejections.keys:
                    self._writer.withdraw(key)
            kind = TARGET_KINDS.get(self._protocol)
            remedies = kind.remedies if kind else USUAL
            remedy = remedy_for(FailureKind.AGENT_ERROR, status, remedies)
            what = f"HTTP {status} for {MAX_REJECTED} queries in a row, so no other was sent"
            # By name: callers of a server are told, too, and need not know its folders.
            resume = f"assay eval --resume {self._folder.name}"
            raise TargetError(
                f"{with_quote(what, call.said)}; {remedy}, then continue with: {resume}"
            )
        for warning in answer_warnings(call, self._warned):
            self._say(warning)

    def withdraw_outage(self) -> None:
        """Let the last queries, which a lost target did not answer, count as not asked."""
        with run_write_errors(self._folder):
            self._outage.withdraw(self._writer)


@contextmanager
def run_write_errors(folder: RunFolder) -> Iterator[None]:
    """Say how to go on if the disk is full."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write in {folder}: {error.strerror or error}; all earlier calls are saved: "
            f"free some disk space, then run: assay eval --resume {folder}"
        ) from error


async def run_calls(
    send: SendQuery,
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
                    call = await ask(send, query, policy, breaker)
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
    calls = zip(queries, log.read(queries), strict=True)
    return [
        query
        for query, call in calls
        if call and call.failure is FailureKind.TIMEOUT and not call.asked_again
    ]


async def retry_timeouts_serially(
    send: SendQuery,
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
        if stop.is_set() or unanswered == MAX_UNANSWERED:
            return
        await run_calls(
            send,
            [query],
            concurrency=ConcurrencyLimit(1),
            policy=policy,
            breaker=CircuitBreaker(),
            on_call=record,
            stop=stop,
        )


async def ask(send: SendQuery, query: Query, policy: RetryPolicy, breaker: CircuitBreaker) -> Call:
    """Ask until there is an answer, a permanent failure, or no attempt left.

    The latency is that of the last attempt alone: delays between attempts are ours, not the
    agent's.
    """
    attempts, latency_ms = 0, 0.0

    async def attempt() -> AgentAnswer:
        nonlocal attempts, latency_ms
        attempts += 1
        ticket = await breaker.enter()
        started = time.perf_counter()
        try:
            async with asyncio.timeout(policy.timeout):
                answer = await send(query)
        except TimeoutError:
            breaker.record(ticket, outage=True)
            words = f"no answer within {policy.timeout:g} s"
            raise AgentFailure(FailureKind.TIMEOUT, words) from None
        except AgentFailure as failure:
            breaker.record(ticket, outage=failure.kind in OUTAGES)
            raise
        finally:
            latency_ms = (time.perf_counter() - started) * 1000
        breaker.record(ticket, outage=False)
        return answer

    try:
        # The time limit is that of `attempt`: waiting for the circuit breaker is not the agent's.
        answer = await replace(policy, timeout=None).run(attempt)
    except AgentFailure as failure:
        return Call(
            query_id=query.id,
            trial=query.trial,
            doc_ids=(),
            latency_ms=latency_ms,
            attempts=attempts,
            failure=failure.kind,
            message=str(failure),
            said=failure.said,
            status=failure.status,
        )
    return Call(
        query_id=query.id,
        trial=query.trial,
        doc_ids=answer.doc_ids[:KEPT_IDS],
        latency_ms=latency_ms,
        attempts=attempts,
        returned=len(answer.doc_ids),
        answer=answer.answer,
        citations=answer.citations,
        contexts=answer.contexts,
        unknown_keys=answer.unknown_keys,
        scores=answer.scores[:KEPT_IDS],
        doc_types=answer.doc_types[:KEPT_IDS],
        relevance_source=answer.relevance_source,
        steps=answer.steps[:MAX_STEPS],
        usage=answer.usage,
    )

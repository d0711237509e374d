"""Sends queries to a target: waits until it is ready, then asks, with limits and retries.

Loading costs no points: no time before the agent is ready is in a score or a latency.
"""

import asyncio
import re
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from itertools import count
from typing import Literal, TypeVar

from assay.data.dataset import Dataset, Query
from assay.errors import (
    RATE_LIMITED,
    AgentFailure,
    FailureKind,
    RunError,
    TargetError,
    TargetLoading,
)
from assay.extras import missing_extra
from assay.net.redact import known_secrets, redact_known
from assay.net.retry import OUTAGES, CircuitBreaker, CircuitLost, RetryPolicy
from assay.privacy import WITHHELD, is_private
from assay.report.numbers import counted
from assay.run.calls import AskKey, Call, CallLog, CallWriter, with_quote
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.models import RunState, WarmUpRecord
from assay.steps import MAX_STEPS
from assay.targets.http_agent import AgentReadiness, ReadyState, ReportsReadiness
from assay.targets.protocol import Agent, AgentAnswer
from assay.targets.target_kinds import TARGET_KINDS, remedy_for

# Consecutive timeouts after which no further query is retried alone: load is not the cause.
MAX_UNANSWERED = 3
# No metric looks further, and an agent may send millions.
KEPT_IDS = 1000
# The target is gone. An error that it answers with is a finding instead.
# Consecutive rejections that end a run; one alone may be about its query or its session.
MAX_REJECTED = 5
# How long one query waits for a rate limit: many are per minute.
RATE_SECONDS = 120.0

_POLL_SECONDS = 0.5
_WARM_UP_CALL_FRACTION = 0.2  # share of --warm-up for agents without /health/ready
_MAX_WARM_UP_FACTOR = 6  # limit for an agent that reports progress, as a multiple of --warm-up
_SLOW_SECONDS = 5.0  # a warm-up call that was answered sooner is not mentioned
_LOADING = re.compile(
    r"\b(?:load|start|warm|boot|initiali[sz]|prepar|index)ing\b|unavailable|try again|later|"
    r"not (?:yet )?(?:been )?(?:ready|loaded|started|built|initiali[sz]ed)",
    re.IGNORECASE,
)

Say = Callable[[str], None]
Way = Literal["readiness", "call"]
Result = TypeVar("Result")

# Sends one query to the target, alone or with a context of our choice.
SendQuery = Callable[[Query], Awaitable[AgentAnswer]]


def retry_policy(timeout: float, retries: int) -> RetryPolicy:
    """The policy for one query: `retries` further attempts of `timeout` seconds each.

    A rate limit is waited for whatever the number of retries, except 0.
    """
    return RetryPolicy(
        attempts=retries + 1,
        timeout=timeout,
        cap_retry_after=True,
        rate_limit_seconds=RATE_SECONDS if retries else None,
    )


class CallRecorder:
    """Records the calls of a run as they come back; `say` is told, once each, what is wrong.

    `elapsed` are the seconds that an interrupted run took before, `protocol` is that of a target
    whose rejections end the run; None if they do not.
    """

    def __init__(
        self,
        folder: RunFolder,
        writer: CallWriter,
        count: Callable[[Call], None],
        say: Say,
        elapsed: float,
        protocol: str | None,
    ) -> None:
        self._folder, self._writer = folder, writer
        self._count, self._say, self._protocol = count, say, protocol
        self._started = time.perf_counter() - elapsed
        self._rejected: list[AskKey] = []  # in a row
        self._answered = False
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
        self._require_accepted(call)
        if unknown := sorted(set(call.unknown_keys) - self._warned):
            self._warned.update(unknown)
            self._say(
                "warning: the agent's answer has keys that are not read: "
                f"{', '.join(map(repr, unknown))}; an answer may have doc_ids, answer, citations "
                "and contexts"
            )

    def _require_accepted(self, call: Call) -> None:
        """End the run after `MAX_REJECTED` consecutive 401, 403 or 429."""
        self._answered = self._answered or call.failure is None
        # Once a query was answered, 403 may be about the query.
        rejections = (401, RATE_LIMITED) if self._answered else (401, 403, RATE_LIMITED)
        if call.failure is None or call.status not in rejections:
            self._rejected.clear()
            return
        self._rejected.append(call.key)
        if self._protocol is None or len(self._rejected) < MAX_REJECTED:
            return
        with run_write_errors(self._folder):
            for key in self._rejected:
                self._writer.withdraw(key)
        what = f"HTTP {call.status} for {MAX_REJECTED} queries in a row, so no other was sent"
        kind = TARGET_KINDS.get(self._protocol)
        remedy = remedy_for(FailureKind.AGENT_ERROR, call.status, kind)
        # By name: callers of a server are told, too, and need not know its folders.
        resume = f"assay eval --resume {self._folder.name}"
        raise TargetError(f"{with_quote(what, call.said)}; {remedy}, then continue with: {resume}")


@contextmanager
def run_write_errors(folder: RunFolder) -> Iterator[None]:
    """Raise `RunError` with the command to resume if the disk is full."""
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
    concurrency: int,
    policy: RetryPolicy,
    breaker: CircuitBreaker,
    on_call: Callable[[Call], None],
    stop: asyncio.Event,
) -> list[AskKey]:
    """Ask every query, `concurrency` at a time; return early when `stop` is set or it is lost.

    Calls in flight when `stop` is set are dropped, not recorded: a resumed run asks them again.
    Of a target that is lost, the last calls, which failed because it was gone, are returned.
    """
    waiting, gone = iter(queries), list[AskKey]()

    async def work() -> None:
        for query in waiting:
            if stop.is_set():
                return
            try:
                call = await ask(send, query, policy, breaker)
            except CircuitLost:
                return
            on_call(call)
            if call.failure in OUTAGES:
                gone.append(call.key)
            else:
                gone.clear()
            # An agent that answers without waiting would never let the loop see Ctrl-C.
            await asyncio.sleep(0)

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    try:
        await unless_stopped(asyncio.gather(*workers), stop)
    finally:  # a call that cannot be recorded ends the run, with the other workers
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return gone if breaker.lost else []


async def retry_timeouts_serially(
    ask: Callable[..., Awaitable[object]],
    queries: Sequence[Query],
    log: CallLog,
    *,
    on_call: Callable[[Call], None],
    say: Say,
) -> None:
    """Retry the queries that were asked among others and timed out, and mark their calls.

    `ask` is `run_calls` for the run. If the agent cannot be connected to now, the timeout stands.
    """
    late = [
        query
        for query, call in zip(queries, log.read(queries), strict=True)
        if call and call.failure is FailureKind.TIMEOUT and not call.asked_again
    ]
    if late:
        asked = counted(len(late), "query", "queries")
        say(f"asking {asked} that timed out once more, one at a time")
    unanswered = 0

    def record(call: Call) -> None:
        nonlocal unanswered
        unanswered = unanswered + 1 if call.failure in OUTAGES else 0
        if call.failure not in (FailureKind.CONNECTION, FailureKind.CIRCUIT_OPEN):
            on_call(replace(call, asked_again=True))

    for query in late:
        if unanswered == MAX_UNANSWERED:
            return
        await ask([query], concurrency=1, breaker=CircuitBreaker(), on_call=record)


async def ask(send: SendQuery, query: Query, policy: RetryPolicy, breaker: CircuitBreaker) -> Call:
    """Ask until there is an answer, a permanent failure, or no attempt left.

    The latency is that of the last attempt alone: delays between attempts are ours, not the
    agent's.
    """
    attempts, latency_ms = 0, 0.0

    async def attempt() -> AgentAnswer:
        nonlocal attempts, latency_ms
        attempts += 1
        async with breaker.guard():
            started = time.perf_counter()
            try:
                async with asyncio.timeout(policy.timeout):
                    return await send(query)
            except TimeoutError:
                words = f"no answer within {policy.timeout:g} s"
                raise AgentFailure(FailureKind.TIMEOUT, words) from None
            finally:
                latency_ms = (time.perf_counter() - started) * 1000

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


async def warm_up(
    agent: Agent, query: Query, config: RunConfig, *, say: Say, stop: asyncio.Event
) -> WarmUpRecord | None:
    """Wait until `agent`, which is open, can work, at most `config.warm_up` seconds.

    None if there is nothing to wait for, as with an agent in this process.
    """
    if config.warm_up == 0 or not isinstance(agent, ReportsReadiness):
        return None
    return await unless_stopped(_wait_until_ready(agent, agent, query, config, say), stop)


async def _wait_until_ready(
    agent: Agent, reports: ReportsReadiness, query: Query, config: RunConfig, say: Say
) -> WarmUpRecord:
    """Ask `/health/ready` until it says something definite; send the query if it says nothing."""
    started, limit, announced, calls = time.perf_counter(), config.warm_up, "", 0
    progress: object = None
    policy = RetryPolicy(first_delay=1.0, max_delay=5.0, cap_retry_after=True)
    way: Way = "readiness"

    def left() -> float:
        return max(0.0, started + limit - time.perf_counter())

    while True:
        delay = _POLL_SECONDS
        if way == "readiness":
            try:
                async with asyncio.timeout(max(left(), 1.0)):
                    said = await reports.readiness()
            except TimeoutError:
                said = AgentReadiness(ReadyState.LOADING, "no answer to GET /health/ready")
            seconds = time.perf_counter() - started
            if said.state is ReadyState.UNKNOWN:
                most = max(config.timeout, _WARM_UP_CALL_FRACTION * config.warm_up)
                way, limit = "call", min(limit, seconds + most)
                continue
            problem = "" if said.state is ReadyState.READY else said.why
            waits = said.state is ReadyState.LOADING
            if said.progress != progress:
                progress = said.progress
                limit = min(seconds + config.warm_up, _MAX_WARM_UP_FACTOR * config.warm_up)
        else:
            calls += 1
            failure = await _failure_of_call(agent, query, config.top_k, left())
            problem, waits = "", False
            if failure is not None:
                problem = redact_known(with_quote(str(failure), failure.said))
                gone = failure.kind in (FailureKind.CONNECTION, FailureKind.TIMEOUT)
                # What the agent itself says: ours may name an address such as /loading.
                starting = _LOADING.search(failure.said or str(failure)) is not None
                waits = failure.retryable or gone or starting
                delay = max(delay, policy.delay(calls, failure.retry_after))
        problem = WITHHELD if problem and is_private() else problem
        if not waits or left() <= delay:
            break
        if problem != announced:
            announced = problem
            say(f"waiting until the agent is ready ({announced}), at most {round(limit, 1):g} s")
        await asyncio.sleep(delay)
    seconds = time.perf_counter() - started
    if problem:
        say(f"warning: the agent may not be ready ({problem}); evaluating it as it is")
    elif announced or seconds > _SLOW_SECONDS:
        what = "the agent is ready" if way == "readiness" else "warm-up call answered"
        say(f"{what} after {seconds:.1f} s, which no score or latency includes")
    ready = not problem
    return WarmUpRecord(way=way, ready=ready, seconds=seconds, calls=calls, message=problem)


async def _failure_of_call(
    agent: Agent, query: Query, top_k: int, seconds: float
) -> AgentFailure | None:
    """How an untimed call fails; None if it is answered."""
    try:
        async with asyncio.timeout(seconds):
            await agent.ask(query.text, top_k)
    except AgentFailure as failure:
        return failure
    except TimeoutError:
        return AgentFailure(FailureKind.TIMEOUT, f"no answer within {seconds:.3g} s")
    return None


@asynccontextmanager
async def opened_agent(
    agent: Agent, config: RunConfig, say: Say, stop: asyncio.Event
) -> AsyncIterator[None]:
    """An agent that is connected. That can take minutes, so `stop` ends it as well.

    An agent whose host says that it is not there yet is waited for, as long as a warm-up may take.
    """
    deadline = time.perf_counter() + config.warm_up

    async def connect() -> bool:
        for attempt in count():
            try:
                await agent.open()
                break
            except ImportError as error:
                raise missing_extra(error) or error from None
            except TargetLoading as error:
                if time.perf_counter() >= deadline:
                    raise
                if attempt == 0:
                    say(f"waiting for the agent, at most {config.warm_up:g} s: {error}")
            await agent.close()
            await asyncio.sleep(_POLL_SECONDS)
        return True

    try:
        try:
            if not await unless_stopped(connect(), stop):
                raise KeyboardInterrupt
        except TargetError as error:
            raise type(error)(redact_known(str(error))) from error
        yield
    finally:
        await agent.close()


def warm_up_query(dataset: Dataset, planned: Sequence[Query]) -> Query:
    """A query that the run does not ask, if any: a cache must not answer a timed query."""
    asked = {query.id for query in planned}
    unasked = (query for query in dataset.queries.values() if query.id not in asked)
    return next(unasked, planned[-1])


def every_query_is_asked(folder: RunFolder) -> bool:
    """Whether an earlier process asked the whole plan, including the retries of timeouts."""
    if not folder.report_file.exists():
        return False
    try:
        return folder.read_report().state in (RunState.COMPLETE, RunState.NOT_JUDGED)
    except RunError:  # damaged: resuming is what writes it anew
        return False


async def unless_stopped(work: Awaitable[Result], stop: asyncio.Event) -> Result | None:
    """The result of `work`; None if `stop` came first and `work` was cancelled."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)

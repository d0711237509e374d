"""Warm-up and adaptive concurrency: waits for the agent, then sends what it can answer.

Loading costs no points. An agent that has `/health/ready` is asked there; any other that runs
elsewhere is sent one query that is neither timed nor scored, again if it answers that it is busy or
still starting. Whatever comes of it, the run goes on: a warm-up explains a score, it decides none.
"""

import asyncio
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal, TypeVar

from assay.data.dataset import Dataset, Query
from assay.errors import AgentFailure, FailureKind, RunError, TargetError, TargetLoading
from assay.extras import missing_extra
from assay.net.redact import redact_known
from assay.net.retry import RetryPolicy
from assay.privacy import WITHHELD, is_private
from assay.run.calls import with_quote
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.run_record import PacingRecord, WarmUpRecord
from assay.run.state import RunState
from assay.targets.protocol import Agent
from assay.targets.readiness import AgentReadiness, ReadyState, ReportsReadiness

_POLL_S = (0.2, 0.5, 1.0, 2.0)
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


async def warm_up(
    agent: Agent, query: Query, config: RunConfig, *, say: Say, stop: asyncio.Event
) -> WarmUpRecord | None:
    """Wait until `agent` can work, at most `config.warm_up` seconds.

    Parameters:
        agent: opened; one that runs in this process is ready, and is not asked.
        query: what the untimed call asks, if there is one.
        config: the settings of the run.
        say: receives a sentence where there is something to wait for.
        stop: ends the waiting.

    None where there was nothing to wait for, or where warming up is turned off.
    """
    if config.warm_up == 0 or not isinstance(agent, ReportsReadiness):
        return None
    return await unless_stopped(_WarmUp(agent, agent, query, config, say).run(), stop)


@asynccontextmanager
async def opened_agent(
    agent: Agent, config: RunConfig, say: Say, stop: asyncio.Event
) -> AsyncIterator[None]:
    """An agent that is connected. That can take minutes, so `stop` ends it as well.

    An agent whose host says that it is not there yet is waited for, as long as a warm-up may take.
    """
    try:
        try:
            if not await unless_stopped(_open(agent, config.warm_up, say), stop):
                raise KeyboardInterrupt
        except TargetError as error:
            raise type(error)(redact_known(str(error))) from error
        yield
    finally:
        await agent.close()


async def _open(agent: Agent, seconds: float, say: Say) -> bool:
    """True, once the agent is open."""
    deadline = time.perf_counter() + seconds
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
                say(f"waiting for the agent, at most {seconds:g} s: {error}")
        await agent.close()
        await asyncio.sleep(_POLL_S[min(attempt, len(_POLL_S) - 1)])
    return True


def warm_up_query(dataset: Dataset, planned: Sequence[Query]) -> Query:
    """One that the run does not ask, where there is one: a cache must not answer a timed query."""
    asked = {query.id for query in planned}
    unasked = (query for query in dataset.queries.values() if query.id not in asked)
    return next(unasked, planned[-1])


class _WarmUp:
    """Waits for one agent: `await _WarmUp(...).run()`."""

    def __init__(
        self, agent: Agent, reports: ReportsReadiness, query: Query, config: RunConfig, say: Say
    ) -> None:
        self._agent, self._reports, self._query = agent, reports, query
        self._config, self._say = config, say
        self._limit = config.warm_up
        self._started = time.perf_counter()
        self._said = ""

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._started

    @property
    def _left(self) -> float:
        return max(0.0, self._limit - self._seconds)

    async def run(self) -> WarmUpRecord:
        """Ask `/health/ready` until it says something definite; send a call if it says nothing."""
        polls, stage = 0, ""
        while True:
            try:
                async with asyncio.timeout(max(self._left, 1.0)):
                    said = await self._reports.readiness()
            except TimeoutError:
                said = AgentReadiness(ReadyState.LOADING, "no answer to GET /health/ready")
            if said.state is ReadyState.UNKNOWN:
                return await self._call()
            if said.state is ReadyState.READY:
                return self._ended("readiness")
            if said.state is ReadyState.FAILED:
                return self._ended("readiness", f"the agent says: {said.why}")
            self._tell_waiting(said.why)
            if said.stage != stage:  # it makes progress
                stage = said.stage
                given = self._config.warm_up
                self._limit = min(self._seconds + given, _MAX_WARM_UP_FACTOR * given)
            if self._left == 0:
                return self._ended("readiness", f"still loading: {said.why}")
            await asyncio.sleep(min(_POLL_S[min(polls, len(_POLL_S) - 1)], self._left))
            polls += 1

    async def _call(self) -> WarmUpRecord:
        """Send one untimed query, again while the answer is that the agent is starting."""
        whole = self._config.warm_up
        most = min(whole, max(self._config.timeout, _WARM_UP_CALL_FRACTION * whole))
        self._limit = min(self._limit, self._seconds + most)
        policy = RetryPolicy(first_delay=1.0, max_delay=5.0, cap_retry_after=True)
        attempts = 0
        while True:
            attempts += 1
            limit = self._left
            try:
                async with asyncio.timeout(limit):
                    await self._agent.ask(self._query.text, self._config.top_k)
                return self._ended("call", calls=attempts)
            except AgentFailure as error:
                failure = error
            except TimeoutError:
                failure = AgentFailure(FailureKind.TIMEOUT, f"no answer within {limit:.3g} s")
            why = redact_known(with_quote(str(failure), failure.said))
            delay = max(_POLL_S[0], policy.delay(attempts, failure.retry_after))
            if not _may_be_starting(failure) or self._left <= delay:
                return self._ended("call", why, attempts)
            self._tell_waiting(why)
            await asyncio.sleep(delay)

    def _tell_waiting(self, why: str) -> None:
        why = WITHHELD if is_private() else why
        if why != self._said:
            self._said = why
            limit = f"{round(self._limit, 1):g} s"
            self._say(f"waiting until the agent is ready ({why}), at most {limit}")

    def _ended(self, way: Way, problem: str = "", calls: int = 0) -> WarmUpRecord:
        seconds = self._seconds
        if problem:
            problem = WITHHELD if is_private() else problem
            self._say(f"warning: the agent may not be ready ({problem}); evaluating it as it is")
        elif self._said or seconds > _SLOW_SECONDS:
            what = "the agent is ready" if way == "readiness" else "warm-up call answered"
            self._say(f"{what} after {seconds:.1f} s, which no score or latency includes")
        ready = not problem
        return WarmUpRecord(way=way, ready=ready, seconds=seconds, calls=calls, message=problem)


def _may_be_starting(failure: AgentFailure) -> bool:
    """Whether the agent says that it is starting, or does not answer at all."""
    gone = failure.kind in (FailureKind.CONNECTION, FailureKind.TIMEOUT)
    said = failure.said or str(failure)  # a message of ours may name an address such as /loading
    return failure.retryable or gone or _LOADING.search(said) is not None


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
        return folder.read_report().state in (RunState.COMPLETE, RunState.NOT_JUDGED)
    except RunError:  # damaged: resuming is what writes it anew
        return False


def note_warm_up(folder: RunFolder, warm_up: WarmUpRecord | None, concurrency: int) -> None:
    """Keep what was done before the first query, if anything was, in `run.json`."""
    if warm_up is not None:
        _update_pacing(folder, concurrency, warm_up=warm_up)


def note_concurrency(folder: RunFolder, limit: ConcurrencyLimit) -> None:
    """Keep the lowest number of queries in flight in `run.json`, if it is not the usual one."""
    pacing = folder.read_header().pacing
    if limit.limit < (pacing.lowest_concurrency if pacing else limit.asked_for):
        _update_pacing(folder, limit.asked_for, lowest_concurrency=limit.limit)


def _update_pacing(folder: RunFolder, concurrency: int, **changes: object) -> None:
    header = folder.read_header()
    pacing = header.pacing or PacingRecord(concurrency=concurrency, lowest_concurrency=concurrency)
    update = {"pacing": pacing.model_copy(update=changes)}
    folder.write_header(header.model_copy(update=update))


async def unless_stopped(work: Coroutine[Any, Any, Result], stop: asyncio.Event) -> Result | None:
    """The result of `work`; None if `stop` came first, and `work` was broken off."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)

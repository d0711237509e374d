"""Before the first timed query: wait until the agent is ready, so that loading costs no points.

An agent that has `/health/ready` is asked there. Any other that runs elsewhere is sent one query
that is neither timed nor scored, again if it answers that it is busy or still starting. Whatever
comes of it, the run goes on: a warm-up explains a score, it decides none.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal, TypeVar

from assay.agents.protocol import Agent
from assay.agents.readiness import AgentReadiness, ReadyState, ReportsReadiness
from assay.data.dataset import Dataset, Query
from assay.errors import AgentFailure, FailureKind, TargetError, TargetLoading
from assay.extras import missing_extra
from assay.net.retry import RetryPolicy
from assay.privacy import WITHHELD, is_private
from assay.run.calls import with_quote
from assay.run.config import RunConfig
from assay.run.run_record import WarmUpRecord

_POLL_S = (0.2, 0.5, 1.0, 2.0)
_CALL_SHARE = 0.2
"""An agent that says it is loading is waited for longer than one that says nothing."""
_MOST_TIMES = 6
"""How many times as long as `--warm-up` an agent is waited for that shows progress."""
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
    try:
        return await _unless_stopped(_WarmUp(agent, agent, query, config, say).run(), stop)
    except KeyboardInterrupt:  # what is said about a run that was interrupted is said once, later
        return None


@asynccontextmanager
async def opened_agent(
    agent: Agent, config: RunConfig, say: Say, stop: asyncio.Event
) -> AsyncIterator[None]:
    """An agent that is connected. That can take minutes, so `stop` ends it as well.

    An agent whose host says that it is not there yet is waited for, as long as a warm-up may take.
    """
    try:
        try:
            await _unless_stopped(_open(agent, config.warm_up, say), stop)
        except TargetError as error:
            raise type(error)(config.redact(str(error))) from error
        yield
    finally:
        await agent.close()


async def _open(agent: Agent, seconds: float, say: Say) -> None:
    deadline = time.perf_counter() + seconds
    for attempt in count():
        try:
            await agent.open()
            return
        except ImportError as error:
            raise missing_extra(error) or error from None
        except TargetLoading as error:
            if time.perf_counter() >= deadline:
                raise
            if attempt == 0:
                say(f"waiting for the agent, at most {seconds:g} s: {error}")
        await agent.close()
        await asyncio.sleep(_POLL_S[min(attempt, len(_POLL_S) - 1)])


async def _unless_stopped(work: Coroutine[Any, Any, Result], stop: asyncio.Event) -> Result:
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise KeyboardInterrupt
        return working.result()
    finally:
        working.cancel()
        stopping.cancel()


def warm_up_query(dataset: Dataset, planned: Sequence[Query]) -> Query:
    """One that the run does not ask, where there is one: a cache must not answer a timed query."""
    asked = {query.id for query in planned}
    unasked = (query for query in dataset.queries.values() if query.id not in asked)
    return next(unasked, planned[-1])


class _WarmUp:
    def __init__(
        self, agent: Agent, reports: ReportsReadiness, query: Query, config: RunConfig, say: Say
    ) -> None:
        self._agent, self._reports, self._query = agent, reports, query
        self._top_k, self._limit, self._say = config.top_k, config.warm_up, say
        self._redact = config.redact
        self._call_limit = min(config.warm_up, max(config.timeout, _CALL_SHARE * config.warm_up))
        self._started = time.perf_counter()
        self._said = ""

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._started

    @property
    def _left(self) -> float:
        return max(0.0, self._limit - self._seconds)

    async def run(self) -> WarmUpRecord:
        polls, stage = 0, ""
        given = self._limit
        while True:
            said = await self._readiness()
            if said.state is ReadyState.READY:
                return self._ready("readiness")
            if said.state is ReadyState.UNKNOWN:
                return await self._call()
            if said.state is ReadyState.FAILED:
                return self._gave_up("readiness", f"the agent says: {said.why}")
            self._tell_waiting(said.why)
            if said.stage != stage:  # it is getting on
                stage = said.stage
                self._limit = min(self._seconds + given, _MOST_TIMES * given)
            if self._left == 0:
                return self._gave_up("readiness", f"still loading: {said.why}")
            pause = _POLL_S[min(polls, len(_POLL_S) - 1)]
            await asyncio.sleep(min(pause, self._left))
            polls += 1

    async def _readiness(self) -> AgentReadiness:
        try:
            async with asyncio.timeout(max(self._left, 1.0)):
                return await self._reports.readiness()
        except TimeoutError:
            return AgentReadiness(ReadyState.LOADING, "no answer to GET /health/ready")

    async def _call(self) -> WarmUpRecord:
        self._limit = min(self._limit, self._seconds + self._call_limit)
        policy = RetryPolicy(first_delay=1.0, max_delay=5.0, cap_retry_after=True)
        attempts = 0
        while True:
            attempts += 1
            failure = await self._attempt()
            if failure is None:
                return self._ready("call", attempts)
            delay = max(_POLL_S[0], policy.delay(attempts, failure.retry_after))
            if not _may_pass(failure) or self._left <= delay:
                return self._gave_up("call", self._words_of(failure), attempts)
            self._tell_waiting(self._words_of(failure))
            await asyncio.sleep(delay)

    async def _attempt(self) -> AgentFailure | None:
        limit = self._left
        try:
            async with asyncio.timeout(limit):
                await self._agent.ask(self._query.text, self._top_k)
        except AgentFailure as failure:
            return failure
        except TimeoutError:
            return AgentFailure(FailureKind.TIMEOUT, f"no answer within {limit:.3g} s")
        return None

    def _words_of(self, failure: AgentFailure) -> str:
        return self._redact(words_of(failure))

    def _tell_waiting(self, why: str) -> None:
        why = WITHHELD if is_private() else why
        if why != self._said:
            self._said = why
            self._say(
                f"waiting until the agent is ready ({why}), at most {round(self._limit, 1):g} s"
            )

    def _ready(self, way: Way, calls: int = 0) -> WarmUpRecord:
        if self._said or way == "call":
            what = "the agent is ready" if way == "readiness" else "warm-up call answered"
            self._say(f"{what} after {self._seconds:.1f} s, which no score or latency includes")
        return WarmUpRecord(way=way, ready=True, seconds=self._seconds, calls=calls)

    def _gave_up(self, way: Way, why: str, calls: int = 0) -> WarmUpRecord:
        why = WITHHELD if is_private() else why
        self._say(f"warning: the agent may not be ready ({why}); evaluating it as it is")
        return WarmUpRecord(way=way, ready=False, seconds=self._seconds, calls=calls, message=why)


def words_of(failure: AgentFailure) -> str:
    """A failure as it is shown, with the agent's own words."""
    return with_quote(str(failure), failure.said)


def _may_pass(failure: AgentFailure) -> bool:
    """Whether the agent may only be starting: it says so, or does not answer at all."""
    gone = failure.kind in (FailureKind.CONNECTION, FailureKind.TIMEOUT)
    said = failure.said or str(failure)  # a message of ours may name an address such as /loading
    return failure.retryable or gone or _LOADING.search(said) is not None

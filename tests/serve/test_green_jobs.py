"""How evaluations begin and end: in their turn, and with an agent that fails or cannot be used."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.serve.serving import loads

from assay.data import Dataset
from assay.errors import AgentFailure, FailureKind, TargetError, UsageError
from assay.net.outbound import UNRESTRICTED
from assay.progress import silent
from assay.serve.a2a import INTERNAL_ERROR, ServerUnavailable
from assay.serve.green import jobs
from assay.serve.green.jobs import EvaluationJob, JobQueue, JobState
from assay.serve.readiness import Loading
from assay.targets.protocol import AgentAnswer, AgentInfo

REQUEST = {"participants": {"retrieval_agent": "http://h"}, "config": {"num_queries": 3}}


class Agent:
    """Answers so many times and then no more, once `may_answer` is set."""

    info = AgentInfo(name="tested", protocol="python")
    findings = ()

    def __init__(self, answers: int, unusable: Exception | None = None) -> None:
        self.answers = answers
        self.unusable = unusable
        self.may_answer = threading.Event()

    async def open(self) -> None:
        if self.unusable:
            raise self.unusable

    async def close(self) -> None: ...

    async def ask(self, _query: str, _top_k: int) -> AgentAnswer:
        while not self.may_answer.is_set():
            await asyncio.sleep(0.01)
        if self.answers:
            self.answers -= 1
            return AgentAnswer(())
        raise AgentFailure(FailureKind.AGENT_ERROR, "HTTP 500 from the agent")


@asynccontextmanager
async def queue_for(
    agent: Agent, tiny: Dataset, out: Path, **limits: Any
) -> AsyncIterator[JobQueue]:
    loading = Loading(lambda: loads(tiny)(silent))
    with mock.patch.object(jobs, "A2AAgent", return_value=agent):
        queue = JobQueue(loading, out, UNRESTRICTED, "tiny", 2, **limits)
        yield queue
        await queue.close()


async def begun(job: EvaluationJob) -> None:
    async with asyncio.timeout(60):
        while job.folder is None:
            await asyncio.sleep(0.01)


async def ended(job: EvaluationJob) -> EvaluationJob:
    states = [state async for state in job.updates(600)]
    assert [state.is_final for state in states] == [False] * (len(states) - 1) + [True]
    return job


@pytest.mark.parametrize(
    ("error", "logged", "shown"),
    [
        (UsageError("the answer was 'a secret'"), "evaluation failed", "the answer was 'a secret'"),
        (ZeroDivisionError("a secret"), "task failed", INTERNAL_ERROR),
        (TargetError("nothing responds"), "", "nothing responds"),
    ],
)
async def test_no_error_is_quoted_in_the_log(
    tiny: Dataset,
    out: Path,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    logged: str,
    shown: str,
) -> None:
    async with queue_for(Agent(0, error), tiny, out) as queue:
        job = await ended(await queue.submit(REQUEST))
    assert (job.state, job.describe()) == (JobState.FAILED, shown)
    line = f"{logged} task_id={job.id} exception={type(error).__name__}"
    assert (line in caplog.text) == bool(logged)
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("answers", "state", "words"),
    [
        (0, JobState.FAILED, "the agent answered none of 3 queries: agent error 3; for example q"),
        (1, JobState.COMPLETED, "evaluated 3 queries, 2 failed"),
    ],
)
async def test_an_agent_that_answered_nothing_has_failed_and_not_scored_zero(
    tiny: Dataset, out: Path, answers: int, state: JobState, words: str
) -> None:
    agent = Agent(answers)
    agent.may_answer.set()
    async with queue_for(agent, tiny, out) as queue:
        job = await ended(await queue.submit(REQUEST))
    assert job.state is state
    assert job.describe().startswith(words)


async def test_one_after_another(tiny: Dataset, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "KEPT", 1)
    agent = Agent(99)
    async with queue_for(agent, tiny, out, running=1, waiting=2) as queue:
        first, second, third = [await queue.submit(REQUEST) for _ in range(3)]
        with pytest.raises(ServerUnavailable):
            await queue.submit(REQUEST)
        await begun(first)
        second.cancel()
        assert second.describe() == "canceled before it began"
        assert (first.state, third.state) == (JobState.WORKING, JobState.SUBMITTED)
        agent.may_answer.set()
        for job in (first, third):
            assert (await ended(job)).state is JobState.COMPLETED
        first.cancel()
        assert first.state is JobState.COMPLETED
        assert second.folder is None
        agent.may_answer.clear()
        last = await queue.submit(REQUEST)  # makes room among those that ended
        kept = [queue.get(job.id) for job in (first, second, third, last)]
        assert kept == [None, None, third, last]
        await begun(last)
    assert (last.state, last.describe()) == (JobState.CANCELED, "canceled before the first answer")
    with pytest.raises(ServerUnavailable):
        await queue.submit(REQUEST)
    assert not [each for each in threading.enumerate() if each.name.startswith("evaluation")]

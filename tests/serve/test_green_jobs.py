"""Evaluations in line: each once, none that was called off, and not kept for ever."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from assay.data import Dataset
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.serve.green.jobs import EvaluationJob, JobQueue, JobState
from assay.serve.green.request import EvaluationSpec, parse_eval_request, to_spec
from assay.targets.protocol import AgentAnswer, AgentInfo


class Gate:
    """An agent that answers when it is let; counts how often it was opened."""

    info = AgentInfo(name="gate", protocol="python")

    def __init__(self) -> None:
        self.opened = 0
        self.begun = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.open_gate = asyncio.Event()

    async def open(self) -> None:
        self.opened += 1
        self.loop.call_soon_threadsafe(self.begun.set)

    async def close(self) -> None: ...

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        waiting = asyncio.run_coroutine_threadsafe(self.open_gate.wait(), self.loop)
        await asyncio.wrap_future(waiting)
        return AgentAnswer(())


@asynccontextmanager
async def line(out: Path, **limits: int) -> AsyncIterator[tuple[JobQueue, Gate]]:
    gate = Gate()
    jobs = JobQueue(lambda _url: gate, out, **limits)
    yield jobs, gate
    gate.open_gate.set()
    await jobs.close()


def order(tiny: Dataset) -> EvaluationSpec:
    asked = {"participants": {"retrieval_agent": "http://h"}, "config": {"num_queries": 3}}
    return to_spec(parse_eval_request(asked), tiny, "tiny", 2)


async def end_of(job: EvaluationJob) -> JobState:
    async with asyncio.timeout(30):
        return [state async for state in job.updates(600)][-1]


async def test_a_task_id_runs_once(tiny: Dataset, out: Path) -> None:
    async with line(out) as (jobs, gate):
        gate.open_gate.set()
        job = jobs.submit(order(tiny), tiny, "t1")
        with pytest.raises(ValueError, match="once"):
            jobs.submit(order(tiny), tiny, "t1")
        assert await end_of(job) is JobState.COMPLETED
        with pytest.raises(ValueError, match="once"):
            jobs.submit(order(tiny), tiny, "t1")
    assert gate.opened == 1
    assert len(list(out.glob("*/run.json"))) == 1


class Failing(Gate):
    """An agent that answers so many times, and then no more."""

    answers = 0

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        if self.answers:
            self.answers -= 1
            return AgentAnswer(())
        raise AgentFailure(FailureKind.AGENT_ERROR, "HTTP 500 from http://h/agent")


async def test_the_log_has_the_class_of_an_error_and_not_its_text(
    tiny: Dataset, out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Unusable(Failing):
        async def open(self) -> None:
            raise UsageError("the answer was 'a secret of the documents'")

    jobs = JobQueue(lambda _url: Unusable(), out)
    job = jobs.submit(order(tiny), tiny)
    assert await end_of(job) is JobState.FAILED
    assert "secret" in job.describe()
    assert f"evaluation failed task_id={job.id} exception=UsageError" in caplog.text
    assert "secret" not in caplog.text
    await jobs.close()


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
    agent = Failing()
    agent.answers = answers
    jobs = JobQueue(lambda _url: agent, out)
    job = jobs.submit(order(tiny), tiny)
    assert await end_of(job) is state
    assert job.describe().startswith(words)
    assert "http://h" not in job.describe()
    await jobs.close()

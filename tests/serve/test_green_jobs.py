"""How evaluations end: with an agent that fails, or that cannot be used."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.serve.serving import loads

from assay.data import Dataset
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.outbound import UNRESTRICTED
from assay.progress import silent
from assay.serve.green import jobs
from assay.serve.green.jobs import EvaluationJob, JobQueue, JobState
from assay.serve.readiness import Loading
from assay.targets.protocol import AgentAnswer, AgentInfo


class Failing:
    """An agent that answers so many times, and then no more."""

    info = AgentInfo(name="failing", protocol="python")
    findings = ()

    def __init__(self, answers: int, unusable: str = "") -> None:
        self.answers = answers
        self.unusable = unusable

    async def open(self) -> None:
        if self.unusable:
            raise UsageError(self.unusable)

    async def close(self) -> None: ...

    async def ask(self, _query: str, _top_k: int) -> AgentAnswer:
        if self.answers:
            self.answers -= 1
            return AgentAnswer(())
        raise AgentFailure(FailureKind.AGENT_ERROR, "HTTP 500 from the agent")


async def evaluate(agent: Any, tiny: Dataset, out: Path) -> EvaluationJob:
    loading = Loading(lambda: loads(tiny)(silent))
    queue = JobQueue(loading, out, UNRESTRICTED, "tiny", 2)
    request = {"participants": {"retrieval_agent": "http://h"}, "config": {"num_queries": 3}}
    with mock.patch.object(jobs, "A2AAgent", return_value=agent):
        job = await queue.submit(request)
    assert [state async for state in job.updates(600)][-1].is_final
    await queue.close()
    return job


async def test_the_log_has_the_class_of_an_error_and_not_its_text(
    tiny: Dataset, out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Failing(0, unusable="the answer was 'a secret of the documents'")
    job = await evaluate(agent, tiny, out)
    assert job.state is JobState.FAILED
    assert "secret" in job.describe()
    assert f"evaluation failed task_id={job.id} exception=UsageError" in caplog.text
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
    job = await evaluate(Failing(answers), tiny, out)
    assert job.state is state
    assert job.describe().startswith(words)

"""Runs that stop, lose their target or are found again: what is kept, and what is asked anew."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.evaluating import half_right, resume, run
from tests.tiny_dataset import tiny_dataset

from assay.errors import AgentFailure, FailureKind, RunError
from assay.evaluation.evaluation import Evaluation, Events
from assay.run.config import RunConfig
from assay.targets import AgentAnswer, PythonAgent


class Gone:
    """Answers a few times, then refuses every connection."""

    def __init__(self, answers: int) -> None:
        self.left = answers
        self.refused = 0

    async def ask(self, _query: str, _top_k: int) -> AgentAnswer:
        if self.left:
            self.left -= 1
            return AgentAnswer(("d1",))
        self.refused += 1
        raise AgentFailure(FailureKind.CONNECTION, "connection refused")


def planned(size: int, **settings: Any) -> Evaluation:
    config = RunConfig(target="gone", dataset="tiny", retries=0, **settings)
    return replace(Evaluation.plan(config, tiny_dataset(size)), probe_pauses=(0.01, 0.01))


def test_a_target_that_dies_is_given_up_said_and_resumable(tmp_path: Path) -> None:
    said: list[str] = []
    agent = Gone(answers=30)
    evaluation = planned(200)
    events = Events(message=said.append)
    outcome = asyncio.run(evaluation.start(PythonAgent(agent, name="gone"), tmp_path, events))
    assert outcome.state == "target lost"
    assert agent.refused < 30
    assert outcome.report.summary.successful_queries == 30
    assert outcome.report.failures == {"not asked": 170}
    assert said[-1] == "the target is still unreachable; giving up"

    healed = PythonAgent(half_right, name="gone")
    after = asyncio.run(evaluation.resume(healed, outcome.folder))
    assert after.state == "complete"
    assert after.report.failures == {}
    assert after.report.summary.successful_queries == 200


def test_stop_keeps_what_was_done_and_resume_asks_only_the_rest(tmp_path: Path) -> None:
    asked: list[str] = []
    stop = asyncio.Event()

    async def slow(query: str, top_k: int) -> list[str]:
        asked.append(query)
        if len(asked) == 20:
            stop.set()
        await asyncio.sleep(0.001)
        return half_right(query, top_k)

    dataset = tiny_dataset(60)
    partial = run(slow, dataset, tmp_path, events=Events(stop=stop), concurrency=4)
    assert partial.state == "interrupted"
    done = partial.report.summary.total_queries
    assert 0 < done < 25
    assert partial.report.planned_queries == 60

    before = len(asked)
    whole = resume(partial.folder, dataset, slow)
    assert len(asked) - before == 60 - done
    unbroken = run(half_right, dataset, tmp_path)
    assert whole.report.statistics == unbroken.report.statistics


def test_resuming_a_finished_run_asks_nothing(tmp_path: Path) -> None:
    dataset = tiny_dataset(5)
    first = run(half_right, dataset, tmp_path)

    def never(_query: str, _top_k: int) -> list[str]:
        raise AssertionError("asked again")

    again = resume(first.folder, dataset, never)
    assert again.report.metrics == first.report.metrics
    assert again.report.failures == {}
    elapsed = max(row.at for row in first.rows())
    assert again.report.summary.total_time_seconds == pytest.approx(elapsed, abs=0.0006)
    thrice = resume(first.folder, dataset, never)
    assert thrice.report.summary.total_time_seconds == again.report.summary.total_time_seconds


def test_a_run_is_not_resumed_on_other_data(tmp_path: Path) -> None:
    first = run(half_right, tiny_dataset(5), tmp_path)
    with pytest.raises(RunError, match="was made on other data"):
        resume(first.folder, tiny_dataset(6))


def test_failures_of_a_finished_run_stand(tmp_path: Path) -> None:
    dataset = tiny_dataset(5)
    finished = run(Gone(answers=2).ask, dataset, tmp_path, retries=0)
    assert finished.state == "complete"
    assert resume(finished.folder, dataset).report.failures == {"connection": 3}


def test_errors_that_the_target_answered_with_are_no_part_of_the_outage(tmp_path: Path) -> None:
    """They came before it went away, so they stand; the refused connections are asked again."""
    asked = 0

    async def failing(_query: str, _top_k: int) -> list[str]:
        nonlocal asked
        asked += 1
        if asked <= 5:
            raise AgentFailure(FailureKind.AGENT_ERROR, "HTTP 500")
        raise AgentFailure(FailureKind.CONNECTION, "refused")

    evaluation = planned(200, concurrency=1)
    outcome = asyncio.run(evaluation.start(PythonAgent(failing, name="f"), tmp_path))
    assert outcome.state == "target lost"
    assert outcome.report.failures == {"agent error": 5, "not asked": 195}


def test_a_resumed_run_goes_on_from_the_time_it_had_reached(tmp_path: Path) -> None:
    dataset = tiny_dataset(6)
    outcome = run(half_right, dataset, tmp_path)
    lines = [json.loads(line) for line in outcome.folder.calls_file.read_text().splitlines()][:4]
    lines[-1]["at"] = 100.0
    outcome.folder.calls_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    whole = resume(outcome.folder, dataset)
    before = {line["query_id"] for line in lines}
    times = [row.at for row in whole.rows() if row.query_id not in before]
    assert len(times) == 2
    assert all(100 <= each < 160 for each in times)
    assert 100 <= whole.report.summary.total_time_seconds < 160


def test_a_target_that_only_times_out_is_lost(tmp_path: Path) -> None:
    async def hangs(_query: str, _top_k: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    evaluation = planned(200, timeout=0.01)
    outcome = asyncio.run(evaluation.start(PythonAgent(hangs, name="f"), tmp_path))
    assert outcome.state == "target lost"
    assert outcome.report.failures == {"not asked": 200}

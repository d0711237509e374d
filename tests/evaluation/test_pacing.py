"""Queries that time out get another chance, alone."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.data import Dataset
from assay.evaluation.calling import MAX_UNANSWERED
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.run import Run
from assay.report.terminal import plain_text, render_report
from assay.run.config import RunConfig
from assay.targets import AgentAnswer, AgentInfo

MakeDataset = Callable[[int], Dataset]


class Overloaded:
    """Answers at once where at most `most` are asked at a time, else nobody in time."""

    info = AgentInfo("overloaded", "test")

    def __init__(self, most: int, hangs: tuple[str, ...] = ()) -> None:
        self.most, self.hangs = most, hangs
        self.in_flight = 0
        self.asked: list[str] = []

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        self.asked.append(query)
        self.in_flight += 1
        try:
            await asyncio.sleep(0.01)
            if self.in_flight > self.most or query in self.hangs:
                await asyncio.sleep(60)
            return AgentAnswer((f"d{query.split()[1]}",))
        finally:
            self.in_flight -= 1


async def run(
    agent: Overloaded, data: Dataset, out: Path, **settings: Any
) -> tuple[Run, list[str]]:
    said: list[str] = []
    config = RunConfig(target="python:f", **{"timeout": 0.6, "retries": 0, **settings})
    plan = Evaluation.plan(config, data)
    return await plan.start(agent, out, events=Events(message=said.append)), said


async def test_queries_that_an_overloaded_agent_did_not_answer_cost_no_points(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    outcome, said = await run(Overloaded(2), make_dataset(12), tmp_path, concurrency=4)
    report = outcome.report
    assert report.failures == {}
    assert report.pacing is not None
    assert report.pacing.asked_again == report.pacing.answered_again > 0
    again = f"asking {report.pacing.asked_again} queries that timed out once more, one at a time"
    assert again in said
    shown = plain_text(render_report(report, path="x"))
    assert f"{report.pacing.asked_again} queries timed out and were asked again alone" in shown
    lines = [json.loads(line) for line in outcome.folder.calls_file.read_text().splitlines()]
    timed_out = {line["query_id"] for line in lines if line["status"] == "failed"}
    rows = {row.query_id: row for row in outcome.rows()}
    assert {key for key, row in rows.items() if row.asked_again} == timed_out
    assert all(row.status == "ok" for row in rows.values())
    # Among others it took longer than the limit, whatever it takes alone.
    assert report.latency_ms.max >= 600
    assert report.latency_ms.timeouts == len(timed_out)


async def test_an_agent_that_never_answers_some_is_not_asked_for_ever(
    make_dataset: MakeDataset, tmp_path: Path
) -> None:
    data = make_dataset(8)
    agent = Overloaded(9, hangs=tuple(f"query {number}" for number in range(6)))
    outcome, _ = await run(agent, data, tmp_path, timeout=0.4)
    plan = Evaluation.plan(outcome.folder.read_config(), data)
    well = Overloaded(9)
    again = await plan.resume(well, outcome.folder)
    assert well.asked == [], "the run was complete"
    assert again.report.pacing == outcome.report.pacing
    assert outcome.state == "complete"
    assert outcome.report.failures == {"timeout": 6}
    assert len(agent.asked) == 8 + MAX_UNANSWERED
    assert outcome.report.pacing is not None
    assert outcome.report.pacing.asked_again == MAX_UNANSWERED
    assert outcome.report.pacing.answered_again == 0

"""Single calls: retries, rate limits, refusals, and queries that time out and are asked again."""

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.tiny_dataset import tiny_dataset

from assay.data import Dataset, Query
from assay.errors import AgentFailure, FailureKind, TargetError
from assay.evaluation.calling import (
    KEPT_IDS,
    MAX_UNANSWERED,
    RATE_SECONDS,
    CallRecorder,
    ask,
    retry_policy,
)
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.run import Run
from assay.net.retry import CircuitBreaker
from assay.report.terminal import plain_text, render_report
from assay.run.calls import Call, CallWriter
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.targets import AgentAnswer, PythonAgent

QUERY = Query("q", "what?")
ANSWER = AgentAnswer(("d1",))


@dataclass
class Scripted:
    """Answers or fails with the next of `script`."""

    script: list[AgentAnswer | AgentFailure]
    asked: int = 0

    async def ask(self, _query: Query) -> AgentAnswer:
        step = self.script[self.asked]
        self.asked += 1
        if isinstance(step, AgentFailure):
            raise step
        return step


def failure(kind: FailureKind, *, after: float | None = 0.0) -> AgentFailure:
    return AgentFailure(kind, "no", retry_after=after)


async def asked(script: list[AgentAnswer | AgentFailure], *, retries: int = 3) -> Call:
    return await ask(Scripted(script).ask, QUERY, retry_policy(5, retries), CircuitBreaker())


async def test_what_can_pass_is_asked_again_until_retries_end() -> None:
    passing = failure(FailureKind.CONNECTION)
    call = await asked([passing, passing, ANSWER])
    assert (call.failure, call.doc_ids, call.attempts) == (None, ("d1",), 3)
    call = await asked([passing] * 9, retries=2)
    assert (call.failure, call.attempts) == (FailureKind.CONNECTION, 3)
    call = await asked([failure(FailureKind.AGENT_ERROR), ANSWER])
    assert (call.failure, call.attempts) == (FailureKind.AGENT_ERROR, 1)


async def test_no_more_ids_are_kept_than_anything_looks_at() -> None:
    call = await asked([AgentAnswer(tuple(f"d{i}" for i in range(KEPT_IDS + 7)))])
    assert (len(call.doc_ids), call.returned) == (KEPT_IDS, KEPT_IDS + 7)


@pytest.mark.parametrize(("after", "pause"), [(0.0, 0.0), (2.5, 2.5), (3600.0, 60.0)])
async def test_the_target_says_when_to_retry_within_limits(after: float, pause: float) -> None:
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    agent = Scripted([failure(FailureKind.CONNECTION, after=after), ANSWER])
    policy = replace(retry_policy(5, 3), sleep=sleep)
    await ask(agent.ask, QUERY, policy, CircuitBreaker())
    assert slept == [pause]


@pytest.mark.parametrize(("after", "most"), [(None, 200), (1.0, 121), (3600.0, 3)])
async def test_a_rate_limit_is_waited_for_beyond_retries(after: float | None, most: int) -> None:
    """How often we ask is our doing: no query may lose its points to it."""
    busy = AgentFailure(FailureKind.AGENT_ERROR, "busy", status=429, retry_after=after)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    async def asked_of(agent: Scripted, retries: int) -> Call:
        policy = replace(retry_policy(5, retries), sleep=sleep)
        return await ask(agent.ask, QUERY, policy, CircuitBreaker())

    for_ever = await asked_of(Scripted([busy] * 1000), 1)
    assert (for_ever.failure, for_ever.status) == (FailureKind.AGENT_ERROR, 429)
    assert 3 <= for_ever.attempts <= most
    assert RATE_SECONDS - 60 <= sum(slept) <= RATE_SECONDS
    assert (await asked_of(Scripted([busy, busy, ANSWER]), 1)).doc_ids == ("d1",)
    assert (await asked_of(Scripted([busy, ANSWER]), 0)).attempts == 1


def refused(status: int) -> Call:
    failed = FailureKind.AGENT_ERROR if status else None
    return Call("q", (), 1.0, 1, failure=failed, status=status or None)


@pytest.mark.parametrize(
    ("statuses", "stops"),
    [
        ([401] * 5, 401),
        ([403] * 5, 403),
        ([0, 401, 401, 401, 401, 401], 401),
        ([0, 429, 429, 401, 429, 429], 429),
        ([0, *[403] * 9], 0),
        ([401, 401, 401, 401, 0, 401, 401, 401, 401], 0),
        ([500] * 9, 0),
        ([500, *[403] * 5], 403),
    ],
)
def test_a_target_that_refuses_five_queries_in_a_row_is_noticed(
    statuses: list[int], stops: int, tmp_path: Path
) -> None:
    folder, said = RunFolder(tmp_path), ""
    with CallWriter(folder.calls_file) as writer:
        recorder = CallRecorder(
            folder, writer, count=lambda _call: None, say=print, elapsed=0.0, protocol="rest"
        )
        try:
            for status in statuses:
                recorder.add(refused(status))
        except TargetError as error:
            said = str(error)
    assert said.startswith(f"HTTP {stops} for 5 queries in a row" if stops else "")
    assert bool(said) == bool(stops)


def test_what_is_odd_about_answers_is_said_once(tmp_path: Path) -> None:
    folder, said = RunFolder(tmp_path), list[str]()
    odd = Call("q", ("a", "b"), 1.0, 1, unknown_keys=("chunk_texts",))
    with CallWriter(folder.calls_file) as writer:
        recorder = CallRecorder(folder, writer, lambda _call: None, said.append, 0.0, None)
        recorder.add(odd)
        recorder.add(odd)
    (keys,) = said
    assert "has keys that are not read: 'chunk_texts'; an answer may have" in keys


class Overloaded:
    """Answers at once where at most `most` are asked at a time, else nobody in time."""

    def __init__(self, most: int, hangs: tuple[str, ...] = ()) -> None:
        self.most, self.hangs = most, hangs
        self.in_flight = 0
        self.asked: list[str] = []

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
    running = plan.start(PythonAgent(agent, name="f"), out, events=Events(message=said.append))
    return await running, said


async def test_queries_that_timed_out_under_load_cost_no_points(tmp_path: Path) -> None:
    outcome, said = await run(Overloaded(2), tiny_dataset(12), tmp_path, concurrency=4)
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


async def test_an_agent_that_never_answers_some_is_not_asked_for_ever(tmp_path: Path) -> None:
    data = tiny_dataset(8)
    agent = Overloaded(9, hangs=tuple(f"query {number}" for number in range(6)))
    outcome, _ = await run(agent, data, tmp_path, timeout=0.4)
    plan = Evaluation.plan(outcome.folder.read_config(), data)
    well = Overloaded(9)
    again = await plan.resume(PythonAgent(well, name="f"), outcome.folder)
    assert well.asked == [], "the run was complete"
    assert again.report.pacing == outcome.report.pacing
    assert outcome.state == "complete"
    assert outcome.report.failures == {"timeout": 6}
    assert len(agent.asked) == 8 + MAX_UNANSWERED
    assert outcome.report.pacing is not None
    assert outcome.report.pacing.asked_again == MAX_UNANSWERED
    assert outcome.report.pacing.answered_again == 0

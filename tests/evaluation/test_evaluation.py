"""Whole evaluations in process: what is asked, what is recorded, what the report says."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.evaluation.evaluating import half_right, number, resume, run
from tests.tiny_dataset import tiny_dataset

import assay
from assay.data import Dataset, Query
from assay.evaluation.evaluation import Evaluation, Events, Tick
from assay.report.terminal import plain_text, render_report
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.models import UnseenQueries
from assay.targets import AgentInfo, PythonAgent


def test_rows_stand_in_the_order_of_the_plan_however_calls_finish(tmp_path: Path) -> None:
    async def late_first(query: str, top_k: int) -> list[str]:
        await asyncio.sleep(0.05 if number(query) == 0 else 0)
        return half_right(query, top_k)

    outcome = run(late_first, tiny_dataset(6), tmp_path, concurrency=6)
    lines = outcome.folder.calls_file.read_text().splitlines()
    calls = [json.loads(line)["query_id"] for line in lines]
    rows = [row["query_id"] for row in outcome.folder.read_json()["per_query_results"]]
    assert calls[-1] == "q0"
    assert rows == [f"q{i}" for i in range(6)]


def test_a_hanging_function_neither_blocks_the_others_nor_the_end(tmp_path: Path) -> None:
    def hangs_once(query: str, top_k: int) -> list[str]:
        if number(query) == 0:
            time.sleep(20)
        return half_right(query, top_k)

    started = time.monotonic()
    head = run(hangs_once, tiny_dataset(20), tmp_path, timeout=0.2, concurrency=2).report
    assert head.failures == {"timeout": 1}
    assert time.monotonic() - started < 15


def test_ticks_count_up_to_the_final_mean(tmp_path: Path) -> None:
    ticks: list[Tick] = []
    outcome = run(half_right, tiny_dataset(10), tmp_path, events=Events(tick=ticks.append))
    assert (ticks[-1].done, ticks[-1].total, ticks[-1].failed) == (10, 10, 0)
    assert ticks[-1].mean == pytest.approx(outcome.metrics["ndcg@5"])


def test_queries_new_to_training_are_scored_apart(tmp_path: Path) -> None:
    base = tiny_dataset(4)
    queries = {
        "t": Query("t", "why is the sky blue today"),
        "q0": Query("q0", "why is the sky blue 0"),
        "q1": Query("q1", "something else entirely 1"),
    }
    judgments = {"train": {"t": {"d0": 1}}, "test": {"q0": {"d0": 1}, "q1": {"d1": 1}}}
    dataset = Dataset("tiny", base.documents, queries, judgments)
    head = run(lambda _query, _top_k: ["d0"], dataset, tmp_path).report
    assert head.metrics["ndcg@5"] == 0.5
    assert head.unseen_queries == UnseenQueries(queries=1, mean=0.0, low=None, high=None)
    assert run(half_right, base, tmp_path).report.unseen_queries is None
    known = Dataset("tiny", base.documents, queries, {**judgments, "test": {"q0": {"d0": 1}}})
    head = run(lambda _query, _top_k: ["d0"], known, tmp_path).report
    assert head.unseen_queries is None  # no mean over nothing


def test_latency_percentiles_are_those_of_the_calls(tmp_path: Path) -> None:
    dataset = tiny_dataset(101)
    calls = run(half_right, dataset, tmp_path).folder.calls_file
    lines = [json.loads(line) for line in calls.read_text().splitlines()]
    calls.write_text(
        "".join(json.dumps({**line, "latency_ms": n}) + "\n" for n, line in enumerate(lines))
    )
    head = resume(RunFolder(calls.parent), dataset).report
    figures = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0, "max": 100.0}
    assert head.latency_ms.model_dump() == {**figures, "queries": 101, "timeouts": 0}
    assert head.summary.model_dump()["latency_p99_ms"] == 99.0


def test_a_timeout_counts_in_the_latency_as_its_limit_at_least(tmp_path: Path) -> None:
    """The function gives up at once by itself, which must not look like a quick answer."""

    def gives_up(query: str, top_k: int) -> list[str]:
        if number(query) % 4 == 0:
            raise TimeoutError
        if number(query) % 4 == 1:
            raise ValueError("broken")
        return half_right(query, top_k)

    outcome = run(gives_up, tiny_dataset(40), tmp_path, timeout=30, gates=("latency_p99_ms<=900",))
    latency = outcome.report.latency_ms
    assert (latency.queries, latency.timeouts) == (30, 10)
    assert latency.p50 < 30_000
    assert latency.p90 == latency.max == 30_000
    assert outcome.report.summary.successful_queries == 20
    assert not outcome.gates_passed


def test_an_agent_that_learned_from_what_it_is_measured_on_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    learned = AgentInfo("f", "python", learned_from=("train", "test"))
    agent = PythonAgent(SimpleNamespace(ask=half_right, info=learned), name="f")
    evaluation = Evaluation.plan(RunConfig(target="python:f"), tiny_dataset(4))
    asyncio.run(evaluation.start(agent, tmp_path, events=Events(message=said.append)))
    assert [line for line in said if "learned from the test judgments" in line]


def test_queries_without_a_relevant_document_are_counted_and_said(tmp_path: Path) -> None:
    """trec_eval counts them with 0; here they count in no mean, and the report says so."""
    dataset = tiny_dataset(4)
    judgments = {**dataset.judgments["test"], "q0": {"d0": 0, "d1": 0}}
    changed = replace(dataset, judgments={"test": judgments})
    report = assay.evaluate(lambda _query, _top_k: ["d1"], changed, out=tmp_path).report
    assert report.summary.total_queries == 3
    assert report.dataset.queries_without_relevant == 1
    words = plain_text(render_report(report, path="runs/x"))
    assert "1 judged query has no relevant document: left out of every mean" in words
    sample = assay.evaluate(
        lambda _query, _top_k: ["d1"], changed, num_queries=2, out=tmp_path
    ).report
    assert "left out of" not in plain_text(render_report(sample, path="runs/x"))

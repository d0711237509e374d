"""Whatever an agent does wrong, the run ends with the right class of failure and score."""

import asyncio
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.faults.bad_agent import DEATH, BadAgent, bad_agent
from tests.tiny_dataset import tiny_dataset

from assay.errors import TargetError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.run import Run
from assay.metrics.violations import Kind
from assay.run.config import RunConfig
from assay.targets.a2a.agent import A2AAgent

SIZE = 4
BOUND = 20.0
"""Seconds after which a run counts as hung; what it guards against would last for minutes."""

IDEAL = 2 + 1 / math.log2(3)


@pytest.fixture
def bad() -> Iterator[BadAgent]:
    with bad_agent() as agent:
        yield agent


async def evaluate(agent: A2AAgent, out: Path, *, size: int = SIZE, retries: int = 1) -> Run:
    config = RunConfig(agent.info.name, dataset="tiny", timeout=5.0, retries=retries, warm_up=0)
    evaluation = replace(Evaluation.plan(config, tiny_dataset(size)), probe_pauses=(0.01, 0.01))
    async with asyncio.timeout(BOUND):
        return await evaluation.start(agent, out)


@pytest.mark.parametrize(
    ("mode", "failures", "ndcg"),
    [
        ("fine", {}, 1.0),
        ("error_500", {"agent error": SIZE}, 0.0),
        ("first_502", {}, 1.0),
        ("first_reset", {}, 1.0),
        ("garbage", {"protocol": SIZE}, 0.0),
        ("wrong_shape", {"invalid answer": SIZE}, 0.0),
        ("numbers", {}, 0.0),
        ("failed_task", {"agent error": SIZE}, 0.0),
        ("duplicates", {}, 2 / IDEAL),
        ("unknown", {}, 0.0),
        ("too_many", {}, 1.0),
    ],
)
async def test_every_fault_has_its_class_and_score(
    bad: BadAgent, tmp_path: Path, mode: str, failures: dict[str, int], ndcg: float
) -> None:
    outcome = await evaluate(A2AAgent(f"{bad.url}/{mode}"), tmp_path)
    assert outcome.state == "complete"
    assert outcome.report.failures == failures
    assert outcome.metrics["ndcg@5"] == pytest.approx(ndcg)
    kinds: dict[str, tuple[Kind, int]] = {
        "duplicates": ("duplicate", 4 * SIZE),
        "unknown": ("unknown", 3 * SIZE),
        "too_many": ("surplus", 497 * SIZE),
    }
    if mode in kinds:
        kind, ids = kinds[mode]
        assert outcome.report.violations[kind].ids == ids


@pytest.mark.parametrize("mode", ["wildcard_card", "unknown_host_card", "closed_port_card"])
async def test_a_wrong_address_in_the_card_gives_way_to_the_one_that_was_used(
    bad: BadAgent, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = A2AAgent(f"{bad.url}/{mode}")
    outcome = await evaluate(agent, tmp_path)
    assert outcome.metrics["ndcg@5"] == pytest.approx(1.0)
    assert agent.dialect.url == f"{bad.url}/{mode}/fine"
    assert "calling" in agent.findings[0].what
    assert agent.findings[0].what in caplog.text


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("broken_card", "not JSON"), ("redirected_card", "another host"), ("nothing", "HTTP 404")],
)
async def test_without_a_card_the_run_does_not_start(
    bad: BadAgent, tmp_path: Path, mode: str, reason: str
) -> None:
    with pytest.raises(TargetError, match="no agent card found") as caught:
        await evaluate(A2AAgent(f"{bad.url}/{mode}"), tmp_path)
    assert reason in str(caught.value)
    assert "/.well-known/agent.json" in str(caught.value)
    assert not list(tmp_path.iterdir())


async def test_an_agent_that_dies_half_way_is_given_up_and_what_it_did_counts(
    bad: BadAgent, tmp_path: Path
) -> None:
    outcome = await evaluate(A2AAgent(f"{bad.url}/dies"), tmp_path, size=60, retries=0)
    assert outcome.state == "target lost"
    assert outcome.report.summary.successful_queries == DEATH
    assert sum(outcome.report.failures.values()) == 60 - DEATH
    assert outcome.report.failures["not asked"] > 0
    assert outcome.metrics["ndcg@5"] == pytest.approx(DEATH / 60)


async def test_no_message_or_log_holds_what_was_asked_or_answered(
    bad: BadAgent, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    for mode in ("error_500", "garbage", "failed_task", "wrong_shape"):
        outcome = await evaluate(A2AAgent(f"{bad.url}/{mode}"), tmp_path / mode)
        for line in outcome.folder.calls_file.read_text().splitlines():
            # What the agent itself says is kept apart, so that a private run can leave it out.
            told = json.loads(line).get("failure", {}).get("message", "")
            assert "secret" not in told
            assert "stack trace" not in told
    assert "query 3" not in caplog.text
    assert "secret" not in caplog.text

"""What a run makes of an agent whose card is wrong or missing."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.faults.bad_agent import BadAgent, bad_agent
from tests.tiny_dataset import tiny_dataset

from assay.errors import TargetError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.run import Run
from assay.run.config import RunConfig
from assay.targets.a2a import A2AAgent

BOUND = 20.0
"""Seconds after which a run counts as hung; what it guards against would last for minutes."""


@pytest.fixture
def bad() -> Iterator[BadAgent]:
    with bad_agent() as agent:
        yield agent


async def evaluate(agent: A2AAgent, out: Path) -> Run:
    config = RunConfig(agent.info.name, dataset="tiny", timeout=5.0, retries=1, warm_up=0)
    evaluation = replace(Evaluation.plan(config, tiny_dataset(4)), probe_pauses=(0.01, 0.01))
    async with asyncio.timeout(BOUND):
        return await evaluation.start(agent, out)


@pytest.mark.parametrize("mode", ["wildcard_card", "unknown_host_card", "closed_port_card"])
async def test_a_wrong_address_in_the_card_gives_way_to_the_one_that_was_used(
    bad: BadAgent, tmp_path: Path, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    agent = A2AAgent(f"{bad.url}/{mode}")
    outcome = await evaluate(agent, tmp_path)
    assert outcome.metrics["ndcg@5"] == pytest.approx(1.0)
    assert agent.interface.url == f"{bad.url}/{mode}/fine"
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

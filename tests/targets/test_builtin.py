"""`builtin:` and `purple:`: our own retriever, in process and in another."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.tiny_dataset import tiny_dataset

from assay.data import Dataset, load_dataset
from assay.errors import (
    AgentFailure,
    FailureKind,
    ProviderError,
    ProviderFailure,
    TargetError,
    UsageError,
)
from assay.evaluation.evaluation import Evaluation
from assay.llm.passages import Passage
from assay.run.config import RunConfig
from assay.targets.builtin import BuiltinAgent, PurpleProcess
from assay.targets.target_kinds import OpenContext, parse_target


class Away:
    name = "away"

    async def answer(self, *_: object) -> None:
        raise ProviderError(ProviderFailure.CONNECTION, "the model is away")


async def test_a_model_that_is_away_is_an_outage() -> None:
    agent = BuiltinAgent(
        parse_target("builtin:bm25"), OpenContext(load_dataset("notes"), answers=True)
    )
    agent._answerer = Away()  # type: ignore[assignment]
    with pytest.raises(AgentFailure) as caught:
        await agent.answer_from("tea?", [Passage("d", "", "tea")])
    assert caught.value.kind is FailureKind.CONNECTION


HOLDER = """
import asyncio
from assay.data import load_dataset
from assay.targets.builtin import PurpleProcess
from assay.targets.target_kinds import OpenContext, parse_target

async def main():
    agent = PurpleProcess(parse_target("purple:bm25"), OpenContext(load_dataset("notes")))
    await agent.open()
    print(agent.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.fixture
def orchard() -> Dataset:
    return replace(tiny_dataset(6, document="fruit{}", query="fruit{}"), name="orchard")


async def test_an_evaluation_starts_and_stops_the_agent(
    orchard: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    misleading = {"ASSAY_TOKEN": "x", "ASSAY_PORT": "1", "MCP_SERVER_URL": "http://127.0.0.1:1"}
    for name, value in misleading.items():  # settings of other servers
        monkeypatch.setenv(name, value)
    stages: list[str] = []
    context = OpenContext(orchard, progress=lambda what, *_: stages.append(what))
    agent = PurpleProcess(parse_target("purple:bm25"), context)
    config = RunConfig(target="purple:bm25", dataset="orchard", concurrency=2)
    outcome = await Evaluation.plan(config, orchard).start(agent, tmp_path)
    assert outcome.metrics["mrr@5"] == 1.0
    assert outcome.report.target.name == "purple:bm25"
    assert outcome.report.track == "zero-shot"
    assert "A2A 1.0" in outcome.report.target.details
    assert stages[0] == "starting the purple agent"
    assert agent._process is not None
    assert agent._process.returncode == 0


def test_the_reference_agent_only_retrieves(orchard: Dataset) -> None:
    for text, answers in (("purple:bm25", True), ("purple:bm25#ollama:qwen3:8b", False)):
        with pytest.raises(UsageError, match="only retrieve"):
            PurpleProcess(parse_target(text), OpenContext(orchard, answers=answers))


async def test_the_agent_dies_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = (sys.executable, "-c", HOLDER)
    parent = await asyncio.create_subprocess_exec(*command, stdout=PIPE, env=environment)
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    os.kill(child, 0)  # it is alive
    parent.send_signal(signal.SIGKILL)
    await parent.wait()
    with suppress(ProcessLookupError):
        for _ in range(400):
            os.kill(child, 0)
            await asyncio.sleep(0.05)
        pytest.fail("the agent still runs after 20 s")
    assert not list(tmp_path.iterdir())


async def test_why_an_index_cannot_be_loaded_is_told_with_its_place(
    orchard: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process says to callers what is wrong, and to its log where; the log is ours to show."""
    no_folder = tmp_path / "no-folder"
    no_folder.write_text("")
    monkeypatch.setenv("ASSAY_CACHE", str(no_folder))
    agent = PurpleProcess(parse_target("purple:hybrid"), OpenContext(orchard))
    with pytest.raises(TargetError, match=r"could not load its index") as raised:
        await agent.open()
    await agent.close()
    assert str(no_folder) in str(raised.value)
    assert agent._process is not None
    assert agent._process.returncode is not None

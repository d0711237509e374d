"""The Qdrant server behind a `builtin:` target dies in the middle of a run: an outage like any."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.loopback import free_port
from tests.search.conftest import QdrantServer, running_server
from tests.search.samples import WordEmbedder

from assay.data import Dataset
from assay.errors import TargetError
from assay.evaluation.evaluation import Evaluation, Events
from assay.run.config import RunConfig
from assay.search import index
from assay.targets.builtin import BuiltinAgent
from assay.targets.protocol import AgentAnswer
from assay.targets.target_kinds import OpenContext, parse_target

MakeDataset = Callable[[int], Dataset]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(index, "open_embedder", WordEmbedder)


HYBRID = parse_target("builtin:hybrid")


@pytest.fixture
def port() -> int:
    return free_port()


class KillsItsServer(BuiltinAgent):
    """Ends the server when it is asked for the so-manieth time."""

    server: QdrantServer
    kill_at = 6
    asked = 0

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        self.asked += 1
        if self.asked == self.kill_at:
            self.server.kill()
        return await super().ask(query, top_k)


def settings_of(port: int) -> dict[str, str]:
    return {"QDRANT__SERVICE__HTTP_PORT": str(port)}


async def test_a_run_whose_index_dies_is_lost_and_can_be_resumed(
    make_dataset: MakeDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setenv("QDRANT_URL", f"http://127.0.0.1:{port}")
    data = make_dataset(30)
    config = RunConfig(target="builtin:hybrid", concurrency=2, retries=0)
    plan = replace(Evaluation.plan(config, data), probe_pauses=(0.01, 0.01))
    said: list[str] = []
    with running_server(tmp_path, **settings_of(port)) as server:
        undisturbed = await plan.start(BuiltinAgent(HYBRID, OpenContext(data)), tmp_path / "runs")
        agent = KillsItsServer(HYBRID, OpenContext(data))
        agent.server = server
        run = await plan.start(agent, tmp_path / "runs", events=Events(message=said.append))
    assert run.state == "target lost"
    assert run.exit_code == 3
    # What was asked of a dead server is no failure of the retriever: it is not asked yet.
    assert set(run.report.failures) == {"not asked"}
    assert "giving up" in said[-1]
    with pytest.raises(TargetError, match="does not respond"):
        await plan.resume(BuiltinAgent(HYBRID, OpenContext(data)), run.folder)
    with running_server(tmp_path, **settings_of(port)):
        finished = await plan.resume(BuiltinAgent(HYBRID, OpenContext(data)), run.folder)
    assert (finished.state, finished.report.failures) == ("complete", {})
    assert finished.report.metrics == undisturbed.report.metrics

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract_agents.sample_agents import Agents, make_knowledge, running_agents
from tests.search.conftest import isolate


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    isolate(monkeypatch, tmp_path / "cache")


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[Agents]:
    async with running_agents(make_knowledge(tmp_path / "bases")) as found:
        yield found

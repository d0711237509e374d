import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.contract_agents.sample_agents import Agents, make_knowledge, running_agents


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cache of the test's own, and no setting that leaks in."""
    for name in list(os.environ):
        if name.startswith(("QDRANT_", "ASSAY_", "NCBI_")) or name == "COLLECTION_NAME":
            monkeypatch.delenv(name)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[Agents]:
    async with running_agents(make_knowledge(tmp_path / "bases")) as found:
        yield found

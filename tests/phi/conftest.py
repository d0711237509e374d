from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from tests.phi.recording import Recording, recording_everything


@pytest.fixture(autouse=True)
def surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def log() -> Iterator[Recording]:
    with recording_everything() as recording:
        yield recording


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        yield client

from collections.abc import Iterator
from pathlib import Path

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

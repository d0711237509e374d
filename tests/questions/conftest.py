from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAG_EVAL_PROVIDER", "ASSAY_SEED", "ASSAY_COUNT", "ASSAY_QUESTION_KINDS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

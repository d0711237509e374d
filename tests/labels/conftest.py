"""A small data set, a real model server, and the command in this process."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.llm_providers.model_server import ModelServer

from assay.cli.app import app
from assay.data import Dataset, Document, Query
from assay.data.beir import write_beir
from assay.errors import AssayError

NFCORPUS = pytest.mark.skipif(
    not os.environ.get("NFCORPUS_ARCHIVE"), reason="NFCORPUS_ARCHIVE is not set"
)

TEXTS = {
    "a": ("Tea", "Forty adults drank tea for a year. Tea lowered their blood pressure by 3 mmHg."),
    "b": ("Coffee", "Coffee was given to 25 people in Basel. Filtered coffee changed nothing."),
    "c": ("Tea and sleep", "Tea late in the evening shortens sleep by 20 minutes in Lisbon."),
    "d": ("Water", "Water was the control drink. Tea is mostly water, about 99 percent of it."),
    "e": ("Empty", ""),
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("PROVIDER", "PRICES", "OPENAI_API_KEY", "OPENAI_MODEL", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(f"RAG_EVAL_{name}", raising=False)
    for name in ("ASSAY_MAX_COST", "ASSAY_NUM_QUERIES", "ASSAY_SEED", "ASSAY_SPLIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def drinks() -> Dataset:
    documents = {key: Document(key, *value) for key, value in TEXTS.items()}
    queries = {
        "q1": Query("q1", "does tea lower blood pressure"),
        "q2": Query("q2", "coffee in Basel"),
        "q3": Query("q3", "nobody judged this"),
    }
    judged = {"q1": {"c": 1, "gone": 2, "d": 2, "a": 2, "b": 0, "e": 1}, "q2": {"b": 1}, "q3": {}}
    return Dataset("drinks", documents, queries, {"test": judged})


@pytest.fixture
def folder(drinks: Dataset, tmp_path: Path) -> Path:
    """The same as files."""
    root = tmp_path / "drinks"
    write_beir(drinks, root)
    return root


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """What `--provider openai` asks."""
    with ModelServer().running() as running:
        monkeypatch.setenv("RAG_EVAL_OPENAI_BASE_URL", running.url)
        monkeypatch.setenv("RAG_EVAL_OPENAI_MODEL", "gpt-4o-mini")
        yield running


def invoke(*arguments: object) -> dict[str, Any]:
    command = ["ground-truth", *map(str, arguments), "--json"]
    result = CliRunner().invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    content: dict[str, Any] = json.loads(result.stdout)
    return content


def refused(*arguments: object) -> AssayError:
    result = CliRunner().invoke(app, ["ground-truth", *map(str, arguments)])
    assert isinstance(result.exception, AssayError), result.output
    return result.exception

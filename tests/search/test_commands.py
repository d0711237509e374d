"""`assay index` and `assay search`, with the built-in model."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import Dataset, Document, Query
from assay.cli.app import app
from assay.data.beir import write_beir
from assay.errors import AssayError, UsageError


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    documents = {
        "d1": Document("d1", "Green tea", "Leaves are steeped in hot water."),
        "d2": Document("d2", "Espresso", "Ground beans are pressed by steam."),
        "d3": Document("d3", "", "A long title is cut to fit: " + "milk and honey " * 9),
    }
    judgments = {"test": {"q1": {"d1": 1}}}
    data = Dataset("drinks", documents, {"q1": Query("q1", "tea")}, judgments)
    write_beir(data, tmp_path / "drinks")
    return tmp_path / "drinks"


def run(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    if isinstance(result.exception, AssayError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_index_tells_what_it_did_and_where(dataset: Path, surroundings: Path) -> None:
    first = json.loads(run("index", "--dataset", dataset, "--json"))
    assert (first["documents"], first["rebuilt"], first["embedded"]) == (3, True, 3)
    assert first["index"] == str(surroundings / "index" / "drinks")
    assert first["embedder"].startswith("all-MiniLM-L6-v2")
    assert first["bm25_language"] == "english"
    again = " ".join(run("index", "--dataset", dataset).split())
    assert "documents 3 embedded 0 rebuilt no" in again


def test_search_indexes_on_first_use_and_shows_a_table(dataset: Path) -> None:
    shown = run("search", "how is coffee made?", "--dataset", dataset, "--top-k", "3")
    lines = shown.splitlines()
    assert lines[0].split() == ["#", "score", "document", "title", "dense", "feedback"]
    assert lines[1].split()[0::2] == ["1", "d2", "1"]
    assert "A long title is cut" in shown
    assert max(map(len, lines)) <= 80
    assert len(lines) == 4


def test_search_prints_json_and_nothing_else(dataset: Path) -> None:
    found = json.loads(run("search", "green tea", "--dataset", dataset, "--mode", "bm25", "--json"))
    assert (found["query"], found["mode"]) == ("green tea", "bm25")
    (first,) = found["results"]
    assert first.pop("score") == pytest.approx(0.15, abs=0.15)
    assert first == {
        "rank": 1,
        "doc_id": "d1",
        "title": "Green tea",
        "text": "Leaves are steeped in hot water.",
        "chunk_index": 0,
        "total_chunks": 1,
        "metadata": {},
        "signals": {"bm25": 1},
    }


def test_bm25_embeds_nothing_and_uses_an_index_with_vectors(
    dataset: Path, surroundings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | Path] = ["search", "green tea", "--dataset", dataset]
    asked += ["--mode", "bm25", "--json"]
    found = run(*asked)
    assert not (surroundings / "index").exists()
    assert not (surroundings / "vectors.sqlite3").exists()
    run("index", "--dataset", dataset)
    monkeypatch.setattr("assay.search.bm25.open_bm25", None)
    assert run(*asked) == found


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["search", "tea", "--embedder", "onnx:x", "--dataset", "notes"], "has no model.onnx"),
        (["index", "--embedder", "magic:m", "--dataset", "notes"], "openai:MODEL"),
    ],
)
def test_wrong_usage_builds_nothing(arguments: list[str], words: str, surroundings: Path) -> None:
    with pytest.raises(UsageError, match=words):
        run(*arguments)
    assert not (surroundings / "index").exists()

"""k1 and b picked on a train split."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.app import app
from assay.data import load_dataset
from assay.errors import DataError
from assay.search import bm25_choice
from assay.search.bm25 import Bm25Settings
from assay.search.bm25_choice import choose_bm25
from assay.search.bm25_index import Bm25Index


def write(folder: Path, *, split: str = "train", queries: int = 30, long_wins: bool = True) -> Path:
    """Each query has a long and a short document with its word: one of them is relevant."""
    (folder / "qrels").mkdir(parents=True)
    documents, asked, judged = [], [], ["query-id\tcorpus-id\tscore"]
    for number in range(queries):
        word = f"word{number}x"
        long = f"{word} " * 3 + "filler words that say nothing of it " * 12
        documents.append({"_id": f"{number}-long", "title": "", "text": long})
        documents.append({"_id": f"{number}-short", "title": "", "text": f"{word} alone"})
        asked.append({"_id": f"q{number}", "text": word})
        judged.append(f"q{number}\t{number}-{'long' if long_wins else 'short'}\t1")
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, documents)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)))
    (folder / "qrels" / f"{split}.tsv").write_text("\n".join(judged) + "\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\t0-short\t1\n")
    return folder


def test_settings_that_do_not_punish_length_are_found_where_long_documents_are_right(
    tmp_path: Path,
) -> None:
    found = choose_bm25(load_dataset(str(write(tmp_path / "long"))))
    assert found.better
    assert found.chosen == found.best != Bm25Settings()
    assert found.chosen.b < 0.75
    assert found.ndcg_10 > found.default_ndcg_10
    assert found.queries == 30


def test_defaults_stay_where_they_are_as_good(tmp_path: Path) -> None:
    found = choose_bm25(load_dataset(str(write(tmp_path / "short", long_wins=False))))
    assert not found.better
    assert found.chosen == Bm25Settings()
    assert found.default_ndcg_10 == 1.0


def test_figures_are_those_of_the_index(tmp_path: Path) -> None:
    data = load_dataset(str(write(tmp_path / "long")))
    index = Bm25Index(data.documents.values())
    firsts = [index.search(data.queries[one].text, 1)[0][0] for one in data.judgments["train"]]
    right = sum(one.endswith("long") for one in firsts) / len(firsts)
    found = choose_bm25(data)
    # Both documents are always found: the right one is first, or second at 1 / log2(3).
    assert found.default_ndcg_10 == pytest.approx(right + (1 - right) * 0.6309, abs=1e-4)


def test_only_the_train_split_is_looked_at(tmp_path: Path) -> None:
    data = load_dataset(str(write(tmp_path / "dev", split="dev")))
    with pytest.raises(DataError, match="0 judged queries in train"):
        choose_bm25(data)


def test_of_many_queries_some_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bm25_choice, "MOST_QUERIES", 25)
    assert choose_bm25(load_dataset(str(write(tmp_path / "many")))).queries == 25


def test_the_command_prints_the_options_to_use(tmp_path: Path) -> None:
    folder = write(tmp_path / "long")
    told = CliRunner().invoke(app, ["tune", "--bm25", "--dataset", str(folder)])
    assert told.exit_code == 0
    assert "use: --bm25-k1" in told.output
    read = CliRunner().invoke(app, ["tune", "--bm25", "--dataset", str(folder), "--json"])
    record = json.loads(read.stdout)
    assert record["better"]
    assert record["chosen"]["b"] < 0.75

"""The settings of BM25 picked on a train split."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay.cli.app import app
from assay.data import load_dataset
from assay.errors import DataError
from assay.search import bm25_choice
from assay.search.bm25 import Bm25Settings
from assay.search.bm25_choice import choose_bm25
from assay.search.bm25_index import Bm25Index


def write(folder: Path, *, split: str = "train", queries: int = 30, long_wins: bool = True) -> Path:
    """Each query has a long and a short document with its word: one of them is relevant."""
    documents, asked = {}, []
    for number in range(queries):
        word = f"word{number}x"
        long = f"{word} " * 3 + "filler words that say nothing of it " * 12
        documents[f"{number}-long"] = "", long
        documents[f"{number}-short"] = "", f"{word} alone"
        asked.append((word, f"{number}-{'long' if long_wins else 'short'}"))
    return write_beir(folder, documents, asked, split)


def write_beir(
    folder: Path,
    documents: Mapping[str, tuple[str, str]],
    asked: Sequence[tuple[str, str]],
    split: str = "train",
) -> Path:
    """`documents`: title and text by id; `asked`: queries, each with its relevant document."""
    (folder / "qrels").mkdir(parents=True)
    corpus = [{"_id": i, "title": title, "text": text} for i, (title, text) in documents.items()]
    queries = [{"_id": f"q{number}", "text": text} for number, (text, _) in enumerate(asked)]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    head, (_, right) = "query-id\tcorpus-id\tscore\n", asked[0]
    judged = [f"q{number}\t{relevant}\t1\n" for number, (_, relevant) in enumerate(asked)]
    (folder / "qrels" / f"{split}.tsv").write_text(head + "".join(judged))
    (folder / "qrels" / "test.tsv").write_text(f"{head}q0\t{right}\t1\n")
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


def test_titles_count_less_where_texts_are_right(tmp_path: Path) -> None:
    """A word in the title against the same word twice in the text, all equally long."""
    documents, asked = {}, []
    for number in range(20):
        documents[f"{number}-named"] = f"word{number}x", "some text of eight words without the word"
        documents[f"{number}-told"] = (
            "heading",
            f"word{number}x word{number}x text of words like it all",
        )
        asked.append((f"word{number}x", f"{number}-told"))
    found = choose_bm25(load_dataset(str(write_beir(tmp_path / "titles", documents, asked))))
    assert found.better
    assert found.chosen == Bm25Settings(title_weight=1.0)
    assert (found.default_ndcg_10, found.ndcg_10) == pytest.approx((0.6309, 1.0), abs=1e-4)


def test_long_documents_get_a_lower_bound_where_they_are_right(tmp_path: Path) -> None:
    """All words of the query in a very long document against one of them in a short one."""
    documents, asked = {}, []
    for number in range(20):
        words = [f"{kind}{number}x" for kind in ("red", "green", "blue")]
        documents[f"{number}-long"] = "", " ".join([*words, *["filler"] * 400])
        documents[f"{number}-short"] = "", f"{words[0]} " * 3
        documents |= {
            f"{number}-other-{one}": ("", "four words about nothing") for one in range(19)
        }
        asked.append((" ".join(words), f"{number}-long"))
    found = choose_bm25(load_dataset(str(write_beir(tmp_path / "delta", documents, asked))))
    assert found.better
    assert found.chosen == Bm25Settings(delta=1.0)


def test_stop_words_are_read_where_they_matter(tmp_path: Path) -> None:
    documents, asked = {}, []
    for number in range(20):
        documents[f"{number}-a"] = "", f"word{number}x the"
        documents[f"{number}-b"] = "", f"word{number}x not"
        asked.append((f"not word{number}x", f"{number}-b"))
    found = choose_bm25(load_dataset(str(write_beir(tmp_path / "words", documents, asked))))
    assert found.better
    assert found.chosen == Bm25Settings(stop_words="none")


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
    monkeypatch.setattr(bm25_choice, "MAX_QUERIES", 25)
    assert choose_bm25(load_dataset(str(write(tmp_path / "many")))).queries == 25


def test_the_command_prints_the_options_to_use(tmp_path: Path) -> None:
    folder = write(tmp_path / "long")
    told = CliRunner().invoke(app, ["tune", "--mode", "bm25", "--dataset", str(folder)])
    assert told.exit_code == 0
    assert "use: --bm25 k1=" in told.output
    read = CliRunner().invoke(app, ["tune", "--mode", "bm25", "--dataset", str(folder), "--json"])
    record = json.loads(read.stdout)
    assert record["better"]
    assert record["chosen"]["b"] < 0.75

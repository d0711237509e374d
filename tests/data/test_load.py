"""A data set by its name or its path."""

from collections.abc import Callable
from pathlib import Path

import pytest

import assay.data
from assay.data import load_dataset
from assay.errors import DataError, UsageError


def test_the_exported_names_are_these() -> None:
    assert sorted(assay.data.__all__) == [
        "Dataset",
        "Document",
        "Fact",
        "Judgments",
        "Query",
        "ReferenceAnswer",
        "UNANSWERABLE",
        "cache_folder",
        "load_dataset",
        "read_qrels",
        "read_run",
    ]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'ms\[marco'.* nfcorpus, notes, .* or pass a folder"):
        load_dataset("ms[marco")


def test_a_path_may_be_text(write_dataset: Callable[..., Path]) -> None:
    assert load_dataset(str(write_dataset(name="mine"))).name == "mine"


def test_a_known_name_wins_over_a_folder_unless_it_is_written_as_a_path(
    write_dataset: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(name="notes")
    monkeypatch.chdir(tmp_path)
    assert list(load_dataset("./notes").documents) == ["d1", "d2"]
    assert list(load_dataset(Path("notes")).documents) == ["d1", "d2"]


def test_a_file_that_is_neither_archive_nor_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_text("{}")
    with pytest.raises(DataError, match=r"corpus.txt: is neither a folder nor a zip archive"):
        load_dataset(path)


def test_columns_of_what_is_no_table_are_refused() -> None:
    with pytest.raises(UsageError, match=r"only for a table .*, not for 'notes'"):
        load_dataset("notes", columns={"query": "Frage"})


def test_a_table_that_holds_no_questions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text("{}")
    with pytest.raises(DataError, match=r"corpus.jsonl:1: has no column for the query"):
        load_dataset(path)

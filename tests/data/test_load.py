"""A data set by its name or its path, and the check that lists everything that is wrong with it."""

from pathlib import Path

import pytest
from tests.data.conftest import CORPUS, QUERIES, WriteDataset

from assay.data import load_dataset
from assay.data.cache import cache_folder
from assay.data.load import check_dataset
from assay.errors import DataError, UsageError


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ms[marco", "pass nfcorpus, notes, beir:NAME"),
        ("beir:scifactt", "Did you mean 'beir:scifact'?"),
        ("scifact", "Did you mean 'beir:scifact'?"),
        ("nfcorpsu", "Did you mean 'nfcorpus'?"),
        ("ir-datasets:vaswani", "Did you mean 'ir_datasets:vaswani'?"),
    ],
)
def test_an_unknown_name_is_answered_with_a_near_one(name: str, meant: str) -> None:
    for read in (load_dataset, check_dataset):
        with pytest.raises(UsageError) as refusal:
            read(name)
        assert meant in str(refusal.value)


def test_a_known_name_wins_over_a_folder_unless_it_is_written_as_a_path(
    write_dataset: WriteDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_dataset(name="notes")
    monkeypatch.chdir(tmp_path)
    for path in ("./notes", Path("notes")):
        assert list(load_dataset(path).documents) == ["d1", "d2"]
    assert len(load_dataset("notes").documents) == 230


def test_what_is_no_data_set_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("{}")
    with pytest.raises(DataError, match=r"corpus.txt: is neither a folder nor a zip archive"):
        load_dataset(tmp_path / "corpus.txt")
    (tmp_path / "corpus.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"corpus.jsonl:1: has no column for the query"):
        load_dataset(tmp_path / "corpus.jsonl")
    with pytest.raises(UsageError, match=r"only for a table .*, not for 'notes'"):
        load_dataset("notes", columns={"query": "Frage"})


@pytest.mark.parametrize("xdg", ["", "relative"])
def test_the_cache_is_in_the_home_folder_or_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, xdg: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match=r"cannot be written: .*set ASSAY_CACHE"):
        cache_folder()
    monkeypatch.delenv("ASSAY_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    assert cache_folder() == tmp_path / ".cache" / "assay"


def test_every_wrong_line_of_every_file_is_listed(write_dataset: WriteDataset) -> None:
    folder = write_dataset(
        {
            "corpus.jsonl": CORPUS + '{oops\n{"_id": "d3"}\n{"_id": "d1", "text": "other"}\n',
            "queries.jsonl": QUERIES + '{"_id": ""}\n',
            "qrels/test.tsv": "q1\td1\t1\nq1\td1\t2\nq1\td2\nq2\td2\tmany\n",
            "qrels/dev.tsv": b"q1\td1\t1\nq2\t\xff\t1\n",
            "answers.jsonl": '{"query_id": "q1"}\n',
        }
    )
    listed = check_dataset(folder).errors
    places = (
        "corpus.jsonl:3: is not valid JSON",
        "corpus.jsonl:4: has no text in a column",
        "corpus.jsonl:5: id 'd1' is already used for other content",
        "queries.jsonl:3: has no id",
        "dev.tsv:2: is not UTF-8",
        "test.tsv:2: document 'd1' has grade 2",
        "test.tsv:3: must have 3 columns, as earlier lines",
        "test.tsv:4: a grade must be",
        "answers.jsonl:1: query 'q1' has no 'answer'",
    )
    assert len(listed) == len(places)
    assert all(place in error for place, error in zip(places, listed, strict=True)), listed


def test_what_is_probably_not_meant_is_listed_with_its_places(write_dataset: WriteDataset) -> None:
    more = '{"_id": "q3", "text": "How is TEA  made"}\n{"_id": "q4", "text": "who"}\n'
    repeated = '{"_id": " d3", "title": "Tea", "text": "Green tea is steeped."}\n'
    files = {"corpus.jsonl": CORPUS + repeated, "queries.jsonl": QUERIES + more}
    assert check_dataset(write_dataset(files | {"qrels/dev.tsv": "q1\td1\t0\n"})).warnings == (
        "queries without any judgment, which no run asks: 2, for example 'q3'; 'q4'",
        "queries of split 'dev' whose documents are all judged not relevant: 1, 'q1'",
        "queries with the text of another one: 1, 'q3' as 'q1'",
        "documents with the text of another one (a system cannot tell which is meant): 1, "
        "' d3' as 'd1'",
    )

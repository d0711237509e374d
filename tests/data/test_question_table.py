"""Data sets from tables: which rows and columns are understood, and what is refused by line."""

from pathlib import Path
from typing import Any

import pandas
import pyarrow
import pyarrow.parquet
import pytest

from assay.data import Dataset, load_dataset
from assay.errors import AssayError, DataError


def load(path: Path, text: str, **columns: str) -> Dataset:
    path.write_text(text, encoding="utf-8")
    return load_dataset(path, columns=columns)


def judged(dataset: Dataset) -> dict[str, dict[str, int]]:
    found = dataset.judgments_in("test")
    return {dataset.queries[each].text: dict(grades) for each, grades in found.items()}


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".csv", "query;doc_ids\nhow long?;d1|d2\nwhy?;d3\n"),
        (".csv", '\ufeffquery,doc_ids\r\nhow long?,"d1, d2"\r\nwhy?,d3\r\n'),
        (".csv", 'Question,Doc IDs\nhow long?,"[""d1"", ""d2""]"\nwhy?,d3\n'),
        (".csv", "query,doc_id\nhow long?,d1\nwhy?,d3\nhow long?,d2\n"),
        (".tsv", "query\tdoc_ids\nhow long?\td1,d2\nwhy?\td3\n"),
        (".jsonl", '{"query":"how long?","doc_ids":["d1","d2"]}\n{"query":"why?","doc_ids":"d3"}'),
        (".json", '[{"query":"how long?","doc_ids":"d1;d2"},{"query":"why?","doc_ids":["d3"]}]'),
    ],
)
def test_every_form_of_table_is_read(tmp_path: Path, suffix: str, text: str) -> None:
    dataset = load(tmp_path / f"set{suffix}", text)
    assert judged(dataset) == {"how long?": {"d1": 1, "d2": 1}, "why?": {"d3": 1}}
    assert dataset.name == "set"
    assert dataset.documents == {}
    assert dataset.warnings == ()


def test_parquet_holds_lists_and_numbers_as_ids(tmp_path: Path) -> None:
    table = pyarrow.table({"query": ["a?", "b?"], "doc_ids": [[1, 2], []], "grades": [[2, 0], []]})
    pyarrow.parquet.write_table(table, tmp_path / "set.parquet")
    dataset = load_dataset(tmp_path / "set.parquet")
    assert judged(dataset) == {"a?": {"1": 2, "2": 0}, "b?": {}}
    assert dataset.warnings == ("questions without expected ids are not scored: 1, in row 2",)


def test_all_that_a_row_may_hold_is_kept(tmp_path: Path) -> None:
    text = (
        "query_id,query,doc_ids,grades,answer,language,tags,comment\n"
        f"7,how long?,d1;d2,2;1,3 minutes,de,hard;tea,{'x' * 200}\n"
        "8,why?,d3,,,en,,\n"
    )
    dataset = load(tmp_path / "set.csv", text)
    assert dataset.queries["7"].tags == ("language=de", "hard", "tea")
    assert dataset.queries["8"].tags == ("language=en",)
    assert dataset.judgments_in("test") == {"7": {"d1": 2, "d2": 1}, "8": {"d3": 1}}
    assert list(dataset.answers) == ["7"]
    assert dataset.answers["7"].answer == "3 minutes"
    assert dataset.answers["7"].documents == ("d1", "d2")
    assert "columns that are not tags" in dataset.warnings[0]


def test_columns_are_named_by_the_caller(tmp_path: Path) -> None:
    text = "text,Frage,docs,Note\nx,wie lange?,d1;d2,3\n"
    columns = {"query": "Frage", "ids": "docs", "grade": "Note"}
    dataset = load(tmp_path / "set.csv", text, **columns)
    assert judged(dataset) == {"wie lange?": {"d1": 3, "d2": 3}}
    other = load_dataset(tmp_path / "set.csv", columns=["query=Frage,ids=docs", "grade=Note"])
    assert other.fingerprint == dataset.fingerprint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty; it needs a header"),
        ("query,doc_ids\n", "has no questions; add rows below a header"),
        ("Frage,docs\nx,y\n", r"csv:2: has no column for the query \(.*--columns query=NAME, in P"),
        ("query,docs\nx,y\n", r"csv:2: has no column for the expected ids .*columns={\"ids\""),
        ("query,doc_ids\nx,d1\n,d2\n", "csv:3: has no query"),
        ("query,doc_ids\nx,d1,d2\n", "csv:2: has 3 cells, the header has 2"),
        ("query,doc_id\nx,\n", "csv:2: 'doc_id' is empty"),
        ("query,doc_id,grade\nx,d1,good\n", "csv:2: a grade must be an integer .*got 'good'"),
        ("query,doc_id,grade\nx,d1,1\nx,d1,2\n", "csv:3: document 'd1' has grade 2 .* but 1"),
        ("query,doc_ids,grades\nx,a;b,1\n", "csv:2: has 2 ids and 1 grades"),
        ("query,doc_id,grade\nx,d1,1\nx,d2,\n", "csv:3: 'grade' is empty; write a value"),
        ("query_id,query,doc_id\n1,x,a\n1,y,a\n", "csv:3: query id '1' was .* on line 2 for"),
        ("query,doc_ids,answer\nx,a,yes\nx,b,no\n", "csv:3: query .* has another answer"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path / "set.csv", text)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["query=Frage,ids=Seite"], "csv:2: has no column 'Seite', .* Did you mean 'Seiten'"),
        (["Frage=query"], "'Frage=query' is not KEY=COLUMN; .* Did you mean 'query=Frage'"),
        (["qery=Frage"], "'qery=Frage' is not KEY=COLUMN; .* Did you mean 'query'"),
        ({"frage": "query"}, r"no column keys .'frage'.; the keys are query, ids"),
    ],
)
def test_the_column_that_was_meant_is_named(tmp_path: Path, columns: Any, message: str) -> None:
    path = tmp_path / "fragen.csv"
    path.write_text("Frage;Seiten\nWas?;a\n")
    with pytest.raises(AssayError, match=message):
        load_dataset(path, columns=columns)


def test_a_frame_becomes_a_data_set() -> None:
    frame = pandas.DataFrame({"Frage": ["how?", "why?"], "doc_id": [7, None], "grade": [2.0, None]})
    with pytest.raises(DataError, match="row 2: 'doc_id' is empty"):
        Dataset.from_rows(frame, columns={"query": "Frage"})
    dataset = Dataset.from_rows(frame[:1], columns={"query": "Frage"}, name="mine")
    assert judged(dataset) == {"how?": {"7": 2}}
    assert dataset.name == "mine"

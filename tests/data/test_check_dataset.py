"""A check of a data set: everything that is wrong, with its place, in one go."""

from pathlib import Path

import pytest
from tests.data.conftest import CORPUS, QUERIES, WriteDataset

from assay.data import load_dataset
from assay.data.load import check_dataset
from assay.errors import DataError, UsageError


def messages(name: str | Path) -> str:
    return "\n".join(check_dataset(name).errors)


def test_a_sound_data_set_has_nothing_wrong() -> None:
    found = check_dataset("notes")
    assert (found.error_count, found.documents, found.queries) == (0, 230, 120)
    assert found.errors == ()
    assert found.warnings == ()


def test_every_wrong_row_of_a_table_is_listed(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text(
        "query,doc_id,grade\nhow?,d1,1\n,d1,1\nhow?,d1,2\nwhy?,d2\nwhy?,d2,good\nwho?,d3,0\n"
    )
    found = check_dataset(path)
    assert [error.split("set.csv:")[1][:22] for error in found.errors] == [
        "3: has no query; write",
        "4: document 'd1' has g",
        "5: has 2 cells, the he",
        "6: a grade must be an ",
    ]
    assert found.error_count == 4
    assert found.queries == 2
    (warning,) = found.warnings
    assert warning.startswith("queries of split 'test' whose documents are all judged not relevant")


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
    listed = messages(folder)
    for place in (
        *("corpus.jsonl:3: is not valid JSON", "corpus.jsonl:4: has no text in a column"),
        "corpus.jsonl:5: id 'd1' is already used for other content",
        "queries.jsonl:3: has no id",
        *("test.tsv:2: document 'd1' has grade 2", "test.tsv:3: has 2 columns, earlier lines have"),
        *("test.tsv:4: a grade must be", "dev.tsv:2: is not UTF-8"),
        "answers.jsonl:1: query 'q1' has no 'answer'",
    ):
        assert place in listed
    assert len(listed.splitlines()) == 9


def test_what_is_probably_not_meant_is_listed_with_its_places(write_dataset: WriteDataset) -> None:
    more = '{"_id": "q3", "text": "How is TEA  made"}\n{"_id": "q4", "text": "who"}\n'
    folder = write_dataset(
        {
            "corpus.jsonl": CORPUS
            + '{"_id": " d3", "title": "Tea", "text": "Green tea is steeped."}\n',
            "queries.jsonl": QUERIES + more,
            "qrels/dev.tsv": "q1\td1\t0\n",
        }
    )
    assert check_dataset(folder).warnings == (
        "queries without any judgment, which no run asks: 2, for example 'q3'; 'q4'",
        "queries of split 'dev' whose documents are all judged not relevant: 1, 'q1'",
        "queries with the text of another one: 1, 'q3' as 'q1'",
        "documents with the text of another one (a system cannot tell which is meant): 1, "
        "' d3' as 'd1'",
        "queries that are judged in 'dev' and in 'test': 1, 'q1'",
        "document ids that begin or end with a space: 1, ' d3'",
    )


def test_a_broken_file_does_not_hide_the_others(write_dataset: WriteDataset) -> None:
    listed = messages(write_dataset({"queries.jsonl": "", "qrels/test.tsv": "q1\td1\tx\n"}))
    assert "queries.jsonl: has no queries" in listed
    assert "test.tsv:1: a grade" in listed


def test_a_thousand_errors_are_kept_and_all_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text("query,doc_ids\n" + ",x\n" * 1500)
    found = check_dataset(path)
    assert (found.error_count, len(found.errors)) == (1500, 1000)


def test_a_cell_that_is_not_utf8_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_bytes(b"query,doc_ids\nhow,d1\nwie hei\xdf,d2\n")
    assert "set.csv:3: is not UTF-8 (byte 0xdf" in messages(path)
    with pytest.raises(DataError, match=r"csv:3: is not UTF-8"):
        load_dataset(path)


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="no data set 'nope'"):
        check_dataset("nope")


def test_columns_that_are_missing_are_told_once(tmp_path: Path) -> None:
    path = tmp_path / "fragen.csv"
    path.write_text("Frage;Seiten\n" + "Was?;a\n" * 20 + "Wer?;b;c\n")
    found = check_dataset(path)
    assert found.error_count == 2
    assert "fragen.csv:2: has no column for the query" in found.errors[0]
    assert "fragen.csv:22: has 3 cells" in found.errors[1]


def test_an_id_that_only_looks_the_same_is_told(write_dataset: WriteDataset) -> None:
    folder = write_dataset(
        {
            "corpus.jsonl": '{"_id": "M\u00fcller", "text": "one"}\n{"_id": "b", "text": "two"}\n',
            "queries.jsonl": QUERIES,
            "qrels/test.tsv": "q1\tMu\u0308ller\t1\nq1\tb\t1\n",
        }
    )
    told = " ".join(check_dataset(folder).warnings)
    assert "(the corpus has it in another Unicode form)" in told

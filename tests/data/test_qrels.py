"""Judgments on their own, from TREC and from BEIR."""

import gzip
from pathlib import Path

import pytest

from assay.data import read_qrels
from assay.data.qrels import beir_qrels, write_trec_qrels
from assay.errors import DataError

EXPECTED = {"q-1": {"d-1": 2, "d-2": 0}, "q2": {"d-1": -1}}


@pytest.mark.parametrize(
    "text",
    [
        "q-1 0 d-1 2\nq-1 0 d-2 0\nq2 0 d-1 -1\n",
        "q-1\t0\td-1\t2\nq-1\tQ0\td-2\t0\nq2 \t 0  d-1\t -1  \n",
        "q-1\tQ0  d-1  2\r\n\r\nq-1 0 d-2 0\r\nq2 0 d-1 -1",
        "query-id\tcorpus-id\tscore\nq-1\td-1\t2\nq-1\td-2\t0\nq2\td-1\t-1\n",
        "q-1\td-1\t2\nq-1\td-2\t0\nq2\td-1\t-1\n",
        "q-1 d-1 2\nq-1 d-2 0\nq2 d-1 -1\n",
        "qid iter docid rel\nq-1 0 d-1 2\nq-1 0 d-2 0\nq2 0 d-1 -1\n",
        "q-1\td-1\t2.0\nq-1\td-2\t0.0\nq2\td-1\t-1.0\n",
    ],
    ids=["TREC", "mixed", "CRLF", "BEIR", "no header", "spaces", "TREC header", "as floats"],
)
def test_every_form_in_use_reads_the_same(tmp_path: Path, text: str) -> None:
    path = tmp_path / "qrels"
    path.write_bytes(text.encode())
    assert read_qrels(path) == EXPECTED


def test_ids_between_tabs_may_hold_spaces(tmp_path: Path) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text("my query\tmy document\t1\nother\tmy document\t2\n")
    assert read_qrels(path) == {"my query": {"my document": 1}, "other": {"my document": 2}}


def test_a_query_whose_id_looks_like_a_header_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text("query\td\t1\n")
    assert read_qrels(path) == {"query": {"d": 1}}


def test_compressed_judgments_are_read(tmp_path: Path) -> None:
    path = tmp_path / "qrels.gz"
    path.write_bytes(gzip.compress(b"q 0 d 1\n"))
    assert read_qrels(path) == {"q": {"d": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no judgments"),
        ("query-id\tcorpus-id\tscore\n", "has no judgments"),
        ("q 0 d 1 x\n", ":1: has 5 columns; judgments have three"),
        ("q 0 d 1\nq d 1\n", ":2: has 3 columns, earlier lines have 4"),
        ("q 0 d one\n", ":1: a grade must be an integer up to 1000, such as 0, 1 or 2, got 'one'"),
        ("q 0 d nan\n", ":1: a grade must be"),
        ("q 0 d inf\n", ":1: a grade must be"),
        ("q 0 d 1e300\n", ":1: a grade must be"),
        ("q 0 d 99999999999\n", ":1: a grade must be"),
        ("q 0 d " + "9" * 5000, ":1: a grade must be"),
        ("q 0 d 1\nq 0 d 0\n", ":2: document 'd' has grade 0 .* but 1 before"),
    ],
)
def test_wrong_judgments_are_refused_with_their_line(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_qrels(path)


def test_a_missing_file_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.tsv: no such file"):
        read_qrels(tmp_path / "nowhere.tsv")


def test_both_forms_that_are_written_are_read_back(tmp_path: Path) -> None:
    trec, beir = tmp_path / "trec.qrels", tmp_path / "beir.tsv"
    rows = [(query, "0", doc, grade) for query, of in EXPECTED.items() for doc, grade in of.items()]
    write_trec_qrels(trec, rows, instead="a table")
    beir.write_bytes(beir_qrels(EXPECTED))
    assert read_qrels(trec) == read_qrels(beir) == EXPECTED


def test_ids_that_would_not_be_read_back_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "trec.qrels"
    with pytest.raises(DataError, match="ids with white space, got 'my query' 'd'; use a table"):
        write_trec_qrels(path, [("my query", "0", "d", 1)], instead="a table")
    with pytest.raises(DataError, match=r"'my\\tquery' has a tab or newline"):
        beir_qrels({"my\tquery": {"d": 1}})
    assert not path.exists()

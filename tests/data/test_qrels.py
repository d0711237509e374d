"""Judgments from TREC and from BEIR, and rankings, ordered as trec_eval orders them."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval

from assay.data.qrels import beir_qrels, read_qrels, read_run, trec_qrels
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no judgments"),
        ("query-id\tcorpus-id\tscore\n", "has no judgments"),
        ("q 0 d 1 x\n", ":1: has 5 columns; judgments have three"),
        ("q 0 d 1\nq d 1\n", ":2: must have 4 columns, as earlier lines"),
        ("q 0 d one\n", ":1: a grade must be an integer up to 1000, such as 0, 1 or 2, got 'one'"),
        ("q 0 d nan\n", ":1: a grade must be"),
        ("q 0 d 99999999999\n", ":1: a grade must be"),
        ("q 0 d " + "9" * 5000, ":1: a grade must be"),
        ("q 0 d 1\nq 0 d 0\n", ":2: document 'd' has grade 0 .* but 1 before"),
    ],
)
def test_wrong_judgments_are_told_by_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "qrels.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_qrels(path)


def test_ids_that_would_not_be_read_back_are_not_written() -> None:
    with pytest.raises(DataError, match="ids with white space, got 'my query' 'd'"):
        trec_qrels([("my query", "0", "d", 1)])
    with pytest.raises(DataError, match=r"'my\\tquery' or 'd' has a tab or newline"):
        beir_qrels({"my\tquery": {"d": 1}})


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "run"
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return path


def test_the_score_ranks_and_the_rank_column_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, "q Q0 low 1 0.1 t\nq\tQ0\thigh  2\t1e1 t\r\np Q0 d 1 -5 t\n")
    assert read_run(path) == {"q": ["high", "low"], "p": ["d"]}


def test_the_order_is_that_of_trec_eval_even_where_scores_differ_by_a_hair(tmp_path: Path) -> None:
    """trec_eval keeps scores in single precision, where 0.5 and 0.5 + 1e-9 are a tie."""
    generator = random.Random(5)
    scores = {
        f"d{n}": round(generator.random(), 1) + generator.choice((0, 1e-9, 1e-8, 1e-6))
        for n in range(60)
    }
    lines = "".join(f"q Q0 {document} 0 {score!r} t\n" for document, score in scores.items())
    ours = read_run(written(tmp_path, lines))["q"]
    for document in scores:
        evaluator = pytrec_eval.RelevanceEvaluator({"q": {document: 1}}, {"recip_rank"})
        theirs = evaluator.evaluate({"q": scores})["q"]["recip_rank"]
        assert 1 / (ours.index(document) + 1) == pytest.approx(theirs)


@pytest.mark.parametrize(
    "content",
    [
        {"q": ["b", "a"], "p": []},
        [{"query_id": "q", "doc_ids": ["b", "a"]}, {"query_id": "p", "doc_ids": []}],
        {"q": {"a": 1, "b": 2.5}, "p": {}},
        {
            "per_query_results": [
                {"query_id": "q", "retrieved_docs": ["b", "a"]},
                {"query_id": "p", "retrieved_docs": []},
            ]
        },
    ],
    ids=["ids", "entries", "scores", "a whole report"],
)
def test_every_form_of_json_reads_the_same(tmp_path: Path, content: Any) -> None:
    assert read_run(written(tmp_path, content)) == {"q": ["b", "a"], "p": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "run: is empty"),
        ("q Q0 d 1 0.5\n", ":1: must be: query Q0 document rank score tag"),
        ("q Q0 d 1 0.5 t\nq Q0 d 1 high t\n", ":2: must be: .*; got 'q Q0 d 1 high t'"),
        ('{"q":\n\n ["a",]}', ":3: is not valid JSON"),
        ({"q": "a"}, "query 'q' has no ranking, got 'a'"),
        ({"q": [1]}, "ids must be strings, got 1"),
        ({"q": {"a": "x"}}, "scores of query 'q' must be numbers, got {'a': 'x'}"),
        ([["q"]], "entry 1 has no query_id"),
        ([{"query_id": "q"}], "query 'q' has no ranking, got None"),
        ([{"query_id": "q", "doc_ids": []}] * 2, "repeats query 'q'"),
    ],
)
def test_wrong_runs_are_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_run(written(tmp_path, content))

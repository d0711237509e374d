"""Rankings of other systems, ordered as trec_eval orders them."""

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval

from assay.data import read_run
from assay.errors import DataError


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "run"
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
    return path


def test_the_score_ranks_and_the_rank_column_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, "q Q0 low 1 0.1 t\nq\tQ0\thigh  2\t1e1 t\r\np Q0 d 1 -5 t\n")
    assert read_run(path) == {"q": ["high", "low"], "p": ["d"]}


def test_ties_go_by_document_id_descending(tmp_path: Path) -> None:
    assert read_run(written(tmp_path, "q Q0 a 1 2 t\nq Q0 c 2 1 t\nq Q0 b 3 2 t\n")) == {
        "q": ["b", "a", "c"]
    }


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


def test_duplicates_stay_for_the_measure_to_report(tmp_path: Path) -> None:
    assert read_run(written(tmp_path, "q Q0 a 1 2 t\nq Q0 a 2 1 t\n")) == {"q": ["a", "a"]}
    assert read_run(written(tmp_path, {"q": ["a", "a"]})) == {"q": ["a", "a"]}


@pytest.mark.parametrize(
    "content",
    [
        {"q": ["b", "a"], "p": []},
        [{"query_id": "q", "doc_ids": ["b", "a"]}, {"query_id": "p", "doc_ids": []}],
        [{"query_id": "q", "retrieved_docs": ["b", "a"]}, {"query_id": "p", "doc_ids": []}],
        {"q": {"a": 1, "b": 2.5}, "p": {}},
        {
            "summary": {},
            "per_query_results": [
                {"query_id": "q", "retrieved_docs": ["b", "a"]},
                {"query_id": "p", "retrieved_docs": []},
            ],
        },
    ],
    ids=["ids", "entries", "entries of a report", "scores", "a whole report"],
)
def test_every_form_of_json_reads_the_same(tmp_path: Path, content: Any) -> None:
    assert read_run(written(tmp_path, content)) == {"q": ["b", "a"], "p": []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "run: is empty"),
        ("q Q0 d 1 0.5\n", ":1: has 5 columns; a TREC run has six"),
        ("q Q0 d 1 0.5 t\nq Q0 d 1 high t\n", ":2: a score must be a number, got 'high'"),
        ("q Q0 d 1 nan t\n", ":1: a score must be a number, got 'nan'"),
        ('{"q":\n\n ["a",]}', ":3: is not valid JSON"),
        ({"q": "a"}, "query 'q' must have a list of document ids, got 'a'"),
        ({"q": [1]}, "query 'q' must have a list of document ids"),
        ({"q": {"a": "x"}}, "a score must be a number, got 'x'"),
        ({"q": {"a": None}}, "a score must be a number, got None"),
        ([["q"]], "entry 1 has no query_id"),
        ([{"query_id": "q"}], "query 'q' must have a list .*got None"),
        (
            [{"query_id": "q", "doc_ids": []}, {"query_id": "q", "doc_ids": []}],
            "entry 2 repeats query 'q'",
        ),
    ],
)
def test_wrong_runs_are_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_run(written(tmp_path, content))


def test_a_large_run_keeps_one_copy_of_each_id(tmp_path: Path) -> None:
    lines = "".join(f"q{n} Q0 document 1 1 t\n" for n in range(3))
    first, second, _ = itertools.chain.from_iterable(read_run(written(tmp_path, lines)).values())
    assert first is second

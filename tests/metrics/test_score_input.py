"""`assay.score` as people call it: forms of runs, qrels and metrics, and what is refused."""

import json
from typing import Any

import numpy as np
import pytest

from assay import score
from assay.data import load_dataset
from assay.errors import UsageError
from assay.metrics.metric import AP, MRR, Precision, Recall, nDCG
from assay.metrics.scoring import Scores, read_qrels_value

RUN = {"q1": ["d3", "d1"], "q2": ["d2"]}
QRELS = {"q1": {"d1": 2, "d9": 1}, "q2": {"d2": 1}}


def test_metrics_are_given_by_name_or_as_objects() -> None:
    scores = score(RUN, QRELS, ["ndcg@5", Recall @ 10, "nDCG @ 5", "map"])
    assert scores.metrics == [nDCG @ 5, Recall @ 10, AP]
    assert score(RUN, QRELS, "mrr").metrics == score(RUN, QRELS, MRR).metrics == [MRR]
    assert score(RUN, QRELS, (metric for metric in ["recall@5"])).metrics == [Recall @ 5]


def test_means_are_found_by_any_spelling() -> None:
    scores = score(RUN, QRELS, ["ndcg@5", Recall @ 10])
    assert scores["recall@10"] == scores["Recall@10"] == scores[Recall @ 10] == 0.75
    assert scores.means == {"ndcg@5": scores[nDCG @ 5], "recall@10": 0.75}
    assert scores.means[Recall @ 10] == scores.means["R@10"] == 0.75
    assert json.loads(json.dumps(scores.means)) == scores.means
    assert "ndcg@5" in scores
    assert "mrr" not in scores
    assert 5 not in scores
    assert list(scores) == [nDCG @ 5, Recall @ 10]
    assert len(scores) == 2


def test_a_set_is_of_grade_1_and_a_grade_may_be_1000() -> None:
    grades = {"q1": {"d1", "d2"}, "q2": {"d1": 1000, "d2": -1000}}
    assert read_qrels_value(grades) == {"q1": {"d1": 1, "d2": 1}, "q2": {"d1": 1000, "d2": -1000}}


def test_values_of_single_queries() -> None:
    scores = score(RUN, QRELS, ["recall@10", "mrr"])
    assert scores.by_query("recall@10") == {"q1": 0.5, "q2": 1.0}
    assert scores.rows() == [
        {"query_id": "q1", "recall@10": 0.5, "mrr": 0.5},
        {"query_id": "q2", "recall@10": 1.0, "mrr": 1.0},
    ]


def test_the_repr_is_one_line() -> None:
    scores = score(RUN, QRELS, ["ndcg@5", Recall @ 10])
    assert repr(scores) == "<Scores of 2 queries: nDCG@5 0.7398, Recall@10 0.7500>"
    assert repr(score(RUN, {"q2": {"d2"}}, "map")) == "<Scores of 1 query: AP 1.0000>"
    assert repr(scores.violations) == "<Violations: 0 duplicate, 0 unknown, 0 surplus>"


@pytest.mark.parametrize("metric", ["ndcg@10", Precision @ 2])
def test_a_metric_that_was_not_measured_is_named(metric: Any) -> None:
    scores = score(RUN, QRELS, "recall@10")
    with pytest.raises(UsageError, match=r"was not measured; these were: Recall@10"):
        scores[metric]
    with pytest.raises(UsageError, match=r"was not measured; these were: recall@10"):
        scores.means[metric]
    with pytest.raises(UsageError, match=r"was not measured"):
        scores.by_query(metric)


def same(one: Scores, other: Scores) -> bool:
    return one.rows() == other.rows()


def test_a_run_of_scores_is_ranked_by_them() -> None:
    scored: Any = {"q1": {"d1": 0.1, "d3": 0.9}, "q2": {"d2": np.float32(1)}}
    assert same(score(scored, QRELS, ["ndcg@5", "map"]), score(RUN, QRELS, ["ndcg@5", "map"]))
    assert score({"q1": {}, "q2": ["d2"]}, QRELS, "mrr").by_query("mrr") == {"q1": 0.0, "q2": 1.0}


def test_equal_scores_are_ordered_as_trec_eval_does() -> None:
    """By document id, descending, after rounding to single precision."""
    tied = {"q1": {"a": 1.0, "b": 1.0 + 1e-12, "c": 1.0}}
    assert score(tied, {"q1": {"a"}}, "mrr")["mrr"] == pytest.approx(1 / 3)
    assert score(tied, {"q1": {"c"}}, "mrr")["mrr"] == 1.0


@pytest.mark.parametrize(
    "relevant", [{"d1"}, ["d1"], ("d1",), {"d1": 1}, {"d1": 1.0}, {"d1": True}]
)
def test_qrels_are_grades_or_relevant_documents(relevant: Any) -> None:
    assert score({"q": ["x", "d1"]}, {"q": relevant}, "mrr")["mrr"] == 0.5


def test_grades_of_numpy_are_whole_numbers_too() -> None:
    judged = {"q": {"a": np.int64(2), "b": np.int8(1)}}
    assert score({"q": ["a", "b"]}, judged, "ndcg@5")["ndcg@5"] == 1.0


def test_a_run_of_tuples_is_a_run_of_lists() -> None:
    assert score({"q": ("x", "d")}, {"q": {"d"}}, "mrr")["mrr"] == 0.5


def test_ids_may_be_subclasses_of_text() -> None:
    assert score({"q": [np.str_("x"), np.str_("d")]}, {"q": {"d"}}, "mrr")["mrr"] == 0.5


def test_unknown_ids_and_a_depth_are_respected() -> None:
    scores = score({"q": ["x", "d"]}, {"q": {"d"}}, "mrr", known={"d"}, top_k=1)
    assert scores["mrr"] == 0.0
    assert scores.violations.total("surplus") == scores.violations.total("unknown") == 1


REFUSED: list[tuple[Any, Any, Any, str]] = [
    (RUN, QRELS, "ndgc@5", r"unknown metric 'ndgc@5'.*Did you mean 'nDCG'\?"),
    (RUN, QRELS, [], "no metrics were given"),
    (RUN, QRELS, 5, "a metric is a name .* got a value of type int: 5"),
    (RUN, QRELS, [None], "a metric is a name .* got None: None"),
    (RUN, QRELS, "precision", "Precision needs a cut-off"),
    (RUN, QRELS, [Precision], "Precision needs a cut-off"),
    ({}, QRELS, "map", "the run is empty"),
    (None, QRELS, "map", "the run must be a dictionary, got None; a run is"),
    ([["d1"]], QRELS, "map", "the run must be a dictionary, got a value of type list"),
    ("run.trec", QRELS, "map", "the run must be a dictionary, got a value of type str"),
    (
        {1: ["d1"]},
        QRELS,
        "map",
        "query ids of the run must be strings, got a value of type int: 1",
    ),
    ({"q1": "d1"}, QRELS, "map", "ranking of query 'q1' must be a list .* got a value of type str"),
    ({"q1": {"d1", "d2"}}, QRELS, "map", "must be a list of document ids .* type set"),
    ({"q1": None}, QRELS, "map", "must be a list of document ids .* got None"),
    ({"q1": ["d1", 7]}, QRELS, "map", "document ids of query 'q1' must be strings, .* type int: 7"),
    (
        {"q1": [("d1", 1.0)]},
        QRELS,
        "map",
        "document ids of query 'q1' must be strings, .* type tuple",
    ),
    ({"q1": {7: 1.0}}, QRELS, "map", "document ids of query 'q1' must be strings"),
    ({"q1": {"d1": float("nan")}}, QRELS, "map", "score of document 'd1' .* a number, got nan"),
    ({"q1": {"d1": "1.0"}}, QRELS, "map", "score of document 'd1' .* a number, got '1.0'"),
    ({"q1": {"d1": None}}, QRELS, "map", "score of document 'd1' .* a number, got None"),
    (
        {"x": ["d1"]},
        QRELS,
        "map",
        "no query in common: the first is 'x' in the run and 'q1' in the qrels",
    ),
    (RUN, {}, "map", "the qrels are empty"),
    (RUN, ["d1"], "map", "the qrels must be a dictionary, got a value of type list; qrels are"),
    (RUN, {"q1": "d1"}, "map", "judgments of query 'q1' must be .* got a value of type str"),
    (RUN, {"q1": 1}, "map", "judgments of query 'q1' must be .* got a value of type int"),
    (RUN, {1: {"d1": 1}}, "map", "query ids of the qrels must be strings"),
    (
        RUN,
        {"q1": {"d1": 0.5}},
        "map",
        "grade of document 'd1' .* an integer up to 1000, got 0.5",
    ),
    (RUN, {"q1": {"d1": "1"}}, "map", "grade of document 'd1' .* got '1'"),
    (RUN, {"q1": {"d1": 10**6}}, "map", "grade of document 'd1' .* got 1000000"),
    (RUN, {"q1": {"d1": 0}}, "map", "the qrels have no relevant document"),
]


@pytest.mark.parametrize(("run", "qrels", "metrics", "message"), REFUSED)
def test_other_input_is_refused_with_what_was_expected(
    run: Any, qrels: Any, metrics: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        score(run, qrels, metrics)


@pytest.mark.parametrize("top_k", [0, -1, 2.5, "10"])
def test_a_depth_that_is_none_is_refused(top_k: Any) -> None:
    with pytest.raises(UsageError, match="top_k must be an integer >= 1, got"):
        score(RUN, QRELS, "map", top_k=top_k)


def test_a_data_set_in_place_of_qrels_is_refused_with_its_judgments() -> None:
    dataset: Any = load_dataset("notes")
    with pytest.raises(UsageError, match=r"dataset\.judgments_in\('test'\)"):
        score(RUN, dataset, "map")

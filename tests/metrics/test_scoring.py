"""Which queries count, what earns nothing, what is a violation; and `assay.score` for people."""

import doctest
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay import score
from assay.data import Dataset, Document, Query, load_dataset
from assay.errors import UsageError
from assay.metrics.metric import AP, MRR, Metric, Precision, Recall, nDCG
from assay.metrics.scoring import KINDS, Kind, Scores, Violation, score_rankings

METRICS: list[Metric] = [nDCG @ 5, Recall @ 5, Precision @ 5, MRR @ 5, AP]


def test_only_queries_with_a_relevant_document_count_whatever_was_found() -> None:
    judgments = {"a": {"x": 1}, "failed": {"x": 1}, "b": {"x": 0}, "c": {}}
    scores = score_rankings({"a": ["x"], "b": ["x"]}, judgments, METRICS)
    assert scores.query_ids == ["a", "failed"]
    assert scores.values[nDCG @ 5].tolist() == [1.0, 0.0]
    assert scores.mean(nDCG @ 5) == 0.5


@pytest.mark.parametrize(
    ("ids", "known", "rank", "kind", "wrong"),
    [
        (["x", "x", "y"], None, 3, "duplicate", ["x"]),
        # Any kind of collection names the known documents.
        (["x", "y"], {"y"}, 2, "unknown", ["x"]),
        (["x", "y"], frozenset({"y"}), 2, "unknown", ["x"]),
        (["x", "y"], {"y": 1}.keys(), 2, "unknown", ["x"]),
        (["x", "y"], {"y": 1}, 2, "unknown", ["x"]),
        (["x", "y"], ["y"], 2, "unknown", ["x"]),
        (["x"], {"y"}, None, "unknown", ["x"]),
        (["y"], {"y"}, 1, "unknown", []),
        # Beyond top_k, ids are surplus and nothing else.
        (["u", "v", "w", "w", "y", "x"], {"u", "v", "w", "y"}, None, "surplus", ["w", "y", "x"]),
    ],
)
def test_what_earns_nothing_keeps_its_place(
    ids: list[str], known: set[str] | None, rank: int | None, kind: Kind, wrong: list[str]
) -> None:
    judgments = {"q": {"y": 1, "x": 0}, "none": {"y": 1}}
    scores = score_rankings({"q": ids, "none": []}, judgments, [MRR], known=known, top_k=3)
    assert scores.values[MRR].tolist() == [1 / rank if rank else 0.0, 0.0]
    assert scores.violations.examples == tuple(Violation(kind, "q", each) for each in wrong)
    counts = {name: found.tolist() for name, found in scores.violations.counts.items()}
    assert scores.violations.total() == sum(map(sum, counts.values()))
    assert counts == {name: [len(wrong) * (name == kind), 0] for name in KINDS}


def test_ceilings_know_how_many_documents_were_asked_for() -> None:
    scores = score_rankings({}, {"q": {"x": 1, "y": 1}}, [Precision @ 5, AP], top_k=1)
    assert scores.ceilings[Precision @ 5].tolist() == [1 / 5]
    assert scores.ceilings[AP].tolist() == [1 / 2]


def test_no_judgments_give_empty_scores_with_a_mean_of_zero() -> None:
    scores = score_rankings({"q": ["x"]}, {}, METRICS)
    assert scores.query_ids == []
    assert scores.mean(AP) == scores.mean_ceiling(AP) == 0.0


lists = st.lists(st.sampled_from("abcdefgh"), max_size=8)
some_grades = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(-1, 3), max_size=8)


@given(st.lists(st.tuples(lists, some_grades), min_size=1, max_size=6), st.integers(1, 5))
def test_batches_joined_equal_one_pass(
    queries: list[tuple[list[str], dict[str, int]]], k: int
) -> None:
    rankings = {str(number): ranking for number, (ranking, _) in enumerate(queries)}
    judgments = {str(number): grades for number, (_, grades) in enumerate(queries)}
    whole = score_rankings(rankings, judgments, METRICS, known=set("abcd"), top_k=k)
    parts = [
        score_rankings(rankings, {query: judgments[query]}, METRICS, known=set("abcd"), top_k=k)
        for query in judgments
    ]
    joined = Scores.joined(parts)
    assert joined.query_ids == whole.query_ids
    assert joined.violations.examples == whole.violations.examples
    for metric in METRICS:
        np.testing.assert_array_equal(joined.values[metric], whole.values[metric])
        np.testing.assert_array_equal(joined.ceilings[metric], whole.ceilings[metric])


@pytest.mark.parametrize(("known", "ceiling"), [({"a", "b"}, 1.0), ({"a"}, 0.5), (set(), 0.0)])
def test_the_ceiling_is_of_documents_that_exist(known: set[str], ceiling: float) -> None:
    found = score_rankings({}, {"q": {"a": 1, "b": 1}}, [Recall @ 5], known=known)
    assert found.mean_ceiling(Recall @ 5) == ceiling


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


@pytest.mark.parametrize("metric", ["ndcg@10", Precision @ 2])
def test_a_metric_that_was_not_measured_is_named(metric: Any) -> None:
    scores = score(RUN, QRELS, "recall@10")
    with pytest.raises(UsageError, match=r"was not measured; these were: Recall@10"):
        scores[metric]
    with pytest.raises(UsageError, match=r"was not measured; these were: recall@10"):
        scores.means[metric]
    with pytest.raises(UsageError, match=r"was not measured"):
        scores.by_query(metric)


def test_a_run_of_scores_is_ranked_by_them() -> None:
    scored: Any = {"q1": {"d1": 0.1, "d3": 0.9}, "q2": {"d2": np.float32(1)}}
    found, ranked = (score(each, QRELS, ["ndcg@5", "map"]) for each in (scored, RUN))
    assert found.rows() == ranked.rows()
    assert score({"q1": {}, "q2": ["d2"]}, QRELS, "mrr").by_query("mrr") == {"q1": 0.0, "q2": 1.0}


@pytest.mark.parametrize(
    "relevant", [{"d1"}, ["d1"], ("d1",), {"d1": 1}, {"d1": 1.0}, {"d1": True}]
)
def test_qrels_are_grades_or_relevant_documents(relevant: Any) -> None:
    assert score({"q": ["x", "d1"]}, {"q": relevant}, "mrr")["mrr"] == 0.5


@pytest.mark.parametrize(
    ("run", "qrels", "metrics", "message"),
    [
        (RUN, QRELS, "ndgc@5", r"unknown metric 'ndgc@5'.*Did you mean 'nDCG'\?"),
        (RUN, QRELS, [], "no metrics"),
        (RUN, QRELS, 5, "got 5"),
        (RUN, QRELS, [Precision], "Precision needs a cut-off"),
        ({}, QRELS, "map", "the run must be a dictionary"),
        ({"q1": "d1"}, QRELS, "map", "query 'q1' has no ranking"),
        ({"q1": ["d1", 7]}, QRELS, "map", "query 'q1': ids must be strings"),
        ({"q1": {"d1": float("nan")}}, QRELS, "map", "scores of query 'q1'"),
        ({"x": ["d1"]}, QRELS, "map", "no query in common: the first is 'x' .* and 'q1'"),
        (RUN, ["d1"], "map", "the qrels must be a dictionary"),
        (RUN, {"q1": "d1"}, "map", "query 'q1' has no judgments"),
        (RUN, {"q1": {"d1": 0.5}}, "map", "query 'q1': a grade"),
        (RUN, {"q1": {"d1": 0}}, "map", "no relevant document"),
        (RUN, load_dataset("notes"), "map", r"dataset\.judgments_in\('test'\)"),
    ],
)
def test_other_input_is_refused(run: Any, qrels: Any, metrics: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        score(run, qrels, metrics)


@pytest.mark.parametrize("top_k", [0, 2.5])
def test_a_depth_must_be_a_positive_integer(top_k: Any) -> None:
    with pytest.raises(UsageError, match="top_k must be an integer >= 1"):
        score(RUN, QRELS, "map", top_k=top_k)
    assert score(RUN, QRELS, "hit@1", top_k=1)


@pytest.mark.parametrize("documented", [score, load_dataset], ids=lambda each: each.__name__)
def test_the_examples_of_docstrings_work(documented: Any) -> None:
    names = {each.__name__: each for each in (Dataset, Document, Query, load_dataset)}
    parser = doctest.DocTestParser()
    test = parser.get_doctest(documented.__doc__, names, documented.__name__, None, 0)
    found = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert found.attempted > 0
    assert found.failed == 0

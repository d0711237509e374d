"""Which queries count, what earns nothing, and what is reported as a violation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import UsageError
from assay.metrics.metric import AP, MRR, Hit, Metric, Precision, Recall, nDCG
from assay.metrics.scoring import Scores, score_rankings
from assay.metrics.violations import Inspector, Violation

METRICS: list[Metric] = [nDCG @ 5, Recall @ 5, Precision @ 5, MRR @ 5, AP]


def test_a_query_without_a_ranking_scores_zero_and_counts() -> None:
    scores = score_rankings({"a": ["x"]}, {"a": {"x": 1}, "failed": {"x": 1}}, METRICS)
    assert scores.query_ids == ["a", "failed"]
    assert scores.values[nDCG @ 5].tolist() == [1.0, 0.0]
    assert scores.mean(nDCG @ 5) == 0.5


def test_queries_without_a_relevant_document_are_not_scored() -> None:
    scores = score_rankings(
        {"a": ["x"], "b": ["x"]}, {"a": {"x": 0}, "b": {"x": 1}, "c": {}}, METRICS
    )
    assert scores.query_ids == ["b"]


def test_rankings_of_queries_without_judgments_are_ignored() -> None:
    assert score_rankings({"other": ["x"]}, {"a": {"x": 1}}, METRICS).query_ids == ["a"]


def test_a_repeated_document_earns_once_and_keeps_its_place() -> None:
    scores = score_rankings({"q": ["x", "x", "y"]}, {"q": {"x": 1, "y": 1}}, [Precision @ 5, AP])
    assert scores.values[Precision @ 5].tolist() == [2 / 5]
    assert scores.values[AP].tolist() == [pytest.approx((1 / 1 + 2 / 3) / 2)]
    assert scores.violations.total("duplicate") == 1
    assert scores.violations.examples == (Violation("duplicate", "q", "x"),)


def test_repeats_of_one_relevant_document_do_not_make_a_perfect_list() -> None:
    scores = score_rankings({"q": ["x"] * 5}, {"q": {"x": 1, "y": 1}}, [nDCG @ 5])
    assert scores.values[nDCG @ 5][0] < 0.62


@pytest.mark.parametrize("known", [{"y"}, frozenset({"y"}), {"y": 1}.keys(), {"y": 1}, ["y"]])
def test_an_unknown_document_earns_nothing_and_keeps_its_place(known: set[str]) -> None:
    scores = score_rankings({"q": ["x", "y"]}, {"q": {"x": 2, "y": 1}}, [MRR @ 5], known=known)
    assert scores.values[MRR @ 5].tolist() == [0.5]
    assert scores.violations.counts["unknown"].tolist() == [1]
    assert scores.violations.examples == (Violation("unknown", "q", "x"),)


def test_a_repeated_unknown_document_is_one_of_each() -> None:
    scores = score_rankings({"q": ["x", "x"]}, {"q": {"y": 1}}, METRICS, known={"y"})
    assert [e.kind for e in scores.violations.examples] == ["duplicate", "unknown"]
    assert [e.kind for e in scores.violations.examples_of("unknown")] == ["unknown"]


@pytest.mark.parametrize("known", [{"y"}, {"y": 1}, ["y"]])
def test_a_ranking_of_unknown_documents_alone_and_one_of_none(known: set[str]) -> None:
    scores = score_rankings(
        {"p": ["x"], "q": []}, {"p": {"y": 1}, "q": {"y": 1}}, [AP], known=known
    )
    assert scores.violations.counts["unknown"].tolist() == [1, 0]
    assert scores.violations.counts["surplus"].tolist() == [0, 0]
    inspector = Inspector(known, top_k=5)
    assert inspector.clean("q", []) == []
    assert inspector.violations().total() == 0


def test_documents_beyond_top_k_are_cut_and_reported_as_nothing_else() -> None:
    rankings = {"q": ["x", "y", "y", "z"]}
    scores = score_rankings(rankings, {"q": {"z": 1}}, [Hit @ 10], top_k=2, known={"x", "y"})
    assert scores.values[Hit @ 10].tolist() == [0.0]
    assert [scores.violations.total(kind) for kind in ("surplus", "duplicate", "unknown")] == [
        *(2, 0, 0)
    ]


def test_ceilings_know_how_many_documents_were_asked_for() -> None:
    scores = score_rankings({}, {"q": {"x": 1, "y": 1}}, [Precision @ 5, AP], top_k=1)
    assert scores.ceilings[Precision @ 5].tolist() == [1 / 5]
    assert scores.ceilings[AP].tolist() == [1 / 2]


def test_clean_rankings_have_no_violations() -> None:
    scores = score_rankings({"q": ["x"]}, {"q": {"x": 1}}, METRICS, known={"x"}, top_k=1)
    assert scores.violations.total() == 0
    assert scores.violations.examples == ()


def test_examples_stay_few_however_many_violations_there_are() -> None:
    rankings = {f"q{i}": ["x", "x"] for i in range(50)}
    scores = score_rankings(rankings, {f"q{i}": {"x": 1} for i in range(50)}, METRICS)
    assert scores.violations.total("duplicate") == scores.violations.queries("duplicate") == 50
    assert len(scores.violations.examples) == 5


def test_no_judgments_give_empty_scores_with_a_mean_of_zero() -> None:
    scores = score_rankings({"q": ["x"]}, {}, METRICS)
    assert scores.query_ids == []
    assert scores.mean(AP) == scores.mean_ceiling(AP) == 0.0


def test_a_metric_that_lacks_its_cutoff_is_refused() -> None:
    with pytest.raises(UsageError, match="Precision needs a cut-off"):
        score_rankings({}, {"q": {"x": 1}}, [Precision])


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


@given(lists, some_grades, st.integers(1, 9))
def test_no_list_exceeds_the_ceiling(ranking: list[str], grades: dict[str, int], k: int) -> None:
    scores = score_rankings({"q": ranking}, {"q": grades}, METRICS, top_k=k)
    for metric in METRICS:
        assert (scores.values[metric] <= scores.ceilings[metric] + 1e-12).all()


def test_scores_of_different_metrics_cannot_be_joined() -> None:
    one, other = (score_rankings({}, {"q": {"x": 1}}, [metric]) for metric in (AP, MRR))
    with pytest.raises(UsageError, match="same metrics"):
        Scores.joined([one, other])
    with pytest.raises(UsageError, match="no scores"):
        Scores.joined([])


def test_only_scores_of_the_same_metrics_are_joined() -> None:
    one = score_rankings({"q": ["a"]}, {"q": {"a": 1}}, [nDCG @ 5])
    assert Scores.joined([one]).by_query(nDCG @ 5) == {"q": 1.0}
    assert Scores.joined([one]).mean_ceiling(nDCG @ 5) == 1.0
    other = score_rankings({"p": ["a"]}, {"p": {"a": 1}}, [nDCG @ 3])
    with pytest.raises(UsageError, match="same metrics"):
        Scores.joined([one, other])


def test_a_query_without_a_ranking_has_no_surplus() -> None:
    found = score_rankings({}, {"q": {"a": 1}}, [nDCG @ 5], top_k=5)
    assert found.violations.total() == 0


@pytest.mark.parametrize(("known", "ceiling"), [({"a", "b"}, 1.0), ({"a"}, 0.5), (set(), 0.0)])
def test_the_ceiling_is_of_documents_that_exist(known: set[str], ceiling: float) -> None:
    found = score_rankings({}, {"q": {"a": 1, "b": 1}}, [Recall @ 5], known=known)
    assert found.mean_ceiling(Recall @ 5) == ceiling

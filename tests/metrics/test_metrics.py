"""Names, spellings and ceilings of the metrics; what they compute, `tests/parity` shows."""

import pickle
from collections.abc import Callable
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from assay.errors import UsageError
from assay.metrics import metric as metric_module
from assay.metrics.figures import parse_figure
from assay.metrics.formulas import GradedLists, inferred_ndcg
from assay.metrics.metric import (
    AP,
    CappedRecall,
    Hit,
    Judged,
    Metric,
    Precision,
    Recall,
    Rprec,
    infNDCG,
    nDCG,
    parse_metric,
)
from assay.metrics.scoring import score


@pytest.mark.parametrize(
    ("metric", "name", "key"),
    [
        (nDCG @ 5, "nDCG@5", "ndcg_at_5"),
        (nDCG(gain="exp") @ 5, "nDCG(gain=exp)@5", "ndcg_exp_at_5"),
        ((nDCG @ 5)(gain="exp"), "nDCG(gain=exp)@5", "ndcg_exp_at_5"),
        (CappedRecall @ 10, "CappedRecall@10", "capped_recall_at_10"),
        (AP, "AP", "ap"),
        (Rprec, "Rprec", "rprec"),
    ],
)
def test_a_metric_is_named_as_it_is_written(metric: Metric, name: str, key: str) -> None:
    assert repr(metric) == str(metric) == name
    assert metric.key == key
    assert parse_metric(name) == parse_metric(key) == metric
    assert hash(parse_metric(name)) == hash(metric)


def test_the_spellings_in_use_are_understood() -> None:
    spelled = {
        " NDCG @ 5 ": nDCG @ 5,
        "ndcg_cut_10": nDCG @ 10,
        'nDCG(gain="exp")@5': nDCG(gain="exp") @ 5,
        "R@10": Recall @ 10,
        "P_5": Precision @ 5,
        "map": AP,
        "ap@100": AP @ 100,
        "capped-recall@10": CappedRecall @ 10,
        "r-precision": Rprec,
        "success@1": Hit @ 1,
    }
    assert {text: parse_metric(text) for text in spelled} == spelled


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parse_metric("ndgc@5"), r"'ndgc@5'.* Did you mean 'nDCG'\?"),
        (lambda: parse_metric(""), "''; available: nDCG, .*Judged"),
        (lambda: parse_metric("ndcg@-1"), "Did you mean 'nDCG'"),
        (lambda: parse_metric("ndcg@0"), "nDCG takes an integer >= 1"),
        (lambda: parse_metric("precision"), "Precision needs a cut-off"),
        (lambda: parse_metric("rprec@5"), "Rprec takes no cut-off"),
        (lambda: Metric("foo"), "'foo'; available"),
        (lambda: nDCG @ -1, "takes an integer >= 1"),
        (lambda: nDCG @ 2.0, "takes an integer >= 1"),  # type: ignore[operator]
        (lambda: nDCG @ True, "takes an integer >= 1"),
        (lambda: Recall(gain="exp"), "only nDCG takes"),
        (lambda: nDCG(gain="cubic"), "'cubic'"),
        (lambda: nDCG(gain="exp", judged_only=True), "one of them"),
    ],
)
def test_what_is_no_metric_is_refused(make: Callable[[], Metric], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()


# Relevant: a (2), b (1), c (1); judged and not relevant: z. Values of metrics: tests/parity.
GRADES = {"a": 2, "b": 1, "c": 1, "z": 0}
RANKING = ["b", "x", "a", "z"]


@pytest.mark.parametrize(
    ("metric", "ceiling"),
    [(Recall @ 2, 2 / 3), (Precision @ 5, 3 / 5), (AP @ 2, 2 / 3), (Judged @ 5, 4 / 5)],
)
def test_the_ceiling_is_what_the_best_list_reaches(metric: Metric, ceiling: float) -> None:
    scores = score({"q": []}, {"q": GRADES}, [metric])
    assert scores.mean_ceiling(metric) == pytest.approx(ceiling, abs=1e-12)


def test_a_figure_is_a_metric_of_rankings_or_one_of_answers() -> None:
    assert parse_figure("ndcg@5") == nDCG @ 5
    assert (nDCG @ 5).higher_is_better
    assert str(parse_figure("correctness")) == "correctness"


class LastPlace:
    """A metric of a package: how deep in the list the last relevant document is."""

    def __call__(self, grades: list[int], ideal: list[int], cutoff: int | None) -> float:
        assert min(grades, default=0) >= 0
        assert ideal == sorted(ideal, reverse=True)
        places = [place for place, grade in enumerate(grades, 1) if grade > 0]
        return max(places, default=0) / (cutoff or 10)


def test_a_package_adds_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("last", f"{__name__}:LastPlace", "assay.metrics")
    found = {("assay.metrics", "last"): [point]}
    monkeypatch.setattr("assay.extras.entry_points", lambda group, name: found[group, name])
    monkeypatch.setattr(metric_module, "_DEFINITIONS", dict(metric_module._DEFINITIONS))
    monkeypatch.setattr(metric_module, "_NAMES", dict(metric_module._NAMES))
    judged = {"q1": GRADES, "q2": {"a": 1, "b": -1}, "q3": {"c": 1}}
    run = {"q1": RANKING, "q2": ["b", "x", "x", "a"], "q3": []}
    scores = score(run, judged, ["LAST@4", "last"])
    assert repr(scores.metrics) == "[last@4, last]"
    assert scores.by_query("last@4") == {"q1": 3 / 4, "q2": 1.0, "q3": 0.0}
    assert scores.ceilings[parse_metric("last@4")].tolist() == [3 / 4, 1 / 4, 1 / 4]
    assert pickle.loads(pickle.dumps(parse_metric("last@4"))).slug == "last@4"


# --- incomplete judgments -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "ranking", "value"),
    [
        # One judged of three: it stands for three, at the first three places of the ideal list.
        ({"a": 1, "b": -1, "c": -1}, ["x", "a"], 3 / np.log2(3) / (1.5 + 1 / np.log2(3))),
        # Two judged of four: each stands for two.
        ({"a": 1, "b": 1, "c": -1, "d": -1}, ["a"], 2 / (1.5 + 1 / np.log2(3) + 1 / np.log2(5))),
        # Two judged of three: the first stands for one place and a half.
        ({"a": 2, "b": 1, "c": -1}, ["a"], 3 / (2.5 + 1.5 / np.log2(3))),
        # One of the two judged of four is relevant: it stands for two. An estimate is cut at 1.
        ({"a": 1, "b": 0, "c": -1, "d": -1}, ["x", "a"], 2 / (1 + np.log2(3))),
        ({"a": 1, "b": 0, "c": -1, "d": -1}, ["a"], 1.0),
    ],
)
def test_inferred_ndcg_by_hand(sample: dict[str, int], ranking: list[str], value: float) -> None:
    found = score({"q": ranking}, {"q": sample}, [infNDCG @ 10])["infndcg@10"]
    assert found == pytest.approx(value)


def test_inferred_ndcg_ends_at_its_cut_off() -> None:
    """Of two judged of three, the better one alone stands for the first place of the ideal list."""
    found = score({"q": ["b"]}, {"q": {"a": 2, "b": 1, "c": -1}}, [infNDCG @ 1])["infndcg@1"]
    assert found == pytest.approx(1.5 / 2)


def test_a_pool_of_which_nothing_was_judged_says_nothing() -> None:
    ranked = GradedLists.ranked([["a"]], [{"a": -1}])
    assert inferred_ndcg(ranked, GradedLists.ideal([{"a": -1}]), 10).tolist() == [0.0]
    with pytest.raises(ValueError, match="shorter"):
        GradedLists.ranked([["a"], ["b"]], [{"a": -1}])

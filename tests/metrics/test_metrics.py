"""Names, spellings, hand-computed values and ceilings of the metrics."""

import pickle
from collections.abc import Callable
from importlib.metadata import EntryPoint
from math import log2

import pytest

from assay.errors import UsageError
from assay.metrics import metric as metric_module
from assay.metrics.figures import parse_figure
from assay.metrics.metric import (
    AP,
    MRR,
    CappedRecall,
    Hit,
    Judged,
    Metric,
    Precision,
    Recall,
    Rprec,
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


@pytest.mark.parametrize(
    ("text", "metric"),
    [
        (" NDCG @ 5 ", nDCG @ 5),
        ("ndcg_cut_10", nDCG @ 10),
        ('nDCG(gain="exp")@5', nDCG(gain="exp") @ 5),
        ("R@10", Recall @ 10),
        ("P_5", Precision @ 5),
        ("map", AP),
        ("ap@100", AP @ 100),
        ("capped-recall@10", CappedRecall @ 10),
        ("r-precision", Rprec),
        ("success@1", Hit @ 1),
    ],
)
def test_the_spellings_in_use_are_understood(text: str, metric: Metric) -> None:
    assert parse_metric(text) == metric


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ndgc@5", r"'ndgc@5'; available: nDCG, .*Judged.*Did you mean 'nDCG'\?"),
        ("", "''; available"),
        ("ndcg@-1", "Did you mean 'nDCG'"),
        ("ndcg@0", "nDCG takes an integer >= 1 as its cut-off, got 0"),
        ("precision", "Precision needs a cut-off, for example Precision@10"),
        ("rprec@5", "Rprec takes no cut-off, got 5"),
    ],
)
def test_what_is_no_metric_is_refused_with_what_there_is(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_metric(text)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Metric("foo"), "'foo'; available"),
        (lambda: nDCG @ -1, "takes an integer >= 1 as its cut-off, got"),
        (lambda: nDCG @ 2.0, "takes an integer >= 1 as its cut-off, got"),  # type: ignore[operator]
        (lambda: nDCG @ True, "takes an integer >= 1 as its cut-off, got"),
        (lambda: Recall(gain="exp"), "only nDCG takes .* got Recall"),
        (lambda: nDCG(gain="cubic"), "got nDCG.gain='cubic'"),
        (lambda: nDCG(gain="exp", judged_only=True), "one of them"),
    ],
)
def test_a_metric_that_there_is_not_cannot_be_made(
    make: Callable[[], Metric], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        make()


# One query, worked by hand. Relevant: a (2), b (1), c (1); judged and not relevant: z.
GRADES = {"a": 2, "b": 1, "c": 1, "z": 0}
RANKING = ["b", "x", "a", "z"]
DCG = 1 / log2(2) + 2 / log2(4)
IDEAL = 2 / log2(2) + 1 / log2(3) + 1 / log2(4)
EXPONENTIAL_DCG = 1 / log2(2) + 3 / log2(4)
EXPONENTIAL_IDEAL = 3 / log2(2) + 1 / log2(3) + 1 / log2(4)

BY_HAND: list[tuple[Metric, float]] = [
    (nDCG @ 5, DCG / IDEAL),
    (nDCG, DCG / IDEAL),
    (nDCG @ 1, 1 / 2),
    (nDCG(gain="exp") @ 5, EXPONENTIAL_DCG / EXPONENTIAL_IDEAL),
    (Recall @ 1, 1 / 3),
    (Recall @ 5, 2 / 3),
    (CappedRecall @ 1, 1),
    (CappedRecall @ 2, 1 / 2),
    (CappedRecall @ 5, 2 / 3),
    (Precision @ 5, 2 / 5),
    (Precision @ 2, 1 / 2),
    (MRR @ 5, 1),
    (AP, (1 / 1 + 2 / 3) / 3),
    (AP @ 2, (1 / 1) / 3),
    (Rprec, 2 / 3),
    (Hit @ 1, 1),
    (Judged @ 4, 3 / 4),
    (Judged @ 5, 3 / 5),
]


@pytest.mark.parametrize(("metric", "value"), BY_HAND, ids=lambda each: str(each))
def test_each_metric_is_what_a_hand_computes(metric: Metric, value: float) -> None:
    scores = score({"q": RANKING}, {"q": GRADES}, [metric])
    assert scores.values[metric].tolist() == pytest.approx([value], abs=1e-12)


@pytest.mark.parametrize(
    ("metric", "ceiling"),
    [
        (Recall @ 2, 2 / 3),
        (Precision @ 5, 3 / 5),
        (AP @ 2, 2 / 3),
        (Judged @ 5, 4 / 5),
    ],
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

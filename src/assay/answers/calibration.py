"""Agreement of a judge with people, and means corrected by its known errors.

About three kinds of verdicts: whether answers are correct, ratings by a criterion, and which
nuggets answers state.
"""

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from assay.answers.criteria import Criterion, CriterionRating
from assay.answers.judge import Judgment, Vote, correctness_values, flip_rate
from assay.answers.nuggets import SUPPORT_RANK, NuggetAssignment, Support
from assay.errors import UsageError
from assay.metrics.statistics import (
    Estimate,
    cohen_kappa,
    estimate_mean,
    finite,
    weighted_kappa,
)

MIN_LABELS = 30
"""Below this many labels the normal approximation is not reliable."""

MIN_KAPPA = 0.6
"""What the lower end of kappa must reach before a judge counts as calibrated ("substantial", Landis
and Koch 1977)."""

_RESAMPLES = 1000
_UNDECIDED = "undecided"
_CONFIDENCE = 0.95
_TRUTHS = {Vote.TRUE.value: True, Vote.FALSE.value: False}


def prediction_powered_mean(labels: ArrayLike, judged: ArrayLike, unlabeled: ArrayLike) -> Estimate:
    """The mean that people's labels would have over `unlabeled`, whose verdicts are given, with
    its 95% interval.

    `judged` are the judge's verdicts on the labeled answers. Prediction-powered inference
    (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, "Prediction-powered inference",
    proposition 1): the mean verdict, corrected by the judge's mean error on the labeled answers;
    both add their variance. Holds whatever the judge is worth, if the labeled answers are a random
    sample of the same kind as the others. The interval is cut to [0, 1]. Where the judge's error is
    the same on every labeled answer (mostly: none), its variance is not known to be 0, so what so
    many answers cannot rule out (Clopper and Pearson 1934) is added to the interval.
    """
    truth, seen, rest = finite(labels), finite(judged), finite(unlabeled)
    if truth.size != seen.size:
        raise UsageError(
            f"every label needs its verdict, got {truth.size} labels and {seen.size} verdicts"
        )
    if not truth.size or not rest.size:
        raise UsageError("both labeled and unlabeled answers are needed; one of them is empty")
    error = seen - truth
    mean = float(rest.mean() - error.mean())
    if truth.size < 2:
        return Estimate(_clip(mean), None, None)
    # The population variance, as in the paper; one unlabeled answer then has none.
    spread = float(np.sqrt(rest.var() / rest.size + error.var() / truth.size))
    reach = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2) * spread
    if not error.var():
        reach += _unseen(truth.size)
    return Estimate(_clip(mean), _clip(mean - reach), _clip(mean + reach))


def _unseen(count: int) -> float:
    """The highest share of answers that are judged otherwise, although none of `count` was."""
    return 1.0 - math.pow((1 - _CONFIDENCE) / 2, 1 / count)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


Kappa = Callable[[Sequence[Any], Sequence[Any]], float | None]


def kappa_low(
    pairs: Sequence[tuple[Any, Any]], kappa: Kappa, disagreement: tuple[Any, Any]
) -> float | None:
    """The lower end of the 95% interval of `kappa`, by a bootstrap; None if kappa does not exist.

    One imaginary `disagreement` (label and verdict) is added, so that few labels that all agree do
    not give an interval without width.
    """
    if not pairs or kappa(*zip(*pairs, strict=True)) is None:
        return None
    every = [*pairs, disagreement]
    drawn = np.random.default_rng(0).integers(0, len(every), (_RESAMPLES, len(every)))
    samples = (tuple(zip(*(every[place] for place in row), strict=True)) for row in drawn)
    found = [value for ours, theirs in samples if (value := kappa(ours, theirs)) is not None]
    return float(np.quantile(found, (1 - _CONFIDENCE) / 2)) if found else None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Agreement of a judge with people.

    `confusion` counts by label, then by verdict: `confusion["true"]["false"]` are answers that
    people call correct and the judge calls wrong. An undecided judge agrees with neither label.

    `labels_mean` is the mean of the labels; `uncorrected` the judge's mean over the unlabeled
    answers; `corrected` that mean corrected by the judge's errors on the labeled ones. `bias` is
    the judge's mean error on the labeled answers, which gates subtract.

    Names of fields are keys of `--json`.
    """

    labelled: int
    unlabelled: int
    accuracy: Estimate
    kappa: float | None
    kappa_low: float | None
    bias: float
    confusion: Mapping[str, Mapping[str, int]]
    flip_rate: float | None
    unparseable_votes: int
    undecided: int
    labels_mean: Estimate
    uncorrected: float | None
    corrected: Estimate | None


def calibrate_judge(
    labels: Sequence[bool], judgments: Sequence[Judgment], unlabeled: Sequence[Judgment] = ()
) -> Calibration:
    """Compare verdicts with labels.

    Parameters:
        labels: what people say, one for each of `judgments`.
        judgments: what the judge says about the same answers.
        unlabeled: judgments of further answers, whose mean is corrected.
    """
    if not labels:
        raise UsageError("no answer has a label; a judge needs at least one to be calibrated")
    if len(labels) != len(judgments):
        raise UsageError(f"every label needs its judgment, got {len(labels)} and {len(judgments)}")
    verdicts = [each.verdict for each in judgments]
    everything = [*judgments, *unlabeled]
    values, rest = correctness_values(judgments), correctness_values(unlabeled)
    return Calibration(
        labelled=len(labels),
        unlabelled=len(unlabeled),
        accuracy=estimate_mean([v is y for v, y in zip(verdicts, labels, strict=True)]),
        kappa=cohen_kappa(labels, verdicts),
        kappa_low=kappa_low(list(zip(labels, verdicts, strict=True)), cohen_kappa, (True, False)),
        bias=float(values.mean() - np.mean(labels)),
        confusion=_confusion(_TRUTHS, labels, verdicts),
        flip_rate=flip_rate(everything),
        unparseable_votes=sum(each.unparseable for each in everything),
        undecided=sum(each.verdict is None for each in everything),
        labels_mean=estimate_mean(labels),
        uncorrected=float(rest.mean()) if rest.size else None,
        corrected=prediction_powered_mean(labels, values, rest) if rest.size else None,
    )


def _confusion(
    names: Mapping[str, Hashable], labels: Sequence[Hashable], verdicts: Sequence[Hashable]
) -> dict[str, dict[str, int]]:
    """Counts by label, then by verdict; `names` are what tables call the values of both."""
    pairs = Counter(zip(labels, verdicts, strict=True))
    columns = {**names, _UNDECIDED: None}
    return {
        row: {name: pairs[label, verdict] for name, verdict in columns.items()}
        for row, label in names.items()
    }


@dataclass(frozen=True, slots=True)
class RatingCalibration:
    """Agreement of a judge with people about one criterion.

    `agreement` is the share of answers with the same level, `within_one` that with the same or a
    neighboring one. `kappa` is weighted by the square of the distance. `bias` is by how many levels
    the judge is above people, on average, and `error` how far it is from them. An undecided judge
    agrees with no label, and is in neither kappa, bias nor error.

    `labels_mean`, `uncorrected` and `corrected` are means between 0 and 1, as in `Calibration`.
    """

    criterion: str
    labelled: int
    unlabelled: int
    agreement: Estimate
    within_one: Estimate
    kappa: float | None
    kappa_low: float | None
    bias: Estimate | None
    error: float | None
    confusion: Mapping[str, Mapping[str, int]]
    differing: float | None
    undecided: int
    labels_mean: Estimate
    uncorrected: float | None
    corrected: Estimate | None


def calibrate_ratings(
    criterion: Criterion,
    labels: Sequence[str],
    ratings: Sequence[CriterionRating],
    unlabeled: Sequence[CriterionRating] = (),
) -> RatingCalibration:
    """Compare ratings with labels, one for each; the mean of `unlabeled` ones is corrected."""
    if not labels or len(labels) != len(ratings):
        raise UsageError(f"every label needs its rating, got {len(labels)} and {len(ratings)}")
    top = len(criterion.levels) - 1
    people = [criterion.levels.index(label) for label in labels]
    judge = [None if each.value is None else int(each.value * top + 0.5) for each in ratings]
    pairs = [(y, v) for y, v in zip(people, judge, strict=True) if v is not None]
    exact = [
        each.value * top - y
        for each, y in zip(ratings, people, strict=True)
        if each.value is not None
    ]
    rest = [each.value or 0.0 for each in unlabeled]
    repeated = [each for each in (*ratings, *unlabeled) if len(each.votes) > 1]
    differing = [len(set(each.votes)) > 1 for each in repeated]
    values = [each.value or 0.0 for each in ratings]
    truth = [y / top for y in people]
    return RatingCalibration(
        criterion=criterion.name,
        labelled=len(labels),
        unlabelled=len(unlabeled),
        agreement=estimate_mean([v == y for y, v in zip(people, judge, strict=True)]),
        within_one=estimate_mean(
            [v is not None and abs(v - y) <= 1 for y, v in zip(people, judge, strict=True)]
        ),
        kappa=weighted_kappa(*zip(*pairs, strict=True)) if pairs else None,
        kappa_low=kappa_low(pairs, weighted_kappa, (top, 0)),
        bias=estimate_mean(exact, bounds=(-top, top)) if exact else None,
        error=float(np.mean(np.abs(exact))) if exact else None,
        confusion=_confusion({level: y for y, level in enumerate(criterion.levels)}, people, judge),
        differing=sum(differing) / len(differing) if differing else None,
        undecided=sum(each.value is None for each in (*ratings, *unlabeled)),
        labels_mean=estimate_mean(truth),
        uncorrected=sum(rest) / len(rest) if rest else None,
        corrected=prediction_powered_mean(truth, values, rest) if rest else None,
    )


@dataclass(frozen=True, slots=True)
class NuggetCalibration:
    """How assignments agree with people's.

    Attributes:
        labelled: how many labels there are.
        agreement: the share with the same label.
        kappa: the same beyond chance (Cohen 1960).
        weighted_kappa: with quadratic weights, so that partial is nearer to both than they are to
            each other; over those that are decided.
        confusion: counts by people's label, then by the judge's.
        labels_mean: the recall that people's labels give; `judged_mean` that of the judge.
        flip_rate: how often the judge said both support and none; None for the rules.
        undecided: how many labels of the judge could not be read.
    """

    labelled: int
    agreement: Estimate
    kappa: float | None
    kappa_low: float | None
    weighted_kappa: float | None
    confusion: Mapping[str, Mapping[str, int]]
    labels_mean: float
    judged_mean: float
    flip_rate: float | None
    undecided: int


def calibrate_assignments(
    labels: Sequence[Support], assigned: Sequence[NuggetAssignment]
) -> NuggetCalibration:
    """Compare assignments with the labels of the same nuggets."""
    if len(labels) != len(assigned) or not labels:
        raise UsageError(f"every label needs its assignment, got {len(labels)}, {len(assigned)}")
    found = [each.support for each in assigned]
    decided = [(a, b) for a, b in zip(labels, found, strict=True) if b is not None]
    ranks = [(SUPPORT_RANK[a], SUPPORT_RANK[b]) for a, b in decided]
    asked = [each for each in assigned if each.votes]
    return NuggetCalibration(
        labelled=len(labels),
        agreement=estimate_mean([a is b for a, b in zip(labels, found, strict=True)]),
        kappa=cohen_kappa(labels, found),
        kappa_low=kappa_low(
            list(zip(labels, found, strict=True)), cohen_kappa, (Support.SUPPORT, Support.NONE)
        ),
        weighted_kappa=weighted_kappa(*zip(*ranks, strict=True)) if ranks else None,
        confusion=_confusion({each.value: each for each in Support}, labels, found),
        labels_mean=_mean_support(labels),
        judged_mean=_mean_support([each or Support.NONE for each in found]),
        flip_rate=sum(each.flipped for each in asked) / len(asked) if asked else None,
        undecided=found.count(None),
    )


def _mean_support(labels: Sequence[Support]) -> float:
    return sum(SUPPORT_RANK[each] / 2 for each in labels) / len(labels)

"""Many judged answers, a few labelled ones: a mean that the judge's errors do not bias."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from assay.errors import UsageError
from assay.measure.graded import Floats

FEW = 30
"""Below this many labels the normal approximation is not to be relied on."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """`low` and `high` are None where fewer than two labels say nothing about the spread."""

    mean: float
    low: float | None
    high: float | None


def prediction_powered_mean(
    labels: ArrayLike,
    judged: ArrayLike,
    unlabelled: ArrayLike,
    *,
    confidence: float = 0.95,
) -> Estimate:
    """The mean that people's labels would have over `unlabelled`, whose verdicts are given.

    `judged` are the judge's verdicts on the labelled answers. Prediction-powered inference
    (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, "Prediction-powered inference",
    proposition 1): the mean verdict, corrected by the judge's mean error on the labelled answers;
    both add their variance. Holds whatever the judge is worth, if the labelled answers are a random
    sample of the same kind as the others. The interval is cut to [0, 1]. Where the judge's error is
    the same on every labelled answer (mostly: none), its variance is not known to be 0, so what so
    many answers cannot rule out (Clopper and Pearson 1934) is added to the interval.
    """
    truth, seen, rest = _floats(labels), _floats(judged), _floats(unlabelled)
    if truth.size != seen.size:
        raise UsageError(
            f"every label needs its verdict, got {truth.size} labels and {seen.size} verdicts"
        )
    if not truth.size or not rest.size:
        raise UsageError("labelled and unlabelled answers are both needed; one of them is empty")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence lies between 0 and 1, got {confidence!r}")
    error = seen - truth
    mean = float(rest.mean() - error.mean())
    if truth.size < 2:
        return Estimate(_clip(mean), None, None)
    # The population variance, as in the paper; one unlabelled answer then has none.
    spread = float(np.sqrt(rest.var() / rest.size + error.var() / truth.size))
    reach = NormalDist().inv_cdf((1 + confidence) / 2) * spread
    if not error.var():
        reach += _unseen(truth.size, confidence)
    return Estimate(_clip(mean), _clip(mean - reach), _clip(mean + reach))


def _unseen(count: int, confidence: float) -> float:
    """The highest share of answers that are judged otherwise, although none of `count` was."""
    return 1.0 - math.pow((1 - confidence) / 2, 1 / count)


def _clip(value: float) -> float:
    return min(1.0, max(0.0, value))


def _floats(values: ArrayLike) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise UsageError("verdicts and labels must be flat lists of finite numbers")
    return array

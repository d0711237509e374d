"""Agreement of a judge with people, and means corrected by its known errors."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from assay.data.text_file import Record, plain_file, records, short_repr
from assay.errors import DataError, UsageError
from assay.measure.answers.judge import Judgment, Vote, correctness_values, flip_rate
from assay.measure.graded import Floats
from assay.measure.statistics import summarize

_TRUTHS = {"true": True, "false": False}
_VOTES = {"true": Vote.TRUE, "false": Vote.FALSE, "unparseable": Vote.UNPARSEABLE}


@dataclass(frozen=True, slots=True)
class LabeledAnswer:
    """An answer with a person's label, or None, and the judge's verdict if it was recorded."""

    question: str
    answer: str
    reference: str | None
    label: bool | None
    recorded: Judgment | None


def read_labels(path: Path) -> list[LabeledAnswer]:
    """Read JSON lines of answers, some of them labeled by people.

    Fields: `question`, `answer`, `reference` (null: there is no answer), `label`, and `verdict` or
    `verdicts` where a judge has judged already. The calibrated judge estimates the
    lines without a label.
    """
    rows = [_row(record) for record in records(plain_file(path))]
    if not any(row.label is not None for row in rows):
        raise DataError(
            "has no line with a label; add 'label': true or false, by a person, to some lines",
            file=path,
        )
    return rows


def _row(record: Record) -> LabeledAnswer:
    recorded = _recorded(record)
    if recorded is None:
        for key in ("question", "answer"):
            if key not in record.fields:
                raise record.refusal(
                    f"has no {key!r}, which the judge needs; add it, or a 'verdict'"
                )
        if "reference" not in record.fields:
            raise record.refusal("has no 'reference'; add it, or null if there is no answer")
    label = record.fields.get("label")
    return LabeledAnswer(
        question=record.text("question"),
        answer=record.text("answer"),
        reference=record.text("reference") or None,
        label=None if label is None else _truth(record, "label", label),
        recorded=recorded,
    )


def _recorded(record: Record) -> Judgment | None:
    given: Any = record.fields.get("verdicts", record.fields.get("verdict"))
    if given is None:
        return None
    votes: Sequence[Any] = given if isinstance(given, list) else [given]
    if not votes:
        raise record.refusal("'verdicts' must hold at least one verdict, got []")
    return Judgment(tuple(_vote(record, each) for each in votes))


def _vote(record: Record, value: Any) -> Vote:
    vote = _VOTES.get(str(value).strip().lower())
    if vote is None:
        raise record.refusal(f"a verdict is true, false or 'unparseable', got {short_repr(value)}")
    return vote


def _truth(record: Record, key: str, value: Any) -> bool:
    truth = _TRUTHS.get(str(value).strip().lower())
    if truth is None:
        raise record.refusal(f"{key!r} must be true or false, got {short_repr(value)}")
    return truth


MIN_LABELS = 30
"""Below this many labels the normal approximation is not reliable."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its interval; no interval with fewer than two labels."""

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

    `judged` are the judge's verdicts on the labeled answers. Prediction-powered inference
    (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023, "Prediction-powered inference",
    proposition 1): the mean verdict, corrected by the judge's mean error on the labeled answers;
    both add their variance. Holds whatever the judge is worth, if the labeled answers are a random
    sample of the same kind as the others. The interval is cut to [0, 1]. Where the judge's error is
    the same on every labeled answer (mostly: none), its variance is not known to be 0, so what so
    many answers cannot rule out (Clopper and Pearson 1934) is added to the interval.
    """
    truth, seen, rest = _floats(labels), _floats(judged), _floats(unlabelled)
    if truth.size != seen.size:
        raise UsageError(
            f"every label needs its verdict, got {truth.size} labels and {seen.size} verdicts"
        )
    if not truth.size or not rest.size:
        raise UsageError("both labeled and unlabeled answers are needed; one of them is empty")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must be between 0 and 1, got {confidence!r}")
    error = seen - truth
    mean = float(rest.mean() - error.mean())
    if truth.size < 2:
        return Estimate(_clip(mean), None, None)
    # The population variance, as in the paper; one unlabeled answer then has none.
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


UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Agreement of a judge with people.

    `confusion` counts by label, then by verdict: `confusion["true"]["false"]` are answers that
    people call correct and the judge calls wrong. An undecided judge agrees with neither label.

    `labels_mean` is the mean of the labels; `uncorrected` the judge's mean over the unlabeled
    answers; `corrected` that mean corrected by the judge's errors on the labeled ones.
    """

    labelled: int
    unlabelled: int
    accuracy: Estimate
    kappa: float | None
    confusion: Mapping[str, Mapping[str, int]]
    flip_rate: float | None
    unparseable_votes: int
    undecided: int
    labels_mean: Estimate
    uncorrected: float | None
    corrected: Estimate | None


def calibrate_judge(
    labels: Sequence[bool], judgments: Sequence[Judgment], unlabelled: Sequence[Judgment] = ()
) -> Calibration:
    """Compare verdicts with labels.

    Args:
        labels: what people say, one for each of `judgments`.
        judgments: what the judge says about the same answers.
        unlabelled: judgments of further answers, whose mean is corrected.
    """
    if not labels:
        raise UsageError("no answer has a label; a judge needs at least one to be calibrated")
    if len(labels) != len(judgments):
        raise UsageError(f"every label needs its judgment, got {len(labels)} and {len(judgments)}")
    verdicts = [each.verdict for each in judgments]
    everything = [*judgments, *unlabelled]
    values, rest = correctness_values(judgments), correctness_values(unlabelled)
    return Calibration(
        labelled=len(labels),
        unlabelled=len(unlabelled),
        accuracy=_bootstrapped([v is y for v, y in zip(verdicts, labels, strict=True)]),
        kappa=cohen_kappa(labels, verdicts),
        confusion=_confusion(labels, verdicts),
        flip_rate=flip_rate(everything),
        unparseable_votes=sum(each.unparseable for each in everything),
        undecided=sum(each.verdict is None for each in everything),
        labels_mean=_bootstrapped(labels),
        uncorrected=float(rest.mean()) if rest.size else None,
        corrected=prediction_powered_mean(labels, values, rest) if rest.size else None,
    )


def cohen_kappa(labels: Sequence[Hashable], verdicts: Sequence[Hashable]) -> float | None:
    """Agreement beyond chance (Cohen 1960): 1 all, 0 as much as chance, below 0 less.

    None if it does not exist: both always say the same one thing, so that chance alone agrees
    everywhere. An undecided verdict, None, is a category of its own.
    """
    n = len(labels)
    agreed = sum(v == y for v, y in zip(verdicts, labels, strict=True)) / n
    ours, theirs = Counter(labels), Counter(verdicts)
    by_chance = sum(ours[value] * theirs[value] for value in ours) / n**2
    return None if by_chance == 1 else (agreed - by_chance) / (1 - by_chance)


def _confusion(
    labels: Sequence[bool], verdicts: Sequence[bool | None]
) -> dict[str, dict[str, int]]:
    pairs = Counter(zip(labels, verdicts, strict=True))
    columns: dict[str, bool | None] = {
        Vote.TRUE.value: True,
        Vote.FALSE.value: False,
        UNDECIDED: None,
    }
    return {
        row.value: {name: pairs[row is Vote.TRUE, value] for name, value in columns.items()}
        for row in (Vote.TRUE, Vote.FALSE)
    }


def _bootstrapped(values: Sequence[bool]) -> Estimate:
    summary = summarize(np.array(values, dtype=np.float64))
    return Estimate(summary.mean, summary.low, summary.high)

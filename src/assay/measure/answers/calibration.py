"""How far a judge agrees with people, and what its verdicts are worth once that is known."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.errors import UsageError
from assay.measure.answers.prediction_powered import Estimate, prediction_powered_mean
from assay.measure.answers.verdicts import Judgment, Vote, correctness_values, flip_rate
from assay.measure.statistics import summarize

UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Calibration:
    """`confusion` counts by label, then by verdict: `confusion["true"]["false"]` were right by the
    people and wrong by the judge. An undecided judge agrees with nobody.

    `labels_mean` is what the labels alone say; `corrected` what labels and verdicts say together
    about the unlabelled answers, and `uncorrected` what the judge alone would have claimed.
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


def calibrate(
    labels: Sequence[bool], judgments: Sequence[Judgment], unlabelled: Sequence[Judgment] = ()
) -> Calibration:
    if not labels:
        raise UsageError("no answer has a label; at least one is needed to calibrate a judge")
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


def cohen_kappa(labels: Sequence[bool], verdicts: Sequence[bool | None]) -> float | None:
    """Agreement beyond chance (Cohen 1960): 1 all, 0 as much as chance, below 0 less.

    None where it does not exist: both always say the same one thing, so that chance alone agrees
    everywhere. An undecided verdict is a category of its own.
    """
    n = len(labels)
    agreed = sum(v is y for v, y in zip(verdicts, labels, strict=True)) / n
    ours, theirs = Counter(labels), Counter(verdicts)
    by_chance = sum(ours[value] * theirs[value] for value in (True, False)) / n**2
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

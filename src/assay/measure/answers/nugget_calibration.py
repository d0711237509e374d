"""Agreement of a judge, or of the rules, with people about which nuggets answers state."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from assay.answer.nuggets.nugget_file import Importance, Nugget, check_nugget
from assay.data.text_file import Record, plain_file, records, short_repr
from assay.errors import DataError, UsageError
from assay.measure.answers.calibration import UNDECIDED, Estimate, cohen_kappa
from assay.measure.answers.nuggets import NuggetAssignment, Support
from assay.measure.statistics import summarize

_RANK = {each: rank for rank, each in enumerate(Support)}


@dataclass(frozen=True, slots=True)
class LabeledNugget:
    """A nugget, an answer, and whether a person finds it stated there."""

    question: str
    answer: str
    nugget: Nugget
    label: Support


def read_nugget_labels(path: Path) -> list[LabeledNugget]:
    """Read JSON lines of `question`, `answer`, `nugget` and `label`: support, partial or none."""
    rows = [_row(record) for record in records(plain_file(path))]
    if not rows:
        raise DataError("has no line with a label", file=path)
    return rows


def _row(record: Record) -> LabeledNugget:
    for key in ("question", "answer", "nugget", "label"):
        if key not in record.fields:
            raise record.refusal(f"has no {key!r}; a line has question, answer, nugget and label")
    label = str(record.fields["label"]).strip().lower()
    if label not in tuple(Support):
        raise record.refusal(
            f"'label' must be support, partial or none, got {short_repr(record.fields['label'])}"
        )
    try:
        _, text = check_nugget(record.text("nugget"), Importance.VITAL)
    except ValueError as error:
        raise record.refusal(str(error).replace("'text'", "'nugget'")) from None
    nugget = Nugget(str(record.line), text, Importance.VITAL)
    return LabeledNugget(record.text("question"), record.text("answer"), nugget, Support(label))


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
    from assay.measure.statistics import weighted_kappa

    if len(labels) != len(assigned) or not labels:
        raise UsageError(f"every label needs its assignment, got {len(labels)}, {len(assigned)}")
    found = [each.support for each in assigned]
    same = summarize(np.array([a is b for a, b in zip(labels, found, strict=True)], np.float64))
    decided = [(a, b) for a, b in zip(labels, found, strict=True) if b is not None]
    ranks = [(_RANK[a], _RANK[b]) for a, b in decided]
    pairs = Counter(zip(labels, found, strict=True))
    columns: dict[str, Support | None] = {**{each.value: each for each in Support}, UNDECIDED: None}
    asked = [each for each in assigned if each.votes]
    return NuggetCalibration(
        labelled=len(labels),
        agreement=Estimate(same.mean, same.low, same.high),
        kappa=cohen_kappa(labels, found),
        weighted_kappa=weighted_kappa(*zip(*ranks, strict=True)) if ranks else None,
        confusion={
            label.value: {name: pairs[label, value] for name, value in columns.items()}
            for label in Support
        },
        labels_mean=_mean(labels),
        judged_mean=_mean([each or Support.NONE for each in found]),
        flip_rate=sum(each.flipped for each in asked) / len(asked) if asked else None,
        undecided=found.count(None),
    )


def _mean(labels: Sequence[Support]) -> float:
    return sum(_RANK[each] / 2 for each in labels) / len(labels)

"""How well a judge agrees with people who rated answers by a criterion, or assigned nuggets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.answer.ground_truth.nugget_file import Importance, Nugget, check_nugget
from assay.data.text_file import Record, plain_file, records, short_repr
from assay.errors import DataError, UsageError
from assay.measure.answers.calibration import (
    UNDECIDED,
    Estimate,
    cohen_kappa,
    prediction_powered_mean,
)
from assay.measure.answers.criteria import Criterion, CriterionRating, rating_of
from assay.measure.answers.nuggets import NuggetAssignment, Support
from assay.measure.statistics import summarize, weighted_kappa

_SAME_WORDS = {"TRUE": "YES", "FALSE": "NO"}


@dataclass(frozen=True, slots=True)
class LabeledRating:
    """An answer with the level that a person gave, or None, and the judge's if it was recorded."""

    question: str
    answer: str
    sources: tuple[str, ...]
    label: str | None
    recorded: CriterionRating | None


def read_rating_labels(path: Path, criterion: Criterion) -> list[LabeledRating]:
    """Read JSON lines of answers, some of them labeled by people with a level of the criterion.

    Fields: `question`, `answer`, `contexts` (texts), `label`, and `rating` or `ratings` where a
    judge has rated already.
    """
    rows = [_row(record, criterion) for record in records(plain_file(path))]
    if not any(row.label is not None for row in rows):
        levels = ", ".join(criterion.levels)
        raise DataError(
            f"has no line with a label; add 'label', by a person, to some lines: one of {levels}",
            file=path,
        )
    return rows


def _row(record: Record, criterion: Criterion) -> LabeledRating:
    given: Any = record.fields.get("ratings", record.fields.get("rating"))
    recorded = None
    if given is not None:
        votes = given if isinstance(given, list) else [given]
        if not votes:
            raise record.refusal("'ratings' must hold at least one rating, got []")
        recorded = rating_of(criterion, [_level(record, each, criterion) for each in votes])
    elif missing := {"question", "answer"} - record.fields.keys():
        raise record.refusal(
            f"has no {min(missing)!r}, which the judge needs; add it, or a 'rating'"
        )
    contexts: Any = record.fields.get("contexts") or []
    if not isinstance(contexts, list) or not all(isinstance(each, str) for each in contexts):
        raise record.refusal(f"'contexts' must be a list of texts, got {short_repr(contexts)}")
    label = record.fields.get("label")
    return LabeledRating(
        question=record.text("question"),
        answer=record.text("answer"),
        sources=tuple(contexts),
        label=None if label is None else _level(record, label, criterion),
        recorded=recorded,
    )


def _level(record: Record, value: Any, criterion: Criterion) -> str:
    word = str(value).strip().upper()
    word = _SAME_WORDS.get(word, word) if "YES" in criterion.levels else word
    if word not in criterion.levels:
        levels = ", ".join(criterion.levels)
        raise record.refusal(f"a level is one of {levels}, got {short_repr(value)}")
    return word


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
    unlabelled: Sequence[CriterionRating] = (),
) -> RatingCalibration:
    """Compare ratings with labels, one for each; the mean of `unlabelled` ones is corrected."""
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
    rest = [each.value or 0.0 for each in unlabelled]
    repeated = [each for each in (*ratings, *unlabelled) if len(each.votes) > 1]
    differing = [len(set(each.votes)) > 1 for each in repeated]
    values = [each.value or 0.0 for each in ratings]
    truth = [y / top for y in people]
    return RatingCalibration(
        criterion=criterion.name,
        labelled=len(labels),
        unlabelled=len(unlabelled),
        agreement=_mean([v == y for y, v in zip(people, judge, strict=True)]),
        within_one=_mean(
            [v is not None and abs(v - y) <= 1 for y, v in zip(people, judge, strict=True)]
        ),
        kappa=weighted_kappa(*zip(*pairs, strict=True)) if pairs else None,
        bias=_mean(exact) if exact else None,
        error=float(np.mean(np.abs(exact))) if exact else None,
        confusion=_confusion(criterion, people, judge),
        differing=sum(differing) / len(differing) if differing else None,
        undecided=sum(each.value is None for each in (*ratings, *unlabelled)),
        labels_mean=_mean(truth),
        uncorrected=sum(rest) / len(rest) if rest else None,
        corrected=prediction_powered_mean(truth, values, rest) if rest else None,
    )


def _confusion(
    criterion: Criterion, people: Sequence[int], judge: Sequence[int | None]
) -> dict[str, dict[str, int]]:
    counts = Counter(zip(people, judge, strict=True))
    return {
        label: {
            **{level: counts[y, v] for v, level in enumerate(criterion.levels)},
            UNDECIDED: counts[y, None],
        }
        for y, label in enumerate(criterion.levels)
    }


def _mean(values: Sequence[float]) -> Estimate:
    summary = summarize(np.array(values, dtype=np.float64))
    return Estimate(summary.mean, summary.low, summary.high)


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
    rows = [_nugget_row(record) for record in records(plain_file(path))]
    if not rows:
        raise DataError("has no line with a label", file=path)
    return rows


def _nugget_row(record: Record) -> LabeledNugget:
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
    nugget = Nugget(str(record.number), text, Importance.VITAL)
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
        labels_mean=_mean_support(labels),
        judged_mean=_mean_support([each or Support.NONE for each in found]),
        flip_rate=sum(each.flipped for each in asked) / len(asked) if asked else None,
        undecided=found.count(None),
    )


def _mean_support(labels: Sequence[Support]) -> float:
    return sum(_RANK[each] / 2 for each in labels) / len(labels)

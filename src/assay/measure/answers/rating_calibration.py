"""Agreement of a judge with people about a criterion: exact, within a level, kappa and bias."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from assay.data.text_file import Record, plain_file, records, short_repr
from assay.errors import DataError, UsageError
from assay.measure.answers.calibration import UNDECIDED, Estimate, prediction_powered_mean
from assay.measure.answers.criteria import Criterion, CriterionRating, rating_of
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

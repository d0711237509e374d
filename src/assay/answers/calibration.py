"""Agreement of a judge with people, and means corrected by its known errors; and its files.

A judge's verdicts about correctness, its ratings by a criterion, and which nuggets it finds stated
are calibrated alike. `assay judge calibrate LABELS --out FILE` adds a line to FILE: which judge, on
which questions, how well it agreed. A gate on a judged figure says whether a line fits the judge
and the data. Questions are kept as hashes: a calibration may be shared if they may not.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any

import numpy as np
import orjson
from numpy.typing import ArrayLike
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from assay.answers.judge import Judgment, flip_rate
from assay.data.text_file import Findings, Record, json_lines, plain_file, short_repr, write_file
from assay.errors import DataError
from assay.metrics.statistics import Estimate, cohen_kappa, estimate_mean, finite, weighted_kappa
from assay.text import normalize, text_hash

MIN_LABELS = 30  # below this many labels the normal approximation is not reliable
# What the lower end of kappa must reach before a judge counts as calibrated ("substantial", Landis
# and Koch 1977).
MIN_KAPPA = 0.6
_RESAMPLES = 1000
_CONFIDENCE = 0.95
_Count = Annotated[int, Field(strict=True, ge=1)]
_Name = Annotated[str, StringConstraints(min_length=1)]
_Share = Annotated[float, Field(strict=True, ge=-1, le=1)]


def prediction_powered_mean(labels: ArrayLike, judged: ArrayLike, unlabeled: ArrayLike) -> Estimate:
    """The mean that people's labels would have over `unlabeled`, whose verdicts are given, with
    its 95% interval; `judged` are the judge's verdicts on the labeled answers.

    Prediction-powered inference (Angelopoulos, Bates, Fannjiang, Jordan and Zrnic 2023,
    proposition 1): the mean verdict, corrected by the judge's mean error on the labeled answers;
    both add their variance. Holds whatever the judge is worth, if the labeled answers are a random
    sample of the same kind as the others.
    """
    truth, seen, rest = finite(labels), finite(judged), finite(unlabeled)
    error = seen - truth
    mean = float(rest.mean() - error.mean())
    if truth.size < 2:
        return Estimate(min(1.0, max(0.0, mean)), None, None)
    # The population variance, as in the paper; one unlabeled answer then has none.
    spread = float(np.sqrt(rest.var() / rest.size + error.var() / truth.size))
    reach = NormalDist().inv_cdf((1 + _CONFIDENCE) / 2) * spread
    if not error.var():
        # Its variance is not known to be 0: the highest share that may be judged otherwise,
        # although none of so many was (Clopper and Pearson 1934).
        reach += 1.0 - math.pow((1 - _CONFIDENCE) / 2, 1 / truth.size)
    low, middle, high = np.clip([mean - reach, mean, mean + reach], 0.0, 1.0).tolist()
    return Estimate(middle, low, high)


Kappa = Callable[[Sequence[Any], Sequence[Any]], float | None]


def kappa_low(
    pairs: Sequence[tuple[Any, Any]], kappa: Kappa, disagreement: tuple[Any, Any]
) -> float | None:
    """The lower end of the 95% interval of `kappa`, by a bootstrap; None if it does not exist."""
    if not pairs or kappa(*zip(*pairs, strict=True)) is None:
        return None
    # With one imaginary disagreement: else few labels that agree give an interval without width.
    every = [*pairs, disagreement]
    drawn = np.random.default_rng(0).integers(0, len(every), (_RESAMPLES, len(every)))
    samples = (tuple(zip(*(every[place] for place in row), strict=True)) for row in drawn)
    found = [value for ours, theirs in samples if (value := kappa(ours, theirs)) is not None]
    return float(np.quantile(found, (1 - _CONFIDENCE) / 2)) if found else None


@dataclass(frozen=True, slots=True)
class Calibration:
    """Agreement of a judge with people; the names of its fields are keys of `--json`.

    `accuracy` is the share of answers with the same level. `kappa` is Cohen's; of more than two
    levels it is weighted by the square of the distance. `confusion` counts by label, then by
    verdict. `bias` is the judge's mean error on the labeled answers, `uncorrected` its mean over
    the unlabeled ones, `corrected` the same without that error. An undecided judge agrees with no
    label and counts as 0.
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
    judged_mean: float
    uncorrected: float | None
    corrected: Estimate | None


def compare_with_labels(
    labels: Sequence[str],
    judgments: Sequence[Judgment],
    unlabeled: Sequence[Judgment] = (),
    value: Callable[[Judgment], float | None] = lambda judgment: judgment.value,
) -> Calibration:
    """Compare `labels` of people, which are levels, with a judge's `judgments` of the same answers.

    `unlabeled` are judgments of further answers, whose mean is corrected; `value` is that of a
    judgment, from 0 to 1, or None if it is undecided.
    """
    levels = judgments[0].levels
    top = len(levels) - 1
    people = [levels.index(label) for label in labels]
    values = [value(each) for each in judgments]
    judge = [None if v is None else int(v * top + 0.5) for v in values]
    pairs = list(zip(people, judge, strict=True))
    kappa: Kappa = cohen_kappa if top == 1 else weighted_kappa
    compared = [pair for pair in pairs if top == 1 or pair[1] is not None]
    truth, seen = [label / top for label in people], [v or 0.0 for v in values]
    rest = [value(each) for each in unlabeled]
    everything = [*judgments, *unlabeled]
    judged, mean = sum(seen) / len(seen), estimate_mean(truth)
    counts, ranks = Counter(pairs), list(enumerate(map(str.lower, levels)))[::-1]
    columns: list[tuple[int | None, str]] = [*ranks, (None, "undecided")]
    return Calibration(
        labelled=len(labels),
        unlabelled=len(unlabeled),
        accuracy=estimate_mean([label == rank for label, rank in pairs]),
        kappa=kappa(*zip(*compared, strict=True)) if compared else None,
        kappa_low=kappa_low(compared, kappa, (top, 0)),
        bias=judged - mean.mean,
        confusion={
            row: {name: counts[label, rank] for rank, name in columns} for label, row in ranks
        },
        flip_rate=flip_rate(everything),
        unparseable_votes=sum(each.unreadable for each in everything),
        undecided=sum(v is None for v in (*values, *rest)),
        labels_mean=mean,
        judged_mean=judged,
        uncorrected=sum(v or 0.0 for v in rest) / len(rest) if rest else None,
        corrected=prediction_powered_mean(truth, seen, [v or 0.0 for v in rest]) if rest else None,
    )


@dataclass(frozen=True, slots=True)
class LabeledRow:
    """An answer with a person's label, or None.

    `reference` is for correctness, `sources` are for criteria, `nugget` is for nuggets.
    """

    question: str
    answer: str
    label: str | None
    reference: str | None = None
    sources: tuple[str, ...] = ()
    nugget: str = ""


def read_labels(path: Path, levels: tuple[str, ...], needs: str = "") -> list[LabeledRow]:
    """Read JSON lines of answers, some of them labeled by people with one of `levels`.

    Fields: `question`, `answer`, `label`; `reference` (null: there is no answer), `contexts`
    (texts) or `nugget`. A line needs the field `needs`.
    """
    records = Findings().sound(json_lines(plain_file(path)))
    rows = [_labeled_row(record, levels, needs) for record in records]
    if not any(row.label is not None for row in rows):
        words = ", ".join(levels).lower()
        raise DataError(f"has no line with a label; add 'label', by a person: {words}", file=path)
    return rows


def _labeled_row(record: Record, levels: tuple[str, ...], needs: str) -> LabeledRow:
    fields = record.fields
    for key in filter(None, ("question", "answer", needs)):
        if key not in fields:
            record.fail(f"has no {key!r}, which the judge needs; add it")
    contexts: Any = fields.get("contexts") or []
    if not isinstance(contexts, list) or not all(isinstance(each, str) for each in contexts):
        record.fail(f"'contexts' must be a list of texts, got {short_repr(contexts)}")
    label = fields.get("label")
    word = None if label is None else str(label).strip().upper()
    if word not in (None, *levels):
        known = ", ".join(levels).lower()
        record.fail(f"a label is one of {known}; got {short_repr(label)}")
    return LabeledRow(
        record.text("question"),
        record.text("answer"),
        word,
        record.text("reference") or None,
        tuple(contexts),
        record.text("nugget"),
    )


@dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """One calibration, a line of its file; the figures are those of `Calibration`.

    `kind` is `correctness`, `nuggets` or `criterion.NAME`; `prompts` are the ids of the prompts
    that decide about it. `questions` are hashes with the number of their labels.
    """

    kind: _Name
    judge: _Name
    votes: _Count
    prompts: tuple[str, ...]
    labelled: _Count
    agreement: Annotated[float, Field(strict=True, ge=0, le=1)]
    kappa: _Share | None
    questions: dict[str, _Count]
    kappa_low: _Share | None = None
    bias: _Share = 0.0
    created: str = ""


def question_hash(question: str) -> str:
    """The same for a question in other white space and case."""
    return text_hash(normalize(question))[:16]


def add_record(path: Path, record: CalibrationRecord) -> None:
    """Add a line; an earlier one of the same kind, judge and votes is replaced."""
    earlier = read_calibrations(path) if path.exists() else []
    own = (record.kind, record.judge, record.votes)
    kept = [each for each in earlier if (each.kind, each.judge, each.votes) != own]
    lines = (orjson.dumps(asdict(each)) for each in (*kept, record))
    write_file(path, b"".join(line + b"\n" for line in lines))


def read_calibrations(path: Path) -> list[CalibrationRecord]:
    """The records of a file; `DataError` names a line that is none."""
    if not path.is_file():
        raise DataError("no such file; make it with: assay judge calibrate --out", file=path)
    found = []
    for record in Findings().sound(json_lines(plain_file(path))):
        try:
            found.append(TypeAdapter(CalibrationRecord).validate_python(record.fields))
        except ValidationError as error:
            where = short_repr(error.errors()[0]["loc"])
            record.fail(f"is not a calibration record: {where}; write it with judge calibrate")
    return found


@dataclass(frozen=True, slots=True)
class CalibrationStatus:
    """Whether a judge was calibrated on some data, and by how much its mean is above people's."""

    calibrated: bool
    words: str
    bias: float = 0.0


def calibration_status(
    known: Sequence[CalibrationRecord],
    kind: str,
    judge: str,
    votes: int,
    prompts: Sequence[str],
    questions: Collection[str],
) -> CalibrationStatus:
    """Whether one of the `known` records is about this kind, judge, prompts and data."""
    hashes = set(map(question_hash, questions))
    same = [each for each in known if (each.kind, each.judge) == (kind, judge)]
    fitting = [each for each in same if (each.votes, each.prompts) == (votes, tuple(prompts))]
    if not same:
        why = "there is no calibration of it; make one with assay judge calibrate --out"
    elif not fitting:
        why = "its calibration was made with other prompts or another number of votes"
    elif (labels := sum(fitting[-1].questions.get(each, 0) for each in hashes)) < MIN_LABELS:
        why = f"only {labels} labels are about this data, at least {MIN_LABELS} are needed"
    elif (low := (record := fitting[-1]).kappa_low) is None or low < MIN_KAPPA:
        known_low = "unknown" if low is None else f"{low:.2f}"
        why = (
            f"the lower bound of its kappa is {known_low}, at least {MIN_KAPPA} is needed; label "
            "more answers, or choose another model"
        )
    else:
        words = (
            f"the judge {judge} was calibrated on {labels} labels of this data: agreement "
            f"{record.agreement:.2f}, kappa {record.kappa:.2f} (at least {low:.2f})"
        )
        return CalibrationStatus(True, words, record.bias)
    words = f"the judge {judge} was not calibrated on this data for {kind}: {why}"
    return CalibrationStatus(False, words)

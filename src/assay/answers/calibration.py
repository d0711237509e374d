"""Agreement of a judge with people, and means corrected by its known errors; and its files.

About three kinds of verdicts: whether answers are correct, ratings by a criterion, and which
nuggets answers state. `assay judge calibrate LABELS --out FILE` adds a line to FILE: which judge,
on which questions, how well it agreed. A gate on a judged figure says whether a line fits the judge
and the data. Questions are kept as hashes: a calibration may be shared where they may not.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist
from typing import Annotated, Any, Generic, NamedTuple, TypeVar

import numpy as np
import orjson
from numpy.typing import ArrayLike
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from assay.answers.criteria import Criterion, CriterionRating, rating_of
from assay.answers.judge import Judgment, Vote, correctness_values, flip_rate
from assay.answers.nuggets import SUPPORT_RANK, NuggetAssignment, Support
from assay.answers.references import Importance, Nugget
from assay.data.text_file import Record, plain_file, records, short_repr, write_file
from assay.errors import DataError, UsageError
from assay.metrics.statistics import (
    Estimate,
    cohen_kappa,
    estimate_mean,
    finite,
    weighted_kappa,
)
from assay.text import normalize, text_hash

MIN_LABELS = 30
"""Below this many labels the normal approximation is not reliable."""

MIN_KAPPA = 0.6
"""What the lower end of kappa must reach before a judge counts as calibrated ("substantial", Landis
and Koch 1977)."""

_RESAMPLES = 1000
_UNDECIDED = "undecided"
_CONFIDENCE = 0.95
_TRUTHS = {"true": True, "false": False}
_VOTES = {"true": Vote.TRUE, "false": Vote.FALSE, "unparseable": Vote.UNPARSEABLE}
_SAME_WORDS = {"TRUE": "YES", "FALSE": "NO"}
_HASH_LENGTH = 16
_Label = TypeVar("_Label")
_Said = TypeVar("_Said")
_Count = Annotated[int, Field(strict=True, ge=1)]
_Name = Annotated[str, StringConstraints(min_length=1)]
_Share = Annotated[float, Field(strict=True, ge=-1, le=1)]


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


@dataclass(frozen=True, slots=True)
class LabeledRow(Generic[_Label, _Said]):
    """An answer with a person's label, or None, and what a judge said if it was recorded.

    `reference` is for correctness, `sources` are for criteria.
    """

    question: str
    answer: str
    label: _Label | None
    recorded: _Said | None = None
    reference: str | None = None
    sources: tuple[str, ...] = ()


LabeledAnswer = LabeledRow[bool, Judgment]
LabeledRating = LabeledRow[str, CriterionRating]
_Row = TypeVar("_Row", bound=LabeledRow[Any, Any])


def _read_rows(path: Path, read: Callable[[Record], _Row], label: str) -> list[_Row]:
    rows = [read(record) for record in records(plain_file(path))]
    if not any(row.label is not None for row in rows):
        raise DataError(
            f"has no line with a label; add 'label', by a person, to some lines: {label}", file=path
        )
    return rows


def read_labels(path: Path) -> list[LabeledAnswer]:
    """Read JSON lines of answers, some of them labeled by people.

    Fields: `question`, `answer`, `reference` (null: there is no answer), `label`, and `verdict` or
    `verdicts` if a judge has judged already. The calibrated judge estimates the
    lines without a label.
    """
    return _read_rows(path, _labeled_answer, "true or false")


def _labeled_answer(record: Record) -> LabeledAnswer:
    given = _recorded(record, "verdict")
    if given is None and "reference" not in record.fields:
        raise record.refusal("has no 'reference'; add it, or null if there is no answer")
    label = record.fields.get("label")
    if label is not None and _word(label) not in _TRUTHS:
        raise record.refusal(f"'label' must be true or false, got {short_repr(label)}")
    return LabeledRow(
        record.text("question"),
        record.text("answer"),
        None if label is None else _TRUTHS[_word(label)],
        Judgment(tuple(_vote(record, each) for each in given)) if given else None,
        reference=record.text("reference") or None,
    )


def _recorded(record: Record, name: str) -> list[Any] | None:
    """What a judge said before, in the field `name` or its plural; else it needs question and
    answer.
    """
    given: Any = record.fields.get(f"{name}s", record.fields.get(name))
    if given == []:
        raise record.refusal(f"'{name}s' must hold at least one {name}, got []")
    if given is not None:
        return given if isinstance(given, list) else [given]
    for key in ("question", "answer"):
        if key not in record.fields:
            raise record.refusal(f"has no {key!r}, which the judge needs; add it, or a {name!r}")
    return None


def _vote(record: Record, value: Any) -> Vote:
    vote = _VOTES.get(_word(value))
    if vote is None:
        raise record.refusal(f"a verdict is true, false or 'unparseable', got {short_repr(value)}")
    return vote


def _word(value: object) -> str:
    return str(value).strip().lower()


def read_rating_labels(path: Path, criterion: Criterion) -> list[LabeledRating]:
    """Read JSON lines of answers, some of them labeled by people with a level of the criterion.

    Fields: `question`, `answer`, `contexts` (texts), `label`, and `rating` or `ratings` if a judge
    has rated already.
    """

    def read(record: Record) -> LabeledRating:
        given = _recorded(record, "rating")
        levels = [_level(record, each, criterion) for each in given or ()]
        contexts: Any = record.fields.get("contexts") or []
        if not isinstance(contexts, list) or not all(isinstance(each, str) for each in contexts):
            raise record.refusal(f"'contexts' must be a list of texts, got {short_repr(contexts)}")
        label = record.fields.get("label")
        return LabeledRow(
            record.text("question"),
            record.text("answer"),
            None if label is None else _level(record, label, criterion),
            rating_of(criterion, levels) if levels else None,
            sources=tuple(contexts),
        )

    return _read_rows(path, read, f"one of {', '.join(criterion.levels)}")


def _level(record: Record, value: Any, criterion: Criterion) -> str:
    word = str(value).strip().upper()
    word = _SAME_WORDS.get(word, word) if "YES" in criterion.levels else word
    if word not in criterion.levels:
        levels = ", ".join(criterion.levels)
        raise record.refusal(f"a level is one of {levels}, got {short_repr(value)}")
    return word


class LabeledNugget(NamedTuple):
    """A nugget, an answer, and whether a person finds it stated there."""

    question: str
    answer: str
    nugget: Nugget
    label: Support


def read_nugget_labels(path: Path) -> list[LabeledNugget]:
    """Read JSON lines of `question`, `answer`, `nugget` and `label`: support, partial or none."""

    def read(record: Record) -> LabeledNugget:
        for key in ("question", "answer", "nugget", "label"):
            if key not in record.fields:
                raise record.refusal(f"has no {key!r}; a line has question, answer, nugget, label")
        label = _word(record.fields["label"])
        if label not in tuple(Support):
            got = short_repr(record.fields["label"])
            raise record.refusal(f"'label' must be support, partial or none, got {got}")
        try:
            nugget = Nugget(str(record.number), record.text("nugget"), Importance.VITAL)
        except ValidationError as error:
            raise record.refusal(f"'nugget': {error.errors()[0]['msg']}") from None
        return LabeledNugget(record.text("question"), record.text("answer"), nugget, Support(label))

    rows = [read(record) for record in records(plain_file(path))]
    if not rows:
        raise DataError("has no line with a label", file=path)
    return rows


@dataclass(frozen=True, slots=True)
class CalibrationRecord:
    """One calibration.

    Attributes:
        kind: what was judged: `correctness`, `nuggets`, or `criterion.NAME`.
        judge: the model, `KIND:MODEL`.
        votes: how many votes it had.
        prompts: the ids of the prompts that decide about this kind.
        labelled: how many labels people gave.
        agreement: the share on which judge and people agree.
        kappa: the same beyond chance; None if it does not exist.
        kappa_low: the lower end of its 95% interval.
        bias: by how much the judge's mean is above that of the labels; gates subtract it.
        questions: hashes of the labeled questions, with the number of their labels.
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
    assay: str = ""

    def labels_on(self, questions: Collection[str]) -> int:
        """How many of its labels are about these questions."""
        known = {question_hash(each) for each in questions}
        return sum(number for digest, number in self.questions.items() if digest in known)


def question_hash(question: str) -> str:
    """The same for a question in other white space and case."""
    return text_hash(normalize(question))[:_HASH_LENGTH]


def make_record(
    kind: str,
    judge: str,
    votes: int,
    prompts: Sequence[str],
    questions: Sequence[str],
    agreement: float,
    kappa: float | None,
    kappa_low: float | None,
    bias: float,
) -> CalibrationRecord:
    """A record of now; `questions` are those with a label, once for each label."""
    return CalibrationRecord(
        kind=kind,
        judge=judge,
        votes=votes,
        prompts=tuple(prompts),
        labelled=len(questions),
        agreement=agreement,
        kappa=kappa,
        kappa_low=kappa_low,
        bias=bias,
        questions=dict(Counter(question_hash(each) for each in questions)),
        created=datetime.now(UTC).date().isoformat(),
        assay=version("agent-assay"),
    )


def add_record(path: Path, record: CalibrationRecord) -> None:
    """Add a line; an earlier one of the same kind, judge and votes is replaced."""
    earlier = read_calibrations(path) if path.exists() else []
    kept = [each for each in earlier if _key(each) != _key(record)]
    lines = (orjson.dumps(asdict(each)) for each in (*kept, record))
    write_file(path, b"".join(line + b"\n" for line in lines))


def _key(record: CalibrationRecord) -> tuple[str, str, int]:
    return record.kind, record.judge, record.votes


def read_calibrations(path: Path) -> list[CalibrationRecord]:
    """The records of a file; `DataError` names a line that is none."""
    if not path.is_file():
        raise DataError("no such file; make it with: assay judge calibrate --out", file=path)
    return [_read(record) for record in records(plain_file(path))]


def _read(record: Record) -> CalibrationRecord:
    try:
        return TypeAdapter(CalibrationRecord).validate_python(record.fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise record.refusal(
            f"is not a calibration record ({short_repr(where)}: {first['msg']}); write it "
            "with: assay judge calibrate --out"
        ) from None


@dataclass(frozen=True, slots=True)
class CalibrationStatus:
    """Whether a judge was calibrated on some data, and what that found.

    `bias` is by how much its mean is above that of people's labels.
    """

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
    """Look for the record that fits.

    Parameters:
        known: the records of a file, or none.
        kind: what the figure is about.
        judge: the model's name.
        votes: how many votes it has.
        prompts: the ids of the prompts that decide.
        questions: the texts of the data's questions.
    """

    def no(why: str) -> CalibrationStatus:
        words = f"the judge {judge} was not calibrated on this data for {kind}: {why}"
        return CalibrationStatus(False, words)

    of_kind = [each for each in known if each.kind == kind]
    if not of_kind:
        return no("there is no calibration; make one with assay judge calibrate --out")
    of_judge = [each for each in of_kind if each.judge == judge]
    if not of_judge:
        others = ", ".join(dict.fromkeys(each.judge for each in of_kind))
        return no(f"the file has one of {others}")
    same = [each for each in of_judge if (each.votes, each.prompts) == (votes, tuple(prompts))]
    if not same:
        return no("its calibration was made with other prompts or another number of votes")
    record = same[-1]
    number = record.labels_on(questions)
    if not number:
        return no(f"none of its {record.labelled} labels is about a question of this data")
    if number < MIN_LABELS:
        return no(f"only {number} labels are about this data, at least {MIN_LABELS} are needed")
    if record.kappa is None or record.kappa_low is None:
        return no("its calibration has no kappa; label right and wrong answers, calibrate again")
    if record.kappa_low < MIN_KAPPA:
        return no(
            f"its kappa, {record.kappa:.2f}, may be as low as {record.kappa_low:.2f}, and at least "
            f"{MIN_KAPPA} is needed; label more answers, or choose another model"
        )
    words = (
        f"the judge {judge} was calibrated on {number} labels of this data: agreement "
        f"{record.agreement:.2f}, kappa {record.kappa:.2f} (at least {record.kappa_low:.2f})"
    )
    return CalibrationStatus(True, words, record.bias)

"""Files of calibrations: answers that people labeled, and what a calibration found.

`assay judge calibrate LABELS --out FILE` adds a line to FILE: which judge, on which questions, how
well it agreed. A gate on a judged figure says whether a line fits the judge and the data. Questions
are kept as hashes: a calibration may be shared where the questions may not.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import orjson
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from assay.answers.calibration import MIN_KAPPA, MIN_LABELS
from assay.answers.criteria import Criterion, CriterionRating, rating_of
from assay.answers.judge import Judgment, Vote
from assay.answers.nuggets import Support
from assay.answers.references import Importance, Nugget
from assay.data.text_file import Record, plain_file, records, short_repr, write_file
from assay.errors import DataError
from assay.text import normalize, text_hash

_TRUTHS = {"true": True, "false": False}
_VOTES = {"true": Vote.TRUE, "false": Vote.FALSE, "unparseable": Vote.UNPARSEABLE}
_SAME_WORDS = {"TRUE": "YES", "FALSE": "NO"}
_HASH_LENGTH = 16
_Count = Annotated[int, Field(strict=True, ge=1)]
_Name = Annotated[str, StringConstraints(min_length=1)]


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
    rows = [_labeled_answer(record) for record in records(plain_file(path))]
    if not any(row.label is not None for row in rows):
        raise DataError(
            "has no line with a label; add 'label': true or false, by a person, to some lines",
            file=path,
        )
    return rows


def _labeled_answer(record: Record) -> LabeledAnswer:
    given = _recorded(record, "verdict")
    if given is None and "reference" not in record.fields:
        raise record.refusal("has no 'reference'; add it, or null if there is no answer")
    label = record.fields.get("label")
    if label is not None and _word(label) not in _TRUTHS:
        raise record.refusal(f"'label' must be true or false, got {short_repr(label)}")
    return LabeledAnswer(
        question=record.text("question"),
        answer=record.text("answer"),
        reference=record.text("reference") or None,
        label=None if label is None else _TRUTHS[_word(label)],
        recorded=Judgment(tuple(_vote(record, each) for each in given)) if given else None,
    )


def _recorded(record: Record, name: str) -> list[Any] | None:
    """What a judge said before, in the field `name` or its plural; where it did not, it needs a
    question and an answer.
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
    rows = [_labeled_rating(record, criterion) for record in records(plain_file(path))]
    if not any(row.label is not None for row in rows):
        levels = ", ".join(criterion.levels)
        raise DataError(
            f"has no line with a label; add 'label', by a person, to some lines: one of {levels}",
            file=path,
        )
    return rows


def _labeled_rating(record: Record, criterion: Criterion) -> LabeledRating:
    given = _recorded(record, "rating")
    levels = [_level(record, each, criterion) for each in given or ()]
    contexts: Any = record.fields.get("contexts") or []
    if not isinstance(contexts, list) or not all(isinstance(each, str) for each in contexts):
        raise record.refusal(f"'contexts' must be a list of texts, got {short_repr(contexts)}")
    label = record.fields.get("label")
    return LabeledRating(
        question=record.text("question"),
        answer=record.text("answer"),
        sources=tuple(contexts),
        label=None if label is None else _level(record, label, criterion),
        recorded=rating_of(criterion, levels) if levels else None,
    )


def _level(record: Record, value: Any, criterion: Criterion) -> str:
    word = str(value).strip().upper()
    word = _SAME_WORDS.get(word, word) if "YES" in criterion.levels else word
    if word not in criterion.levels:
        levels = ", ".join(criterion.levels)
        raise record.refusal(f"a level is one of {levels}, got {short_repr(value)}")
    return word


@dataclass(frozen=True, slots=True)
class LabeledNugget:
    """A nugget, an answer, and whether a person finds it stated there."""

    question: str
    answer: str
    nugget: Nugget
    label: Support


def read_nugget_labels(path: Path) -> list[LabeledNugget]:
    """Read JSON lines of `question`, `answer`, `nugget` and `label`: support, partial or none."""
    rows = [_labeled_nugget(record) for record in records(plain_file(path))]
    if not rows:
        raise DataError("has no line with a label", file=path)
    return rows


def _labeled_nugget(record: Record) -> LabeledNugget:
    for key in ("question", "answer", "nugget", "label"):
        if key not in record.fields:
            raise record.refusal(f"has no {key!r}; a line has question, answer, nugget and label")
    label = _word(record.fields["label"])
    if label not in tuple(Support):
        raise record.refusal(
            f"'label' must be support, partial or none, got {short_repr(record.fields['label'])}"
        )
    try:
        nugget = Nugget(str(record.number), record.text("nugget"), Importance.VITAL)
    except ValidationError as error:
        raise record.refusal(f"'nugget': {error.errors()[0]['msg']}") from None
    return LabeledNugget(record.text("question"), record.text("answer"), nugget, Support(label))


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
        kappa: the same beyond chance; None where it does not exist.
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
    kappa: Annotated[float, Field(strict=True, ge=-1, le=1)] | None
    questions: dict[str, _Count]
    kappa_low: Annotated[float, Field(strict=True, ge=-1, le=1)] | None = None
    bias: Annotated[float, Field(strict=True, ge=-1, le=1)] = 0.0
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

"""What a calibration found, kept in a file: which judge, on which questions, how well it agreed.

`assay judge calibrate --out FILE` adds a line; a gate on a judged figure says whether a line fits
the judge and the data. Questions are kept as hashes: a calibration may be shared where the
questions may not.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import orjson

from assay.data.text_file import Record, plain_file, records, short_repr, write_file
from assay.errors import DataError
from assay.measure.answers.calibration import MIN_LABELS
from assay.text import normalize, text_hash

_HASH_LENGTH = 16


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
        questions: hashes of the labeled questions, with the number of their labels.
    """

    kind: str
    judge: str
    votes: int
    prompts: tuple[str, ...]
    labelled: int
    agreement: float
    kappa: float | None
    questions: Mapping[str, int]
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
    fields = record.fields
    try:
        kappa, questions = fields["kappa"], fields["questions"]
        return CalibrationRecord(
            kind=record.identifier("kind"),
            judge=record.identifier("judge"),
            votes=_count(fields["votes"]),
            prompts=tuple(map(str, fields["prompts"])),
            labelled=_count(fields["labelled"]),
            agreement=_number(fields["agreement"], 0, 1),
            kappa=None if kappa is None else _number(kappa, -1, 1),
            questions={str(each): _count(one) for each, one in questions.items()},
            created=record.text("created"),
            assay=record.text("assay"),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise record.refusal(
            f"is no calibration ({short_repr(str(error))}); write it with: assay judge calibrate "
            "--out"
        ) from None


def _number(value: object, low: float, high: float) -> float:
    """As it was written: nothing follows from a figure that is none, such as a kappa of "nan"."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise ValueError(f"{value!r} is no number from {low:g} to {high:g}")
    return float(value)


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{value!r} is no number of labels or votes")
    return value


@dataclass(frozen=True, slots=True)
class CalibrationStatus:
    """Whether a judge was calibrated on some data, and what that found, in words."""

    calibrated: bool
    words: str


def calibration_status(
    known: Sequence[CalibrationRecord],
    kind: str,
    judge: str,
    votes: int,
    prompts: Sequence[str],
    questions: Collection[str],
) -> CalibrationStatus:
    """Look for the record that fits.

    Args:
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
    if record.kappa is not None and record.kappa <= 0:
        return no(f"it agrees with people no more than chance does (kappa {record.kappa:.2f})")
    kappa = "" if record.kappa is None else f", kappa {record.kappa:.2f}"
    words = (
        f"the judge {judge} was calibrated on {number} labels of this data: agreement "
        f"{record.agreement:.2f}{kappa}"
    )
    return CalibrationStatus(True, words)

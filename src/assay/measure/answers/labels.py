"""Answers that people judged, one JSON object a line, to hold a judge against."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.data.text_file import Record, plain_file, records, shown
from assay.errors import DataError
from assay.measure.answers.verdicts import Judgment, Vote

_TRUTHS = {"true": True, "false": False}
_VOTES = {"true": Vote.TRUE, "false": Vote.FALSE, "unparseable": Vote.UNPARSEABLE}


@dataclass(frozen=True, slots=True)
class LabelledAnswer:
    """`label` is None where nobody judged it; `recorded` is what a judge said at another time."""

    question: str
    answer: str
    reference: str | None
    label: bool | None
    recorded: Judgment | None


def read_labels(path: Path) -> list[LabelledAnswer]:
    """Fields `question`, `answer`, `reference` (null: there is no answer), `label`, and `verdict`
    or `verdicts` where a judge has spoken already. Lines without a label are the larger set.
    """
    rows = [_row(record) for record in records(plain_file(path))]
    if not any(row.label is not None for row in rows):
        raise DataError(
            "holds no line with a label; give some lines 'label': true or false, by a person",
            file=path,
        )
    return rows


def _row(record: Record) -> LabelledAnswer:
    recorded = _recorded(record)
    if recorded is None:
        for key in ("question", "answer"):
            if key not in record.fields:
                raise record.refusal(f"has no {key!r}, which a judge needs; or give a 'verdict'")
        if "reference" not in record.fields:
            raise record.refusal("has no 'reference'; null says that there is no right answer")
    label = record.fields.get("label")
    return LabelledAnswer(
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
        raise record.refusal(f"a verdict is true, false or 'unparseable', got {shown(value)}")
    return vote


def _truth(record: Record, key: str, value: Any) -> bool:
    truth = _TRUTHS.get(str(value).strip().lower())
    if truth is None:
        raise record.refusal(f"{key!r} must be true or false, got {shown(value)}")
    return truth

"""Nuggets as a table for a spreadsheet, and the table with people's changes read back."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from assay.answer.nuggets.nugget_file import (
    Nugget,
    NuggetMaker,
    QuestionNuggets,
    check_nugget,
    replace_nuggets,
)
from assay.data.table import TableRow, read_table
from assay.data.text_file import short_repr, write_file
from assay.errors import DataError

COLUMNS = ("query_id", "query", "nugget_id", "importance", "nugget", "by", "documents")
# Spreadsheets run a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t")


def write_table(path: Path, questions: Sequence[QuestionNuggets]) -> None:
    """Write one row for each nugget."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for question in questions:
        for nugget in question.nuggets:
            row = (
                question.query_id,
                question.query,
                nugget.id,
                nugget.importance.value,
                nugget.text,
                nugget.by.value,
                "; ".join(nugget.documents),
            )
            writer.writerow(map(_cell, row))
    write_file(path, text.getvalue().encode("utf-8", "replace"))


def _cell(value: str) -> str:
    return f"'{value}" if value.startswith(_FORMULA) else value


def read_edits(path: Path, questions: Sequence[QuestionNuggets]) -> list[QuestionNuggets]:
    """The questions with the nuggets of an edited table.

    A row whose text or importance was changed, and one that was added (without a `nugget_id`), is a
    person's; one that was deleted is gone. Everything else stays as it was made.

    Raises:
        DataError: a row is wrong, names an unknown question or nugget, or repeats one.
    """
    known = {question.query_id: question for question in questions}
    before = {nugget.id: nugget for question in questions for nugget in question.nuggets}
    after: dict[str, list[Nugget]] = {query_id: [] for query_id in known}
    seen: set[str] = set()
    for row in read_table(path):
        if isinstance(row, DataError):
            raise row
        query_id = _text(row, "query_id")
        if query_id not in known:
            raise row.refusal(
                f"query {query_id!r} is not in the nuggets file; add it to the data set and draw "
                "its nuggets first"
            )
        nugget = _edited(row, before)
        if nugget.id and nugget.id in seen:
            raise row.refusal(f"nugget {nugget.id!r} is in the table twice; delete one of the rows")
        seen.add(nugget.id)
        after[query_id].append(nugget)
    if not any(after.values()):
        raise DataError("has no nuggets; a table needs the rows that are to be kept", file=path)
    return [replace_nuggets(question, after[question.query_id]) for question in questions]


def _edited(row: TableRow, before: dict[str, Nugget]) -> Nugget:
    name = _text(row, "nugget_id", optional=True)
    try:
        importance, text = check_nugget(_text(row, "nugget"), _text(row, "importance"))
    except ValueError as error:
        raise row.refusal(str(error).replace("'text'", "'nugget'")) from None
    if not name:
        return Nugget("", text, importance, NuggetMaker.HUMAN)
    if name not in before:
        raise row.refusal(f"nugget {name!r} is not in the file; a new one has no nugget_id")
    old = before[name]
    if (old.text, old.importance) == (text, importance):
        return old
    return Nugget(name, text, importance, NuggetMaker.HUMAN, old.documents)


def _text(row: TableRow, key: str, *, optional: bool = False) -> str:
    value = row.fields.get(key)
    if value is None and not optional:
        raise row.refusal(f"has no {key!r}; the columns are {', '.join(COLUMNS)}")
    text = "" if value is None else str(value).strip()
    if not text and not optional:
        raise row.refusal(f"{key!r} is empty, got {short_repr(value)}")
    return text[1:] if text.startswith("'") and text[1:].startswith(_FORMULA) else text

"""The list of proposals of `assay data rekey`: a CSV that people read, correct and hand back."""

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from assay.data.rekey import RekeyMatch
from assay.data.table import TableRow, read_table
from assay.data.text_file import short_repr, write_file
from assay.errors import DataError

COLUMNS = ("accept", "how", "score", "old_id", "new_id", "judgments", "old_text", "new_text")
_YES = ("yes", "y", "1", "true", "x", "ja", "oui")
_NO = ("no", "n", "0", "false", "", "nein", "non")
_FORMULAS = ("=", "+", "-", "@", "\t")


def write_matches(path: Path, matches: Iterable[RekeyMatch]) -> None:
    """Write the list, surely right ones accepted; replaced as a whole. Raises `DataError`."""
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(COLUMNS)
    for each in matches:
        accept = "yes" if each.sure else "no" if not each.new_id else ""
        texts = (_harmless(each.old_text), _harmless(each.new_text))
        score = f"{each.score:.3f}"
        ids = (each.old_id, each.new_id)
        table.writerow((accept, each.how, score, *ids, each.judgments, *texts))
    write_file(path, stream.getvalue().encode("utf-8", "surrogatepass"))


def read_accepted(path: Path) -> list[tuple[str, str]]:
    """The pairs of old and new ids that the list accepts.

    Raises:
        DataError: a row is wrong, or undecided; the message names its line.
    """
    accepted: list[tuple[str, str]] = []
    for row in read_table(path):
        if isinstance(row, DataError):
            raise row
        if _decided(row):
            accepted.append((_id(row, "old_id"), _id(row, "new_id")))
    return accepted


def _decided(row: TableRow) -> bool:
    if "accept" not in row.fields:
        raise row.refusal(f"has no column 'accept'; the columns are {', '.join(COLUMNS)}")
    word = str(row.fields["accept"] or "").strip().casefold()
    if word not in (*_YES, *_NO):
        raise row.refusal(f"'accept' must be yes or no, got {short_repr(row.fields['accept'])}")
    return word in _YES


def _id(row: TableRow, name: str) -> str:
    value = str(row.fields.get(name) or "")
    if not value:
        raise row.refusal(f"is accepted and has no {name!r}; write it, or write no")
    return value


def _harmless(text: str) -> str:
    """A text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(_FORMULAS) else text

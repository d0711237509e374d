"""One JSON object on each line, found by its id: the form of documents, queries and answers."""

import reprlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from sys import intern
from typing import Any, TypeVar

import orjson

from assay.data.findings import Findings
from assay.data.text_file import TextFile
from assay.errors import DataError

Item = TypeVar("Item")

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 60


@dataclass(frozen=True, slots=True)
class Record:
    """The fields of one line, which remember where they stood for the sake of messages."""

    file: TextFile
    line: int
    fields: dict[str, Any]

    def identifier(self, key: str) -> str:
        """Ids are interned: judgments repeat them by the million."""
        if key not in self.fields:
            found = shown(list(self.fields))
            raise self.refusal(f"has no {key!r}, only {found}; give every line its {key!r}")
        value = self.fields[key]
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str) or not value.strip():
            raise self.refusal(f"{key!r} must be text that is not empty, got {shown(value)}")
        return intern(value)

    def text(self, key: str) -> str:
        """Nothing and null are empty text, as exporters write them."""
        value = self.fields.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.refusal(f"{key!r} must be text, got {shown(value)}")
        return value

    def refusal(self, message: str) -> DataError:
        return DataError(message, file=self.file.label, line=self.line)


def records(file: TextFile) -> Iterator[Record]:
    for line, text in file.lines():
        yield Record(file, line, _parse(file, line, text))


def read_by_id(
    file: TextFile, key: str, build: Callable[[Record, str], Item], findings: Findings
) -> dict[str, Item]:
    """A line that says again what an earlier one said is noted; one that says otherwise is refused,
    because no score can depend on which of two documents was meant."""
    found: dict[str, Item] = {}
    for record in records(file):
        identifier = record.identifier(key)
        item = build(record, identifier)
        earlier = found.setdefault(identifier, item)
        if earlier is item:
            continue
        if not _same(earlier, item):
            raise _conflict(record, key, identifier)
        what = f"{file.name}: lines that repeat an earlier one word for word (kept once)"
        findings.note(what, f"{identifier!r} on line {record.line}")
    return found


def shown(value: object) -> str:
    """A value for a message: short and shallow, whatever was in the file."""
    return _SHORT.repr(value)


def _parse(file: TextFile, line: int, text: str) -> dict[str, Any]:
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        message = f"is not valid JSON: {error.msg} (column {error.colno}); mend or delete the line"
        raise DataError(message, file=file.label, line=line) from None
    if not isinstance(fields, dict):
        message = f"must be one JSON object, as {{...}}, got {shown(fields)}"
        raise DataError(message, file=file.label, line=line)
    return fields


def _same(a: object, b: object) -> bool:
    try:
        return a == b
    except RecursionError:  # metadata nested a thousand deep, which JSON allows
        return False


def _conflict(record: Record, key: str, identifier: str) -> DataError:
    first = next(r.line for r in records(record.file) if r.identifier(key) == identifier)
    return record.refusal(
        f"{key} {identifier!r} was used on line {first} for something else; "
        "ids must be unique: rename or delete one of the two"
    )

"""Conditions on the metadata of documents, all of which must hold.

{"year": 2020}                        equal; a list: one of them
{"date": {"gte": "2024-01-01"}}       in a range of numbers, or of dates (UTC if no zone is named)
year>=2019, type=recipe               the short form
"""

import operator
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from assay.data.text_file import short_repr
from assay.errors import UsageError
from assay.net.json import parse_json
from assay.text import parse_time

_COMPARE = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_SHORT = re.compile(r"\s*([^<>=!\s{}\[\]\"]+)\s*(>=|<=|>|<|=)\s*([^,<>=]*[^,<>=\s])\s*")
_SIGNS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}

_Bound = float | datetime


@dataclass(frozen=True, slots=True)
class FilterCondition:
    """One of `values`, or within `bounds`, which are all numbers or all dates."""

    field: str
    values: tuple[str | float, ...] = ()
    bounds: Mapping[str, _Bound] | None = None

    def holds(self, metadata: Mapping[str, object]) -> bool:
        """Whether metadata meets the condition; of a list, any of its values may."""
        value = metadata.get(self.field)
        found: list[Any] = value if isinstance(value, list) else [value]
        if self.bounds is None:  # in Python True equals 1, which a user does not mean
            wanted = [(type(one) is bool, one) for one in self.values]
            return any((type(one) is bool, one) in wanted for one in found)
        dated = isinstance(next(iter(self.bounds.values())), datetime)
        comparable = map(parse_date if dated else _number, found)
        return any(
            one is not None
            and all(_COMPARE[name](one, bound) for name, bound in self.bounds.items())
            for one in comparable
        )


def meets(conditions: tuple[FilterCondition, ...], metadata: Mapping[str, object]) -> bool:
    """Whether metadata meets all conditions."""
    return all(one.holds(metadata) for one in conditions)


def parse_filter(text: str) -> Mapping[str, object]:
    """The JSON of a filter, or its short form: `date>=2024-01-01, type=recipe`."""
    if not text.lstrip().startswith("{"):
        return _short_form(text)
    try:
        found: dict[str, object] = parse_json(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"filter {short_repr(text)} is not JSON: {error}") from None
    return found


def _short_form(text: str) -> dict[str, object]:
    found: dict[str, object] = {}
    for part in text.split(","):
        field, sign, value = match.groups() if (match := _SHORT.fullmatch(part)) else ("", "", "")
        with suppress(orjson.JSONDecodeError):  # 2024 is a number, `true` a truth value
            known = parse_json(value)
            value = known if isinstance(known, int | float | str) else value
        bounds = found.setdefault(field, {} if sign in _SIGNS else value)
        if match and isinstance(bounds, dict) and sign in _SIGNS and _SIGNS[sign] not in bounds:
            bounds[_SIGNS[sign]] = value
        elif not match or bounds is not value:
            raise UsageError(
                f"filter {text!r}: {part.strip()!r} is not FIELD=VALUE, or a range such as "
                'year>=2019,year<2024; other values are JSON: {"type": ["a", "b"]}'
            )
    return found


def conditions(filters: Mapping[str, object] | None) -> tuple[FilterCondition, ...]:
    """The conditions of a filter. Raises `UsageError` for one that no value could meet."""
    return tuple(_condition(field, value) for field, value in (filters or {}).items())


def _condition(field: str, value: object) -> FilterCondition:
    if isinstance(value, Mapping):
        for kind in (_number, parse_date):  # never mixed: a number is not before a date
            bounds = {name: kind(bound) for name, bound in value.items() if name in _COMPARE}
            if value and len(bounds) == len(value) and None not in bounds.values():
                return FilterCondition(field, bounds=bounds)  # type: ignore[arg-type]
    else:
        values: Sequence[Any] = value if isinstance(value, list | tuple) else [value]
        if values and all(isinstance(one, str | int | float) for one in values):
            return FilterCondition(field, tuple(values))
    raise UsageError(
        f"filter {field!r} must be a value, a list of values, or a range of gt, gte, lt, lte such "
        f'as {{"gte": 2019}} or {{"lt": "2024-01-31"}}; got {short_repr(value)}'
    )


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def parse_date(value: object) -> datetime | None:
    """A day, or a time of it, in ISO 8601; None for anything else."""
    try:
        return parse_time(value) if isinstance(value, str) else None
    except ValueError:
        return None

"""Conditions on metadata, independent of the engine.

{"year": 2020}                    equal
{"year": [2019, 2020]}            one of them
{"year": {"gte": 2019, "lt": 2021}}   in a range
{"date": {"gte": "2024-01-01"}}   of dates or times in ISO 8601, in UTC where they name no zone
"""

import json
import math
import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from assay.data.text_file import short_repr
from assay.errors import UsageError
from assay.net.json import parse_json
from assay.text import parse_time

_WITHIN = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_BOUNDS = set(_WITHIN)
# What the engines take for a date in a text: a zone stands behind seconds alone.
_DATE = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?:(:\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d(?::?\d\d)?)?)?)?",
    re.ASCII,
)
_SHORT = re.compile(r"\s*([^<>=!\s{}\[\]\"]+)\s*(>=|<=|>|<|=)([^,<>=]+)")
_SIGNS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


@dataclass(frozen=True, slots=True)
class FilterCondition:
    """`key` is a path in a point's payload. `values` (any of them) or `bounds`, never both."""

    key: str
    values: tuple[str | int | bool, ...] = ()
    bounds: Mapping[str, float] | Mapping[str, datetime] | None = None


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
        match = _SHORT.fullmatch(part)
        if match is None:
            raise UsageError(
                f"filter {text!r}: {part.strip()!r} is not FIELD=VALUE or FIELD>=VALUE (or >, <, "
                'with commas between several); other values are JSON: {"type": ["a", "b"]}'
            )
        field, sign, value = match[1], match[2], _value(match[3].strip())
        bounds = found.setdefault(field, {} if sign in _SIGNS else value)
        if sign in _SIGNS and isinstance(bounds, dict) and _SIGNS[sign] not in bounds:
            bounds[_SIGNS[sign]] = value
        elif sign in _SIGNS or bounds is not value:
            raise UsageError(
                f"filter {text!r} has two conditions on {field!r} that do not form a "
                "range, such as year>=2019,year<2024"
            )
    return found


def _value(text: str) -> object:
    """`2024` is a number, `true` a truth value, and everything else a text."""
    try:
        value = parse_json(text)
    except orjson.JSONDecodeError:  # NaN too: it is no number to filter by
        return text
    return value if isinstance(value, int | float | str) else text


def conditions(filters: Mapping[str, object] | None) -> tuple[FilterCondition, ...]:
    """The conditions of a filter, all of which must hold."""
    return tuple(_condition(field, value) for field, value in (filters or {}).items())


def _condition(field: str, value: object) -> FilterCondition:
    # Quoted, because a dot in a field's name is not a step into it.
    key = f"metadata.{json.dumps(field, ensure_ascii=False)}"
    if isinstance(value, Mapping):
        return FilterCondition(key, bounds=_bounds(field, value))
    several = isinstance(value, Sequence) and not isinstance(value, str)
    values: Sequence[Any] = value if several else [value]  # type: ignore[assignment]
    if not values or not _alike(values):
        raise UsageError(
            f"filter {field!r} must be a string, a number, true or false, a list of strings or of "
            f'integers, or a range such as {{"gte": 2019}}; got {value!r}'
        )
    _require_numbers(field, values)
    if isinstance(values[0], float):
        return FilterCondition(key, bounds={"gte": values[0], "lte": values[0]})
    return FilterCondition(key, values=tuple(values))


def _alike(values: Sequence[Any]) -> bool:
    """Engines take a list of texts or of integers; the rest only alone."""
    kinds = {type(value) for value in values}
    return kinds in ({str}, {int}) or (len(values) == 1 and kinds <= {bool, float})


def _bounds(field: str, value: Mapping[Any, Any]) -> Mapping[str, float] | Mapping[str, datetime]:
    known = bool(value) and set(value) <= _BOUNDS
    if known and all(type(bound) in (int, float) for bound in value.values()):
        _require_numbers(field, value.values())
        return {name: float(bound) for name, bound in value.items()}
    dates = {name: at for name, bound in value.items() if (at := parse_date(bound)) is not None}
    if not known or len(dates) < len(value):
        raise UsageError(
            f"filter {field!r}: a range has gt, gte, lt or lte with a number each, or with a date "
            f"such as '2024-01-31' each; got {value!r}"
        )
    return dates


def _require_numbers(field: str, values: Iterable[Any]) -> None:
    """Engines hold integers of 64 bits, and compare nothing with NaN or infinity."""
    for each in values:
        # The parser makes a float of an integer beyond 64 bits.
        whole = isinstance(each, int) or (isinstance(each, float) and each.is_integer())
        fits = not whole or -(2**63) <= each < 2**63
        if not fits or (isinstance(each, float) and not math.isfinite(each)):
            raise UsageError(
                f"filter {field!r}: a number must be finite, and an integer one of 64 bits; "
                f"got {short_repr(each)}"
            )


def parse_date(value: object) -> datetime | None:
    """A day, or a time of it, in ISO 8601 as the engines read it; None for anything else."""
    match = _DATE.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    day, minutes, seconds, fraction, zone = (part or "" for part in match.groups())
    if "t" in match[0] and len(zone) in (0, len("+01")):
        return None
    try:
        return parse_time(f"{day}T{minutes or '00:00'}{seconds}{fraction[:7]}{zone.upper()}")
    except ValueError:  # the 31st of February
        return None


def holds(condition: FilterCondition, metadata: Mapping[str, object]) -> bool:
    """Whether metadata meets a condition, for a search in memory."""
    value = metadata.get(json.loads(condition.key.removeprefix("metadata.")))
    found: list[Any] = value if isinstance(value, list) else [value]
    bounds = condition.bounds
    if bounds is None:  # true is not 1, and 2020.0 not 2020, to an engine
        return any(
            type(one) is type(wanted) and one == wanted
            for one in found
            for wanted in condition.values
        )
    dated = any(isinstance(bound, datetime) for bound in bounds.values())
    values = map(parse_date, found) if dated else (x for x in found if type(x) in (int, float))
    return any(
        value is not None and all(_WITHIN[name](value, bound) for name, bound in bounds.items())
        for value in values
    )


def as_texts(bounds: Mapping[str, float] | Mapping[str, datetime]) -> dict[str, str] | None:
    """Dates as the engines take them; None for numbers."""
    texts = {name: at.isoformat() for name, at in bounds.items() if isinstance(at, datetime)}
    return texts or None

"""Conditions on metadata, independent of the engine.

{"year": 2020}                    equal
{"year": [2019, 2020]}            one of them
{"year": {"gte": 2019, "lt": 2021}}   in a range
"""

import json
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.errors import UsageError

_WITHIN = {"gt": operator.gt, "gte": operator.ge, "lt": operator.lt, "lte": operator.le}
_BOUNDS = set(_WITHIN)


@dataclass(frozen=True, slots=True)
class FilterCondition:
    """`key` is a path in a point's payload. `values` (any of them) or `bounds`, never both."""

    key: str
    values: tuple[str | int | bool, ...] = ()
    bounds: Mapping[str, float] | None = None


def conditions(filters: Mapping[str, object] | None) -> tuple[FilterCondition, ...]:
    """All of them must hold."""
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
    if isinstance(values[0], float):
        return FilterCondition(key, bounds={"gte": values[0], "lte": values[0]})
    return FilterCondition(key, values=tuple(values))


def _alike(values: Sequence[Any]) -> bool:
    """Engines take a list of texts or of integers; the rest only alone."""
    kinds = {type(value) for value in values}
    return kinds in ({str}, {int}) or (len(values) == 1 and kinds <= {bool, float})


def _bounds(field: str, value: Mapping[Any, Any]) -> dict[str, float]:
    numbers = all(type(bound) in (int, float) for bound in value.values())
    if not value or not set(value) <= _BOUNDS or not numbers:
        raise UsageError(
            f"filter {field!r}: a range has gt, gte, lt or lte with a number each; got {value!r}"
        )
    return {name: float(bound) for name, bound in value.items()}


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
    return any(
        type(one) in (int, float) and all(_WITHIN[name](one, bounds[name]) for name in bounds)
        for one in found
    )

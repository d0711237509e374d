"""Parts of one report that cannot both be true, whatever the judgments say."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from assay.errors import UsageError
from assay.measure.metrics import parse_metric

_TOLERANCE = 5e-3
"""Reports round to two digits at the least."""

_SPREADS = ("median", "std", "min", "max")


@dataclass(frozen=True, slots=True)
class Row:
    """One query of the report; without documents where it failed.

    `claimed` holds the query's own figures by report key.
    """

    query_id: str
    doc_ids: tuple[str, ...]
    failed: bool
    claimed: Mapping[str, float]


def contradictions(report: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[str]:
    """Sentences, each naming the two parts that disagree."""
    yield from _repeats(rows)
    yield from _counts(object_in(report, "summary"), rows)
    yield from _means(report)
    yield from _spreads(object_in(report, "summary"), rows)


def object_in(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = report.get(name)
    return value if isinstance(value, Mapping) else {}


def is_figure(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _repeats(rows: Sequence[Row]) -> Iterator[str]:
    for query_id, times in Counter(row.query_id for row in rows).items():
        if times > 1:
            yield f"query {query_id!r} has {times} rows; only the first is counted here"


def _counts(summary: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[str]:
    total, good, bad, rate = (
        summary.get(name) if is_figure(summary.get(name)) else None
        for name in ("total_queries", "successful_queries", "failed_queries", "success_rate")
    )
    if total is not None and total < len(rows):
        yield f"summary.total_queries is {total}, but there are {len(rows)} rows"
    if total is not None and good is not None and bad is not None and good + bad != total:
        yield f"summary counts {good} successful and {bad} failed of {total} queries"
    if bad is not None and bad < (failed := sum(row.failed for row in rows)):
        yield f"summary.failed_queries is {bad}, but {failed} rows have failed"
    if rate is not None and total and good is not None and abs(rate - good / total) > _TOLERANCE:
        yield f"summary.success_rate is {rate}, but {good} of {total} are {good / total:.4f}"


def _means(report: Mapping[str, Any]) -> Iterator[str]:
    """Every mean of one metric must be the same, wherever it stands, and inside its interval."""
    for name, places in _written_means(report).items():
        (first, value), *others = places
        for place, other in others:
            if abs(other - value) > _TOLERANCE:
                yield f"{first} is {value}, but {place} is {other}"
        row = next(_statistics_of(report, name), {})
        low, high = row.get("low"), row.get("high")
        if is_figure(low) and is_figure(high) and not low - 1e-9 <= value <= high + 1e-9:
            yield f"{first} is {value}, outside its own interval from {low} to {high}"


def _written_means(report: Mapping[str, Any]) -> dict[str, list[tuple[str, float]]]:
    written = [
        (key.removeprefix("mean_"), f"summary.{key}", value)
        for key, value in object_in(report, "summary").items()
        if key.startswith("mean_")
    ]
    metrics = object_in(report, "metrics").items()
    written += [(name, f"metrics[{name!r}]", value) for name, value in metrics]
    written += [
        (name, f"statistics[{name!r}].mean", row.get("mean"))
        for name, row in object_in(report, "statistics").items()
        if isinstance(row, Mapping)
    ]
    found: dict[str, list[tuple[str, float]]] = {}
    for name, place, value in written:
        key = _key(name)
        if key is not None and is_figure(value):
            found.setdefault(key, []).append((place, float(value)))
    return found


def _statistics_of(report: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    for name, row in object_in(report, "statistics").items():
        if isinstance(row, Mapping) and _key(name) == key:
            yield row


def _spreads(summary: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[str]:
    """Where every row has its own figure and none is missing, their spread can be had."""
    if summary.get("total_queries", len(rows)) != len(rows):
        return
    for name, value in summary.items():
        kind, _, key = name.partition("_")
        if kind not in _SPREADS or not is_figure(value):
            continue
        figures = [row.claimed[key] for row in rows if key in row.claimed]
        if len(figures) < max(2, len(rows)):
            continue
        if all(abs(each - value) > _TOLERANCE for each in _measured(kind, figures)):
            right = _measured(kind, figures)[0]
            yield f"summary.{name} is {value}, but its own rows give {right:.4f}"


def _measured(kind: str, figures: Sequence[float]) -> tuple[float, ...]:
    """A standard deviation may be that of the population or of a sample."""
    values = np.array(figures)
    if kind == "std":
        return float(values.std()), float(values.std(ddof=1))
    if kind == "median":
        return (float(np.median(values)),)
    return (float(values.min() if kind == "min" else values.max()),)


def _key(name: str) -> str | None:
    """None for what is no metric of ours."""
    try:
        return parse_metric(name).key
    except UsageError:
        return None

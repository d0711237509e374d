"""An EvaluationReport of another evaluator: its claims, its ranked lists, its contradictions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from assay.errors import DataError, UsageError
from assay.metrics.metric import Metric, parse_metric
from assay.net.json import LARGEST, JsonObject

_LISTS = ("retrieved_docs", "doc_ids")
_FAILED = ("failed", "error", "timeout")
_SPREADS = ("median", "std", "min", "max")

_TOLERANCE = 5e-3  # reports round to two digits at the least


@dataclass(frozen=True, slots=True)
class ReportedQuery:
    """One query of the report; without documents if it failed.

    `claimed` holds the query's own figures by report key.
    """

    query_id: str
    doc_ids: tuple[str, ...]
    failed: bool
    claimed: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class ForeignReport:
    """What the report claims, and the lists it claims it from.

    `missing` queries were asked, by the report's own count, and have no row. `contradictions` are
    sentences on parts of the report that cannot both be true; `dataset` and `split` are what it
    says it was made on.
    """

    claims: Mapping[Metric, float]
    rows: tuple[ReportedQuery, ...]
    missing: int
    top_k: int | None
    contradictions: tuple[str, ...] = ()
    dataset: str | None = None
    split: str | None = None

    def __repr__(self) -> str:
        claims = ", ".join(f"{metric} {value:.4f}" for metric, value in self.claims.items())
        return f"<ForeignReport of {len(self.rows):,} queries: {claims}>"

    def precision(self, metric: Metric) -> float:
        """Half a unit of the last digit that the report prints."""
        # Taken over many figures, and two digits at least: JSON drops trailing zeros, so 1.0 may
        # well have been 1.0000.
        figures = [*self.claims.values()]
        figures += [row.claimed[metric.key] for row in self.rows if metric.key in row.claimed]
        return 0.5 * 10.0 ** -max(2, *map(_decimals, figures))


def read_report(value: Any) -> ForeignReport:
    """From parsed JSON: the report itself, or the results of a platform that hold one."""
    report = next(_reports(value), None)
    if report is None:
        raise DataError(
            "is not an evaluation report: it needs 'per_query_results' with 'query_id' and "
            "'retrieved_docs' for each query"
        )
    read = [_row(number, row) for number, row in enumerate(report["per_query_results"], 1)]
    rows = tuple({row.query_id: row for row in reversed(read)}.values())[::-1]  # the first counts
    claims = _claims(report)
    if not claims:
        raise DataError("has no figure that can be recomputed, such as summary.mean_ndcg_at_5")
    total = _integer(_object_in(report, "summary").get("total_queries"))
    made_on, config = _object_in(report, "dataset"), _object_in(report, "config")
    return ForeignReport(
        claims,
        rows,
        max(0, (total or 0) - len(rows)),
        _integer(config.get("top_k")),
        tuple(_contradictions(report, read)),
        # The name that it was asked for by may be a path; the one that the data carry is not.
        dataset=_text(config.get("dataset")) or _text(made_on.get("name")),
        split=_text(made_on.get("split")) or _text(config.get("split")),
    )


def _reports(value: Any) -> Iterator[JsonObject]:
    if isinstance(value, list):
        for item in value:
            yield from _reports(item)
    elif isinstance(value, dict):
        if isinstance(value.get("per_query_results"), list) and value["per_query_results"]:
            yield value
        yield from _reports(value.get("results"))


def _row(number: int, row: Any) -> ReportedQuery:
    query_id = row.get("query_id") if isinstance(row, dict) else None
    if not isinstance(query_id, str):
        raise DataError(f"per_query_results: entry {number} has no query_id string")
    doc_ids: Any = next((row[name] for name in _LISTS if row.get(name) is not None), [])
    if not isinstance(doc_ids, list) or not all(isinstance(doc_id, str) for doc_id in doc_ids):
        raise DataError(f"query {query_id!r}: retrieved_docs must be a list of document ids")
    claimed = {key: float(value) for key, value in row.items() if _is_figure(value)}
    failed = _has_failed(row)
    return ReportedQuery(query_id, () if failed else tuple(doc_ids), failed, claimed)


def _has_failed(row: JsonObject) -> bool:
    error = row.get("error") or row.get("failure") or row.get("success") is False
    return bool(error) or row.get("status") in _FAILED


def _claims(report: JsonObject) -> dict[Metric, float]:
    """The figures of the report by metric."""
    # `summary` wins over `metrics` if both name a metric: it is what people quote.
    written = dict(_object_in(report, "metrics"))
    for key, value in _object_in(report, "summary").items():
        if key.startswith("mean_"):
            written[key.removeprefix("mean_")] = value
    claims: dict[Metric, float] = {}
    for name, value in written.items():
        metric = _metric(name)
        if metric is not None and _is_figure(value):
            claims[metric] = float(value)
    return claims


def _contradictions(report: JsonObject, rows: Sequence[ReportedQuery]) -> Iterator[str]:
    """Sentences, each naming two parts that cannot both be true under any judgments."""
    yield from _repeats(rows)
    yield from _counts(_object_in(report, "summary"), rows)
    yield from _means(report)
    yield from _spreads(_object_in(report, "summary"), rows)


def _repeats(rows: Sequence[ReportedQuery]) -> Iterator[str]:
    for query_id, times in Counter(row.query_id for row in rows).items():
        if times > 1:
            yield f"query {query_id!r} has {times} rows; only the first is counted here"


def _counts(summary: JsonObject, rows: Sequence[ReportedQuery]) -> Iterator[str]:
    total, good, bad, rate = (
        summary.get(name) if _is_figure(summary.get(name)) else None
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


def _means(report: JsonObject) -> Iterator[str]:
    """Every mean of one metric must be the same everywhere, and inside its interval."""
    rows = _object_in(report, "statistics").items()
    statistics = {name: row for name, row in rows if isinstance(row, dict)}
    for metric, places in _written_means(report).items():
        (first, value), *others = places
        for place, other in others:
            if abs(other - value) > _TOLERANCE:
                yield f"{first} is {value}, but {place} is {other}"
        row = next((row for name, row in statistics.items() if _metric(name) == metric), {})
        low, high = row.get("low"), row.get("high")
        if _is_figure(low) and _is_figure(high) and not low - 1e-9 <= value <= high + 1e-9:
            yield f"{first} is {value}, outside its own interval from {low} to {high}"


def _written_means(report: JsonObject) -> dict[Metric, list[tuple[str, float]]]:
    """For each metric the places that give its mean, with the value there."""
    written = [
        (key.removeprefix("mean_"), f"summary.{key}", value)
        for key, value in _object_in(report, "summary").items()
        if key.startswith("mean_")
    ]
    metrics = _object_in(report, "metrics").items()
    written += [(name, f"metrics[{name!r}]", value) for name, value in metrics]
    written += [
        (name, f"statistics[{name!r}].mean", row.get("mean"))
        for name, row in _object_in(report, "statistics").items()
        if isinstance(row, dict)
    ]
    found: dict[Metric, list[tuple[str, float]]] = {}
    for name, place, value in written:
        metric = _metric(name)
        if metric is not None and _is_figure(value):
            found.setdefault(metric, []).append((place, float(value)))
    return found


def _spreads(summary: JsonObject, rows: Sequence[ReportedQuery]) -> Iterator[str]:
    """Where every row has its own figure and none is missing, their spread can be computed."""
    if summary.get("total_queries", len(rows)) != len(rows):
        return
    for name, value in summary.items():
        kind, _, key = name.partition("_")
        if kind not in _SPREADS or not _is_figure(value):
            continue
        figures = [row.claimed[key] for row in rows if key in row.claimed]
        if len(figures) < max(2, len(rows)):
            continue
        if all(abs(spread - value) > _TOLERANCE for spread in _spread(kind, figures)):
            right = _spread(kind, figures)[0]
            yield f"summary.{name} is {value}, but its own rows give {right:.4f}"


def _spread(kind: str, figures: Sequence[float]) -> tuple[float, ...]:
    """A standard deviation may be that of the population or of a sample."""
    values = np.array(figures)
    if kind == "std":
        return float(values.std()), float(values.std(ddof=1))
    if kind == "median":
        return (float(np.median(values)),)
    return (float(values.min() if kind == "min" else values.max()),)


def _object_in(report: JsonObject, name: str) -> JsonObject:
    value = report.get(name)
    return value if isinstance(value, dict) else {}


def _is_figure(value: Any) -> TypeGuard[float]:
    """NaN, infinity and what no computation can hold are none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -LARGEST <= value <= LARGEST


def _metric(name: str) -> Metric | None:
    """None for anything but a ranking metric, such as a mean latency."""
    try:
        return parse_metric(name)
    except UsageError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _integer(value: Any) -> int | None:
    """Data parts of A2A turn 5 into 5.0."""
    return int(value) if _is_figure(value) and value >= 1 else None


def _decimals(value: float) -> int:
    return min(12, len(f"{value:.12f}".rstrip("0").partition(".")[2]))

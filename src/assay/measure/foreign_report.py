"""An EvaluationReport that somebody else made: what it claims, and the lists it claims it from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from assay.errors import DataError, UsageError
from assay.measure.contradictions import Row, contradictions, is_figure, object_in
from assay.measure.metrics import Metric, parse_metric

_LISTS = ("retrieved_docs", "doc_ids")
_FAILED = ("failed", "error", "timeout")


@dataclass(frozen=True)
class ForeignReport:
    """`missing` queries were asked, by the report's own count, and have no row.

    `contradictions` are sentences on parts of the report that cannot both be true; `dataset` and
    `split` are what it says it was made on.
    """

    claims: Mapping[Metric, float]
    rows: tuple[Row, ...]
    missing: int
    top_k: int | None
    contradictions: tuple[str, ...] = ()
    dataset: str | None = None
    split: str | None = None

    def precision(self, metric: Metric) -> float:
        """Half a unit of the last digit that the report prints.

        Taken over many figures, and two digits at least: JSON drops trailing zeros, so 1.0 may
        well have been 1.0000.
        """
        figures = [*self.claims.values()]
        figures += [row.claimed[metric.key] for row in self.rows if metric.key in row.claimed]
        return 0.5 * 10.0 ** -max(2, *map(_decimals, figures))


def read_report(value: Any) -> ForeignReport:
    """From parsed JSON: the report itself, or the results of a platform that hold one."""
    report = next(_reports(value), None)
    if report is None:
        raise DataError(
            "holds no evaluation report: an object with 'per_query_results', a list that has "
            "'query_id' and 'retrieved_docs' for each query, is needed to recompute anything"
        )
    read = [_row(number, each) for number, each in enumerate(report["per_query_results"], 1)]
    rows = tuple({row.query_id: row for row in reversed(read)}.values())[::-1]  # the first counts
    claims = _claims(report)
    if not claims:
        raise DataError("claims no figure that can be recomputed, such as summary.mean_ndcg_at_5")
    total = _whole_number(object_in(report, "summary").get("total_queries"))
    top_k = _whole_number(object_in(report, "config").get("top_k"))
    made_on, config = object_in(report, "dataset"), object_in(report, "config")
    return ForeignReport(
        claims,
        rows,
        max(0, (total or 0) - len(rows)),
        top_k,
        tuple(contradictions(report, read)),
        # The name that it was asked for by may be a path; the one that the data carry is not.
        dataset=_text(config.get("dataset")) or _text(made_on.get("name")),
        split=_text(made_on.get("split")) or _text(config.get("split")),
    )


def _reports(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for each in value:
            yield from _reports(each)
    elif isinstance(value, Mapping):
        if isinstance(value.get("per_query_results"), list) and value["per_query_results"]:
            yield value
        yield from _reports(value.get("results"))


def _row(number: int, row: Any) -> Row:
    query_id = row.get("query_id") if isinstance(row, Mapping) else None
    if not isinstance(query_id, str):
        raise DataError(f"per_query_results: entry {number} has no query_id that is text")
    doc_ids: Any = next((row[name] for name in _LISTS if row.get(name) is not None), [])
    if not isinstance(doc_ids, list) or not all(isinstance(each, str) for each in doc_ids):
        raise DataError(f"query {query_id!r}: retrieved_docs must be a list of document ids")
    claimed = {key: float(each) for key, each in row.items() if is_figure(each)}
    failed = _has_failed(row)
    return Row(query_id, () if failed else tuple(doc_ids), failed, claimed)


def _has_failed(row: Mapping[str, Any]) -> bool:
    said = row.get("error") or row.get("failure") or row.get("success") is False
    return bool(said) or row.get("status") in _FAILED


def _claims(report: Mapping[str, Any]) -> dict[Metric, float]:
    """`summary` wins over `metrics` where both name a metric: it is what people quote."""
    written = dict(object_in(report, "metrics"))
    for key, value in object_in(report, "summary").items():
        if key.startswith("mean_"):
            written[key.removeprefix("mean_")] = value
    claims: dict[Metric, float] = {}
    for name, value in written.items():
        metric = _metric(name)
        if metric is not None and is_figure(value):
            claims[metric] = float(value)
    return claims


def _metric(name: str) -> Metric | None:
    """None for what is no metric of ours, such as a mean latency."""
    try:
        return parse_metric(name)
    except UsageError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole_number(value: Any) -> int | None:
    """Data parts of A2A turn 5 into 5.0."""
    return int(value) if is_figure(value) and value >= 1 else None


def _decimals(value: float) -> int:
    return min(12, len(f"{value:.12f}".rstrip("0").partition(".")[2]))

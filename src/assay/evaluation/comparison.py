"""Two runs side by side, query by query: is one better, by how much, and how sure is that?"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from assay.errors import RunError
from assay.measure.figures import AnswerFigure
from assay.measure.graded import Floats
from assay.measure.metrics import MRR, Metric, Recall, nDCG, parse_metric
from assay.measure.statistics import PairedComparison, compare_paired, holm, queries_needed

_ANSWER_FIGURES = ("correctness", "fact_recall", "faithfulness", "abstention")

Figure = Metric | AnswerFigure


@dataclass(frozen=True, slots=True)
class MetricComparison:
    """`p_adjusted` is corrected for the number of metrics that were looked at (Holm)."""

    metric: Figure
    paired: PairedComparison
    p_adjusted: float
    queries_needed: int | None

    @property
    def certain(self) -> bool:
        return self.p_adjusted < 0.05


@dataclass(frozen=True, slots=True)
class Comparison:
    """Of run B with run A: a positive difference means that B is better."""

    name_a: str
    name_b: str
    metrics: Sequence[MetricComparison]
    warnings: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "a": self.name_a,
            "b": self.name_b,
            "metrics": {
                each.metric.slug: {
                    **asdict(each.paired),
                    "p_adjusted": each.p_adjusted,
                    "queries_needed": each.queries_needed,
                }
                for each in self.metrics
            },
            "warnings": list(self.warnings),
        }


def compare_reports(
    report_a: Mapping[str, Any],
    report_b: Mapping[str, Any],
    metrics: Sequence[Figure] = (),
) -> Comparison:
    """Compare on the queries that both runs asked; refused where the data differ."""
    _require_same_data(report_a, report_b)
    rows_a, rows_b = _rows(report_a), _rows(report_b)
    shared = [query_id for query_id in rows_a if query_id in rows_b]
    if not shared:
        raise RunError("the two runs have no query in common, so they cannot be compared")
    chosen = list(metrics) or _metrics_in_common(report_a, report_b)
    paired = []
    for metric in chosen:
        a, b = _columns(metric, shared, rows_a, rows_b)
        paired.append((metric, compare_paired(a, b), float((b - a).std())))
    adjusted = holm([each.p_value for _, each, _ in paired])
    return Comparison(
        name_a=_name(report_a),
        name_b=_name(report_b),
        metrics=[
            MetricComparison(metric, each, p, _needed(each, spread))
            for (metric, each, spread), p in zip(paired, adjusted, strict=True)
        ],
        warnings=_warnings(report_a, report_b, len(shared), len(rows_a), len(rows_b)),
    )


def compare_with_each(
    first: Mapping[str, Any],
    others: Sequence[Mapping[str, Any]],
    metrics: Sequence[Figure] = (),
) -> list[Comparison]:
    """Several systems with one: all their p-values are corrected together, not pair by pair."""
    comparisons = [compare_reports(first, other, metrics) for other in others]
    raw = [each.paired.p_value for comparison in comparisons for each in comparison.metrics]
    adjusted = iter(holm(raw))
    return [
        replace(
            comparison,
            metrics=[replace(each, p_adjusted=next(adjusted)) for each in comparison.metrics],
        )
        for comparison in comparisons
    ]


def _needed(paired: PairedComparison, spread: float) -> int | None:
    """How many queries would tell a difference of this size; None where there is none."""
    if paired.difference == 0 or spread == 0:
        return None
    return queries_needed(spread, abs(paired.difference))


def _require_same_data(a: Mapping[str, Any], b: Mapping[str, Any]) -> None:
    for key, what in (("fingerprint", "data sets"), ("split", "splits")):
        if a["dataset"][key] != b["dataset"][key]:
            raise RunError(
                f"the runs are on different {what} ({a['dataset']['name']} {a['dataset'][key][:12]}"
                f" and {b['dataset']['name']} {b['dataset'][key][:12]}): their scores say nothing "
                "about each other"
            )


def _metrics_in_common(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[Figure]:
    """Few on purpose: each further metric makes the correction of the others stricter."""
    theirs = {parse_metric(name) for name in b["metrics"]}
    shared = [metric for metric in map(parse_metric, a["metrics"]) if metric in theirs]
    if not shared:
        raise RunError("the two runs have no metric in common; run both with the same --top-k")
    usual = (nDCG.name, Recall.name, MRR.name)
    rankings = [metric for metric in shared if metric.name in usual] or shared
    return [*_answers_in_common(a, b), *rankings]


def _answers_in_common(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[AnswerFigure]:
    """Where both runs were held against the same references, and found right in the same way."""
    ours, theirs = a.get("answers"), b.get("answers")
    if not ours or not theirs or ours["references"] != theirs["references"]:
        return []
    shared = [
        each for each in _ANSWER_FIGURES if each in ours["metrics"] and each in theirs["metrics"]
    ]
    if ours["correctness_by"] != theirs["correctness_by"]:
        shared = [each for each in shared if each != "correctness"]
    return [AnswerFigure(each) for each in shared]


def _rows(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """By query; what is known of its answer stands beside what is known of its ranking."""
    rows = {row["query_id"]: dict(row) for row in report["per_query_results"]}
    for row in report.get("answer_results", ()):
        rows.setdefault(row["query_id"], {}).update(row)
    return rows


def _columns(
    metric: Figure,
    shared: Sequence[str],
    rows_a: Mapping[str, Mapping[str, Any]],
    rows_b: Mapping[str, Mapping[str, Any]],
) -> tuple[Floats, Floats]:
    """On the queries that the metric is about: a question without an answer has no ranking."""
    about = [each for each in shared if metric.key in rows_a[each] or metric.key in rows_b[each]]
    if not about:
        raise RunError(f"neither run has {metric}; ask for one that both have")
    return (
        np.array([_value(rows_a[query_id], metric, "first") for query_id in about]),
        np.array([_value(rows_b[query_id], metric, "second") for query_id in about]),
    )


def _value(row: Mapping[str, Any], metric: Figure, which: str) -> float:
    if metric.key not in row:
        if isinstance(metric, AnswerFigure):
            raise RunError(f"the {which} run has no {metric}; run it with --answers")
        raise RunError(f"the {which} run has no {metric}; run it with a larger --top-k")
    return float(row[metric.key])


def _name(report: Mapping[str, Any]) -> str:
    return str(report["target"]["name"])


def _warnings(
    a: Mapping[str, Any], b: Mapping[str, Any], shared: int, size_a: int, size_b: int
) -> list[str]:
    warnings = []
    if not shared == size_a == size_b:
        warnings.append(
            f"compared on the {shared} queries that both runs asked (of {size_a} and {size_b})"
        )
    judged = [report["answers"]["correctness_by"] for report in (a, b) if report.get("answers")]
    if len(set(judged)) > 1:
        warnings.append(f"correctness was decided in two ways: by {' and by '.join(judged)}")
    if a["track"] != b["track"]:
        warnings.append(f"the tracks differ: {a['track']} and {b['track']}")
    warnings += [
        f"{_name(report)} is {report['state']}"
        for report in (a, b)
        if report["state"] != "complete"
    ]
    return warnings

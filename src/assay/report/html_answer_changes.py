"""Answers of two runs side by side: which became right, which wrong, and what each said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.data.dataset import Dataset
from assay.measure.figures import AnswerFigure, parse_figure
from assay.report.html_questions import QuestionPainter, Row, ShownQuestion

SHOWN = 8
_CORRECTNESS = AnswerFigure("correctness")


@dataclass(frozen=True, slots=True)
class AnswerChange:
    """One question in both runs; `difference` is that of the figure that is compared."""

    difference: float
    a: ShownQuestion
    b: ShownQuestion


def answer_changes(
    report_a: Mapping[str, Any],
    report_b: Mapping[str, Any],
    comparison: Mapping[str, Any],
    dataset: Dataset | None,
    place: str,
) -> dict[str, Any] | None:
    """None where the comparison holds no figure of answers. `place`: see QuestionPainter."""
    figure = _figure(comparison)
    if figure is None:
        return None
    rows_a, rows_b = _rows(report_a, figure.key), _rows(report_b, figure.key)
    both = [(rows_a[query_id], rows_b[query_id]) for query_id in rows_a if query_id in rows_b]
    painters = (
        _painter(report_a, dataset, f"{place}-a"),
        _painter(report_b, dataset, f"{place}-b"),
    )
    changes = sorted(
        ((float(b[figure.key]) - float(a[figure.key]), a, b) for a, b in both),
        key=lambda change: -change[0],
    )
    gains = [change for change in changes if change[0] > 1e-12]
    losses = [change for change in reversed(changes) if change[0] < -1e-12]
    return {
        "figure": str(figure),
        "agreement": _agreement(both) if figure == _CORRECTNESS else None,
        "gains": len(gains),
        "losses": len(losses),
        "better": _paint(gains, *painters),
        "worse": _paint(losses, *painters),
    }


def _painter(report: Mapping[str, Any], dataset: Dataset | None, place: str) -> QuestionPainter:
    config = report["config"]
    return QuestionPainter(config["top_k"], config["split"], dataset, place)


def _paint(
    changes: Sequence[tuple[float, Row, Row]], a: QuestionPainter, b: QuestionPainter
) -> list[AnswerChange]:
    return [
        AnswerChange(difference, a.paint(row_a), b.paint(row_b))
        for difference, row_a, row_b in changes[:SHOWN]
    ]


def _figure(comparison: Mapping[str, Any]) -> AnswerFigure | None:
    """Correctness where it was compared, else the first figure of answers there is."""
    figures = [parse_figure(name) for name in comparison["metrics"]]
    answers = [each for each in figures if isinstance(each, AnswerFigure)]
    return _CORRECTNESS if _CORRECTNESS in answers else next(iter(answers), None)


def _rows(report: Mapping[str, Any], key: str) -> dict[str, Mapping[str, Any]]:
    return {row["query_id"]: row for row in report.get("answer_results", ()) if key in row}


def _agreement(both: list[tuple[Any, Any]]) -> dict[str, int]:
    pairs = [(a["correctness"] > 0, b["correctness"] > 0) for a, b in both]
    return {
        "both": pairs.count((True, True)),
        "only_a": pairs.count((True, False)),
        "only_b": pairs.count((False, True)),
        "neither": pairs.count((False, False)),
    }

"""Two or more runs on one page: who is better, by how much, how sure, and on which queries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from assay.data.dataset import Dataset
from assay.measure.figures import AnswerFigure, parse_figure
from assay.measure.metrics import Metric
from assay.report import plots
from assay.report.html import render_page
from assay.report.html_queries import QueryPainter, ShownQuery
from assay.report.html_questions import QuestionPainter, Row, ShownQuestion
from assay.report.numbers import figure
from assay.report.terminal import verdict

SHOWN = 8
Figure = Metric | AnswerFigure
DRAWN = 3000
"""More dots than this hide each other, and make the file large."""


@dataclass(frozen=True, slots=True)
class Side:
    """A run: its name and its whole report, rows included."""

    name: str
    report: Mapping[str, Any]

    @property
    def label(self) -> str:
        return str(self.report["target"]["name"])

    def rows(self, key: str) -> dict[str, Mapping[str, Any]]:
        """By query, those that have a figure of this name: of rankings, or of answers."""
        report = self.report
        rows = (*report["per_query_results"], *report.get("answer_results", ()))
        return {row["query_id"]: row for row in rows if key in row}


@dataclass(frozen=True, slots=True)
class Change:
    """One query in both runs; `difference` is that of the headline."""

    query_id: str
    text: str
    a: ShownQuery
    b: ShownQuery

    @property
    def difference(self) -> float:
        return self.b.score - self.a.score


def render_comparison_page(
    sides: Sequence[Side],
    comparisons: Sequence[Mapping[str, Any]],
    dataset: Dataset | None = None,
) -> str:
    """The first side is what the others are compared with: one comparison for each of those."""
    view = comparison_view(sides, comparisons, dataset)
    return render_page("comparison_page.html", compared=view, title=view["title"])


def comparison_view(
    sides: Sequence[Side],
    comparisons: Sequence[Mapping[str, Any]],
    dataset: Dataset | None = None,
) -> dict[str, Any]:
    """What the template `comparison_body.html` shows."""
    first, *others = sides
    labels = _labels(sides)
    pairs = [
        _pair(first, other, comparison, dataset, (labels[0], label))
        for other, comparison, label in zip(others, comparisons, labels[1:], strict=True)
    ]
    for place, pair in enumerate(pairs, start=1):
        pair["answers"] = answer_changes(
            first.report, others[place - 1].report, pair["comparison"], dataset, f"pair-{place}"
        )
    return {
        "title": f"{' and '.join(labels[1:])} against {labels[0]}",
        "sides": [
            {"label": label, "name": side.name, "report": side.report}
            for label, side in zip(labels, sides, strict=True)
        ],
        "metrics": _metrics(sides),
        "correctness": _correctness(sides),
        "pairs": pairs,
        "graded": dataset is not None,
        "dataset": first.report["dataset"],
    }


def _labels(sides: Sequence[Side]) -> list[str]:
    """The targets' names; runs of one target are told apart by when they were made."""
    names = [side.label for side in sides]
    return [
        f"{name} ({side.report['started'][:16].replace('T', ' ')})"
        if names.count(name) > 1
        else name
        for name, side in zip(names, sides, strict=True)
    ]


def _pair(
    first: Side,
    other: Side,
    comparison: Mapping[str, Any],
    dataset: Dataset | None,
    labels: tuple[str, str],
) -> dict[str, Any]:
    metric = parse_figure(next(iter(comparison["metrics"])))
    scores = _paired(first, other, metric)
    label_a, label_b = labels
    named = {**comparison, "a": label_a, "b": label_b}
    better, worse = _changes(first, other, metric, dataset)
    return {
        "a": label_a,
        "b": label_b,
        "name_b": other.name,
        "metric": str(metric),
        "comparison": named,
        "verdict": verdict(named, a=label_a, b=label_b),
        "scatter": None if metric.key == "correctness" else _scatter(scores, metric, labels),
        "win_loss": plots.win_loss(
            [b - a for a, b, _ in scores], f"queries, by difference in {metric}"
        ),
        "ranked": isinstance(metric, Metric),
        "better": better,
        "worse": worse,
    }


def _scatter(
    scores: Sequence[tuple[float, float, str]], metric: Figure, labels: tuple[str, str]
) -> Markup:
    return plots.scatter(
        [(a, b, f"{text}: {figure(a, 3)} and {figure(b, 3)}") for a, b, text in scores[:DRAWN]],
        f"{metric} of {labels[0]}",
        f"{metric} of {labels[1]}",
    )


def _paired(first: Side, other: Side, metric: Figure) -> list[tuple[float, float, str]]:
    theirs = other.rows(metric.key)
    return [
        (float(row[metric.key]), float(theirs[query_id][metric.key]), str(row["query_text"]))
        for query_id, row in first.rows(metric.key).items()
        if query_id in theirs
    ]


def _changes(
    first: Side, other: Side, metric: Figure, dataset: Dataset | None
) -> tuple[list[Change], list[Change]]:
    """The queries with the largest gains, and those with the largest losses; none where the metric
    is not about rankings.
    """
    if not isinstance(metric, Metric):
        return [], []
    theirs = other.rows(metric.key)
    both = [
        (theirs[query_id][metric.key] - row[metric.key], row, theirs[query_id])
        for query_id, row in first.rows(metric.key).items()
        if query_id in theirs
    ]
    ordered = sorted(both, key=lambda each: -each[0])
    config = first.report["config"]
    painter_a = QueryPainter(metric.key, config["top_k"], config["split"], dataset)
    painter_b = QueryPainter(metric.key, other.report["config"]["top_k"], config["split"], dataset)

    def paint(rows: Sequence[tuple[float, Any, Any]]) -> list[Change]:
        return [
            Change(a["query_id"], a["query_text"], painter_a.paint(a), painter_b.paint(b))
            for _, a, b in rows
        ]

    gains = [each for each in ordered[:SHOWN] if each[0] > 1e-12]
    losses = [each for each in reversed(ordered[-SHOWN:]) if each[0] < -1e-12]
    return paint(gains), paint(losses)


def _metrics(sides: Sequence[Side]) -> list[str]:
    """Those that every run has, the first run's headline first."""
    return [
        name
        for name in sides[0].report["statistics"]
        if all(name in side.report["statistics"] for side in sides)
    ]


def _correctness(sides: Sequence[Side]) -> list[Mapping[str, Any]]:
    """One figure for each side, where all of them have one and mean the same by it."""
    answers = [side.report.get("answers") or {} for side in sides]
    rows = [each.get("statistics", {}).get("correctness") for each in answers]
    ways = {(each.get("correctness_by"), each.get("references")) for each in answers}
    return [row for row in rows if row] if all(rows) and len(ways) == 1 else []


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

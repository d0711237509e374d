"""The page of a trend: quality, latency and cost over time and against each other, and as files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from assay.net.json import JsonObject
from assay.report.html_templates import render_page
from assay.report.numbers import counted
from assay.report.svg import (
    framed,
)
from assay.report.table_files import Cell, Row
from assay.report.trend_plots import (
    SERIES,
    SMALL,
    WIDTHS,
    Link,
    branches_of,
    figure_title,
    figure_words,
    shown_changes,
    trend_chart,
    trend_table,
)
from assay.run.trend import (
    COST,
    JUDGE_COST,
    LATENCY,
    SLOW,
    TargetTrend,
    TrendPoint,
    build_trend,
    sample_words,
)

_BESIDE = ("correctness", LATENCY, SLOW, COST, JUDGE_COST)


@dataclass(frozen=True, slots=True)
class BranchState:
    """Where a branch stands: its newest run, and the comparable one before it, if there is one."""

    branch: str
    point: TrendPoint
    value: str
    low: float | None
    high: float | None
    before: TrendPoint | None
    difference: float | None


@dataclass(frozen=True, slots=True)
class TrendView:
    """All that the page of a trend shows."""

    target: str
    dataset: str
    split: str
    figure: str
    title: str
    runs: int
    sample: str
    main: Markup
    beside: Sequence[tuple[str, Markup]]
    compared: int
    branches: Sequence[BranchState]
    changes: Sequence[tuple[int, str, str]]
    notes: Sequence[str]


def figures_of_trend(points: Sequence[TrendPoint]) -> list[str]:
    """The scores that a trend can follow, those of the newest run first."""
    found = dict.fromkeys(name for each in reversed(points) for name in each.values)
    return [name for name in found if name not in (LATENCY, SLOW, COST, JUDGE_COST)]


def trend_view(
    points: Sequence[TrendPoint], figure: str, *, by_run: bool = False, link: Link | None = None
) -> TrendView:
    """What the page shows of runs that have a figure; at least one of them has it.

    Parameters:
        points: the runs of a target on a data set, oldest first.
        figure: the score to follow.
        by_run: place the runs one by one instead of by date.
        link: where a run leads to; None for a page without a server.
    """
    trend = build_trend(points, figure)
    newest = trend.points[-1].line

    def small(name: str) -> Markup:
        # The numbers of what changed are those of the list below the large chart.
        other = replace(build_trend(points, name), changes=trend.changes)
        drawn = trend_chart(other, SMALL, "", by_run=by_run, link=link)
        return framed([drawn], f"trend-{name}", trend_table(other))

    shown = [name for name in _BESIDE if name != figure and _has(points, name)]
    drawings = [
        trend_chart(trend, size, class_, by_run=by_run, link=link)
        for class_, size in WIDTHS.items()
    ]
    return TrendView(
        target=newest.target or "",
        dataset=newest.dataset or "",
        split=newest.split or "",
        figure=figure,
        title=figure_title(figure),
        runs=len(trend.points),
        sample=sample_words(newest),
        main=framed(drawings, f"trend-{figure}", trend_table(trend)),
        beside=[(figure_title(name), small(name)) for name in shown],
        compared=len(trend.comparable),
        branches=list(_branches(trend)),
        changes=shown_changes(trend),
        notes=list(_notes(trend)),
    )


def _has(points: Sequence[TrendPoint], name: str) -> bool:
    return bool(build_trend(points, name).points)


def _branches(trend: TargetTrend) -> Iterator[BranchState]:
    """The newest run of each branch, against the comparable run of that branch before it."""
    for branch in branches_of(trend):
        series = [each for each in trend.series if each.branch == branch]
        latest = max(series, key=lambda each: each.points[-1].moment)
        newest = latest.points[-1]
        before = latest.points[-2] if len(latest.points) > 1 else None
        value = newest.values[trend.figure]
        step = None if before is None else value.mean - before.values[trend.figure].mean
        words = figure_words(trend.figure, value.mean)
        yield BranchState(branch, newest, words, value.low, value.high, before, step)


def _notes(trend: TargetTrend) -> Iterator[str]:
    branches = branches_of(trend)
    if len(branches) > SERIES:
        left = counted(len(branches) - SERIES, "branch", "branches")
        yield f"The charts show {SERIES} branches; {left} more can be chosen above."
    if trend.silent:
        yield f"Left out: {counted(trend.silent, 'run')} in which no query was answered."


def trend_rows(points: Sequence[TrendPoint], figure: str) -> list[Row]:
    """One row a run, oldest first, for files; `comparable` numbers the runs that compare."""
    names = list(dict.fromkeys(name for each in points for name in each.values))
    groups: dict[object, int] = {}
    rows: list[Row] = []
    for each in build_trend(points, figure).points:
        line = each.line
        row: dict[str, Cell] = {
            "run": line.name,
            "started": line.started,
            "target": line.target,
            "agent": line.agent,
            "dataset": line.dataset,
            "split": line.split,
            "fingerprint": line.fingerprint,
            "track": line.track,
            "top_k": line.top_k,
            "queries": line.queries,
            "failed_queries": line.failed,
            "seed": line.seed if line.sample is not None else None,
            "branch": line.branch,
            "commit": line.git_commit,
            "label": line.label,
            "gates_failed": line.gates_failed,
            "comparable": groups.setdefault(each.key(figure), len(groups) + 1),
            "gate": each.bounds.get(figure),
        }
        for name in names:
            value = each.values.get(name)
            row[name] = value.mean if value else None
            if name not in (LATENCY, SLOW, COST, JUDGE_COST):
                row |= {f"{name}_low": value.low if value else None}
                row |= {f"{name}_high": value.high if value else None}
        rows.append(row)
    return rows


def trend_document(points: Sequence[TrendPoint], figure: str) -> JsonObject:
    """The same as one JSON document, with what changed between the runs."""
    changes = build_trend(points, figure).changes
    return {
        "figure": figure,
        "runs": trend_rows(points, figure),
        "changes": [
            {"run": each.point.line.name, "what": each.words, "breaks": each.breaks}
            for each in changes
        ],
    }


def render_trend_page(points: Sequence[TrendPoint], figure: str, *, by_run: bool = False) -> str:
    """The page as one file, without links to a server."""
    view = trend_view(points, figure, by_run=by_run)
    title = f"{view.title} of {view.target} on {view.dataset} {view.split}"
    return render_page("trend_page.html", trend=view, title=title, run_link=None)

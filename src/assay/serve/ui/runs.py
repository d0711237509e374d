"""Many runs at once: the list, the board, groups of comparable runs, a trend."""

import asyncio
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil, floor
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.errors import UsageError
from assay.evaluation.leaderboard import Board, make_boards
from assay.report.export import ExportedRun, run_columns, run_rows, write_rows
from assay.report.trends import figures_of_trend, trend_view
from assay.run.folder import RunFolder
from assay.run.listing import RunLine, RunSearch, verdict_of
from assay.run.state import RunState
from assay.run.trend import NO_BRANCH, TrendValue, is_score
from assay.serve.ui.context import PER_PAGE, Ui, asked_for, download, slice_of, sort_link, ui_of
from assay.serve.ui.grade import grade_runs

COMPARED_LIMIT = 20
COLUMNS: Mapping[str, str] = {
    "label": "Label",
    "target": "Target",
    "dataset": "Data set",
    "branch": "Branch, commit",
    "mean": "Score",
    "interval": "95% interval",
    "change": "since previous",
    "failed": "failed",
    "p95": "p95",
    "verdict": "verdict",
    "when": "when",
    "answers": "answers right",
    "p50": "p50",
    "track": "track",
    "agent": "agent",
    "note": "note",
}
USUAL = tuple(COLUMNS)[:11]
_LARGEST_FIRST = ("when", "mean", "change", "failed", "answers", "p50", "p95")
_MAX_GROUPS = 100
MAX_TREND = 5000
"""Runs that one trend has at most, the newest of them."""


def run_list_routes() -> list[BaseRoute]:
    """The list, the trend, and what is done with chosen runs."""
    return [
        Route("/", runs_page),
        Route("/chosen", act_on_chosen, methods=["POST"]),
        Route("/trends", trends_page),
    ]


async def runs_page(request: Request) -> Response:
    """The runs that match the search, as a list, a board or groups."""
    ui = ui_of(request)
    await ui.refresh()
    asked = asked_for(request, "q", "only", "view", "metric")
    problem, search = "", RunSearch()
    try:
        search = RunSearch.parse(asked["q"])
    except UsageError as error:
        problem = str(error)
    found = ui.index.lines(search)
    changes = [(line, ui.index.change(line)) for line in found]
    chips = {
        "gate failed": [line for line in found if line.gates_failed],
        "got worse": [line for line, c in changes if c and c.significant and not c.better],
        "with answers": [
            line for line in found if line.questions is not None or line.trouble is not None
        ],
        "incomplete": [line for line in found if line.state != RunState.COMPLETE],
        "has failures": [line for line in found if line.failed],
    }
    shown = chips.get(asked["only"], found)
    values: dict[str, Any] = {
        "asked": asked,
        "problem": problem,
        "chips": {"": len(found)} | {name: len(lines) for name, lines in chips.items()},
        "total": len(ui.index.lines()),
        "folder": ui.runs,
    }
    if asked["view"] == "board":
        boards = await asyncio.to_thread(_boards, ui, shown, asked["metric"])
        return ui.page(request, "board.html", boards=boards, **values)
    if asked["view"] == "groups":
        groups = ui.index.groups(shown)[:_MAX_GROUPS]
        return ui.page(request, "groups.html", groups=groups, change_of=ui.index.change, **values)
    return ui.page(request, "runs.html", **values, **_list(request, ui, shown, asked["metric"]))


def _list(request: Request, ui: Ui, lines: Sequence[RunLine], metric: str) -> dict[str, Any]:
    sort = request.query_params.get("sort", "-when")
    lines = ui.index.sort(lines, sort)
    values: dict[str, TrendValue] = {}
    figures = Counter[str]()
    for point in ui.index.trend_points(lines if metric else lines[:PER_PAGE]):
        figures.update(filter(is_score, point.values))
        if (name := metric or point.line.metric or "") in point.values:
            values[point.line.name] = point.values[name]
    if metric and sort.removeprefix("-") == "mean":
        sign = -1 if sort.startswith("-") else 1
        last = TrendValue(float("inf") * sign)
        lines = sorted(lines, key=lambda line: sign * values.get(line.name, last).mean)
    pages = slice_of(request, len(lines))
    lines = lines[pages.skip : pages.last]
    shown = [values[line.name] for line in lines if line.name in values]
    ends = [v.mean if end is None else end for v in shown for end in (v.low, v.high)]
    columns = [name for name in request.query_params.getlist("col") if name in COLUMNS] or USUAL
    headlines = Counter(line.metric for line in lines if line.metric)
    return {
        "lines": lines,
        "pages": pages,
        "sort": sort,
        "values": values,
        "changes": {line.name: ui.index.change(line) for line in lines},
        "verdict_of": verdict_of,
        "axis": (floor(min(ends, default=0) * 10) / 10, ceil(max(ends, default=1) * 10) / 10),
        "columns": [name for name in COLUMNS if name in columns],
        "every_column": COLUMNS,
        "metric": metric or (headlines.most_common(1)[0][0] if headlines else ""),
        "metrics": [name for name, _ in figures.most_common(40)],
        "sort_link": lambda name: sort_link(
            request, sort, name, largest_first=name in _LARGEST_FIRST
        ),
    }


def _boards(ui: Ui, lines: Sequence[RunLine], metric: str) -> list[tuple[str, list[Board]]]:
    sets: dict[str, list[RunLine]] = {}
    for line in lines:
        sets.setdefault(f"{line.dataset} {line.split}", []).append(line)
    found = []
    for title, own in sets.items():
        points = ui.index.trend_points(ui.index.newest_of_each_target(own))
        boards = [board for board in make_boards(ui.runs, points, metric) if board.places]
        found += [(title, boards)] if boards else []
    return found


async def act_on_chosen(request: Request) -> Response:
    """Compare, grade or export the runs that were chosen in the list.

    The export is a CSV file: one line a run, each figure with its interval.
    """
    ui = ui_of(request)
    values = await ui.form_values(request)
    lines = await ui.chosen_lines(values)
    asked, names = dict(values), [line.name for line in lines]
    if not lines:
        raise UsageError("choose runs in the list first")
    if asked.get("do") == "grade":
        return await grade_runs(request, lines, asked.get("query", ""))
    if asked.get("do") == "export":

        def table() -> bytes:
            runs = [ExportedRun.read(RunFolder(ui.runs / name)) for name in names]
            stream = io.BytesIO()
            figures = list(dict.fromkeys(name for run in runs for name in run.figures))
            write_rows(run_rows(runs, figures), "csv", stream, run_columns(figures))
            return stream.getvalue()

        return download(await asyncio.to_thread(table), "runs.csv", "text/csv")
    change = ui.index.change(lines[0])
    if len(names) == 1 and change is not None:
        names = [change.previous, *names]
    return RedirectResponse(f"/compare?{urlencode([('run', name) for name in names])}", 303)


class TrendSet(NamedTuple):
    """The complete runs of one target on one data set and split, newest first."""

    target: str
    dataset: str
    split: str
    lines: Sequence[RunLine]


def _trend_sets(ui: Ui) -> list[TrendSet]:
    """Every target on every data set with a complete run, the most comparable runs first."""
    sets: dict[tuple[str, str, str], list[RunLine]] = {}
    for line in ui.index.lines(lambda line: line.state == RunState.COMPLETE):
        sets.setdefault((line.target or "", line.dataset or "", line.split or ""), []).append(line)
    largest = {
        key: max((len(group) for group in ui.index.groups(lines)), default=0)
        for key, lines in sets.items()
    }
    return [TrendSet(*key, sets[key]) for key in sorted(sets, key=lambda key: -largest[key])]


async def trends_page(request: Request) -> Response:
    """One chart of the set that the address names, else of the largest."""
    ui = ui_of(request)
    await ui.refresh()
    return ui.page(request, "trend.html", **await asyncio.to_thread(_trend, ui, request))


def _trend(ui: Ui, request: Request) -> dict[str, Any]:
    names = ("target", "dataset", "split", "metric", "branch", "since", "until")
    asked, sets = asked_for(request, *names), _trend_sets(ui)
    wanted = [
        one for one in sets if all(asked[name] in ("", getattr(one, name)) for name in names[:3])
    ]
    values = {"sets": sets, "chosen": None, "asked": asked, "trend": None}
    if not wanted:
        return values
    every = ui.index.trend_points(wanted[0].lines[:MAX_TREND])
    points = [
        point
        for point in every
        if asked["branch"] in ("", point.line.branch or NO_BRANCH)
        and asked["since"] <= (day := (point.line.started or "")[:10])
        and (not asked["until"] or day <= asked["until"])
        and (point.line.failed or 0) < (point.line.queries or 0)
    ]
    figures = figures_of_trend(points)
    headline = points[-1].line.metric if points else ""
    choices = [name for name in (asked["metric"], headline, *figures) if name in figures]
    figure, view = (choices or [""])[0], None
    if figure:
        view = trend_view(points, figure, lambda line: f"/runs/{line.name}")
    return values | {
        "chosen": wanted[0],
        "trend": view,
        "figure": figure,
        "figures": figures,
        "branches": sorted({point.line.branch or NO_BRANCH for point in every}),
    }

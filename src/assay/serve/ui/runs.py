"""The list of runs: a grid, a board of targets, groups of comparable runs; what to do with some."""

import asyncio
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import ceil, floor
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.errors import UsageError
from assay.evaluation.leaderboard import Board, make_boards
from assay.report.charts import sparkline
from assay.report.export import ExportedRun, figures_of, run_rows
from assay.report.table_files import write_rows
from assay.run.folder import RunFolder, remove_run
from assay.run.index import RunLine, RunSearch, verdict_of
from assay.run.state import RunState
from assay.run.trend import TrendValue
from assay.serve.ui.context import PER_PAGE, Ui, address, chosen_runs, download, slice_of, ui_of
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
_GROUPS = 100
_SPARK = 60


def run_list_routes() -> list[BaseRoute]:
    """The list, and what is done with chosen runs."""
    return [
        Route("/", runs_page),
        Route("/chosen", act_on_chosen, methods=["POST"]),
        Route("/export", export_runs),
        Route("/delete", confirm_delete, methods=["GET"]),
        Route("/delete", delete_runs, methods=["POST"]),
        Route("/leaderboard", lambda request: RedirectResponse("/?view=board", 308)),
    ]


async def runs_page(request: Request) -> Response:
    """The runs that match the search, as a list, a board or groups."""
    ui = ui_of(request)
    await ui.refresh()
    asked = {name: request.query_params.get(name, "") for name in ("q", "only", "view", "metric")}
    problem, search = "", RunSearch()
    try:
        search = RunSearch.parse(asked["q"])
    except UsageError as error:
        problem = str(error).removeprefix("--")
    found = ui.index.lines(search)
    chips = {name: [line for line in found if holds(line)] for name, holds in _chips(ui).items()}
    shown = chips.get(asked["only"], found)
    values: dict[str, Any] = {
        "asked": asked,
        "problem": problem,
        "chips": {"": len(found)} | {name: len(lines) for name, lines in chips.items()},
        "running": ui.index.lines(lambda line: line.state == RunState.RUNNING),
        "total": len(ui.index.lines()),
        "folder": ui.runs,
    }
    if asked["view"] == "board":
        boards = await asyncio.to_thread(_boards, ui, shown, asked["metric"])
        return ui.page(request, "board.html", boards=boards, **values)
    if asked["view"] == "groups":
        return ui.page(request, "groups.html", groups=_groups(ui, shown), **values)
    return ui.page(request, "runs.html", **values, **_list(request, ui, shown, asked["metric"]))


def _chips(ui: Ui) -> dict[str, Callable[[RunLine], bool]]:
    def got_worse(line: RunLine) -> bool:
        change = ui.index.change(line)
        return change is not None and change.significant and not change.better

    return {
        "gate failed": lambda line: bool(line.gates_failed),
        "got worse": got_worse,
        "with answers": lambda line: line.questions is not None or line.trouble is not None,
        "incomplete": lambda line: line.state != RunState.COMPLETE,
        "has failures": lambda line: bool(line.failed),
    }


def _list(request: Request, ui: Ui, lines: Sequence[RunLine], metric: str) -> dict[str, Any]:
    sort = request.query_params.get("sort", "-when")
    lines = ui.index.sort(lines, sort)
    values: dict[str, TrendValue] = {}
    figures = Counter[str]()
    for point in ui.index.trend_points(lines if metric else lines[:PER_PAGE]):
        figures.update(point.values.keys())
        if (name := metric or point.line.metric or "") in point.values:
            values[point.line.name] = point.values[name]
    if metric and sort.removeprefix("-") == "mean":
        sign = -1 if sort.startswith("-") else 1
        last = TrendValue(float("inf") * sign)
        lines = sorted(lines, key=lambda line: sign * values.get(line.name, last).mean)
    pages = slice_of(request, len(lines))
    lines = lines[pages.skip : pages.last]
    ends = [end for line in lines for end in _ends(values.get(line.name))]
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
        "sort_link": lambda name: _sort_link(request, sort, name),
    }


def _ends(value: TrendValue | None) -> list[float]:
    if value is None:
        return []
    return [value.mean if end is None else end for end in (value.low, value.high)]


def _sort_link(request: Request, sort: str, name: str) -> str:
    """The address of this list in another order; the same column again turns it around."""
    largest_first = name in ("when", "mean", "change", "failed", "answers", "p50", "p95")
    first, second = (f"-{name}", name) if largest_first else (name, f"-{name}")
    return address(request, sort=second if sort == first else first, page="")


def _boards(ui: Ui, lines: Sequence[RunLine], metric: str) -> list[tuple[str, list[Board]]]:
    sets = dict.fromkeys((line.dataset or "", line.split or "") for line in lines)
    found = []
    for dataset, split in sets:
        own = [line for line in lines if (line.dataset, line.split) == (dataset, split)]
        points = ui.index.trend_points(ui.index.newest_of_each_target(own))
        boards = [board for board in make_boards(ui.runs, points, metric) if board.places]
        if boards:
            found.append((f"{dataset} {split}", boards))
    return found


def _groups(ui: Ui, lines: Sequence[RunLine]) -> list[dict[str, object]]:
    return [
        {
            "lines": group,
            "newest": group[0],
            "change": ui.index.change(group[0]),
            "spark": sparkline([line.mean or 0.0 for line in reversed(group[:_SPARK])]),
            "compare": _compare_address([line.name for line in group[:COMPARED_LIMIT]]),
        }
        for group in ui.index.groups(lines)[:_GROUPS]
    ]


def _compare_address(names: Sequence[str]) -> str:
    return f"/compare?{urlencode([('run', name) for name in names])}"


async def act_on_chosen(request: Request) -> Response:
    """Compare, grade, export or delete the runs that were chosen in the list."""
    ui = ui_of(request)
    values = await ui.form_values(request)
    what, names = dict(values).get("do", ""), chosen_runs(values)
    await ui.refresh()
    lines = ui.lines(names)
    if not lines:
        raise UsageError("choose runs in the list first")
    if what == "grade":
        return await grade_runs(request, names, dict(values).get("query", ""))
    if what == "compare":
        change = ui.index.change(lines[0])
        if len(names) == 1 and change is not None:
            names = [change.previous, *names]
        return RedirectResponse(_compare_address(names), 303)
    where = {"export": "/export", "delete": "/delete"}.get(what, "/")
    return RedirectResponse(f"{where}?{urlencode([('run', name) for name in names])}", 303)


async def export_runs(request: Request) -> Response:
    """The chosen runs as a CSV file: one line a run, each figure with its interval."""
    ui = ui_of(request)
    names = [line.name for line in await ui.chosen_lines(request)]

    def table() -> bytes:
        runs = [ExportedRun.read(RunFolder(ui.runs / name)) for name in names]
        stream = io.BytesIO()
        write_rows(run_rows(runs, figures_of(runs[:1], few=False)), "csv", stream)
        return stream.getvalue()

    if not names:
        raise UsageError("choose runs in the list first")
    return download(await asyncio.to_thread(table), "runs.csv", "text/csv")


async def confirm_delete(request: Request) -> Response:
    """The runs that would be deleted, and a button that does it."""
    ui = ui_of(request)
    lines = await ui.chosen_lines(request)
    if not lines:
        return RedirectResponse("/", 303)
    names = [line.name for line in lines]
    kept = [why for line in lines if (why := _why_kept(ui, line, names))]
    return ui.page(request, "delete.html", lines=lines, kept=kept)


async def delete_runs(request: Request) -> Response:
    """Delete runs: all that the form names, or none of them."""
    ui = ui_of(request)
    names = chosen_runs(await ui.form_values(request))
    await ui.refresh()
    for line in ui.lines(names):
        if why := _why_kept(ui, line, names):
            raise HTTPException(409, why)
    for name in names:
        await asyncio.to_thread(remove_run, RunFolder(ui.runs / name))
    return RedirectResponse("/", 303)


def _why_kept(ui: Ui, line: RunLine, chosen: Sequence[str]) -> str:
    """Why a run cannot be deleted together with the chosen ones; empty if it can."""
    started = ui.evaluations.of_run(line.name)
    if line.state == RunState.RUNNING or (started is not None and not started.ended):
        return f"run {line.name!r} is running; cancel it, or wait until it has ended"
    if (ui.runs / line.name).is_symlink():
        return f"run {line.name!r} is a link to another folder; remove the link yourself"
    of = line.baseline_of
    if of and of not in chosen and ui.index.get(of) is not None:
        return f"run {line.name!r} is the baseline of run {of!r}; delete that one too, or first"
    return ""

"""Many runs at once: the list, the board, groups of comparable runs, a trend."""

import asyncio
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil, floor
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from assay.errors import UsageError
from assay.metrics.statistics import Estimate
from assay.report.export import ExportedRun, run_columns, run_rows, write_rows
from assay.run.folder import RunFolder
from assay.run.listing import (
    RunLine,
    build_trend,
    group_lines,
    is_score,
    make_boards,
    newest_of_each_target,
    oldest_first,
    parse_search,
    sort_lines,
)
from assay.run.models import RunState
from assay.serve.ui.context import Ui, asked_for, download, posted, slice_of, ui_of
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
SORTABLE = (*(name for name in USUAL if name != "interval"), "answers", "p50")
NUMERIC = ("mean", "change", "failed", "answers", "p50", "p95")
MAX_TREND = 5000  # runs of one trend, the newest of them
_MAX_GROUPS = 100


def runs_page(request: Request) -> Response:
    """The runs that match the search, as a list, a board or groups."""
    ui = ui_of(request)
    ui.index.refresh()
    asked = asked_for(request, "q", "only", "view", "metric")
    problem, search = "", parse_search("")
    try:
        search = parse_search(asked["q"])
    except UsageError as error:
        problem = str(error)
    found = ui.index.lines(search)
    chips = {
        "gate failed": [line for line in found if line.gates_failed],
        "got worse": [x for x in found if (c := x.change) and c.significant and not c.better],
        "with answers": [line for line in found if line.answers_by],
        "incomplete": [line for line in found if line.state != RunState.COMPLETE],
        "has failures": [line for line in found if line.failed],
    }
    shown = chips.get(asked["only"], found)
    page = partial(
        ui.page,
        request,
        asked=asked,
        problem=problem,
        chips={"": len(found)} | {name: len(lines) for name, lines in chips.items()},
        total=len(ui.index.lines()),
        folder=ui.runs,
    )
    if asked["view"] == "board":
        newest = oldest_first(newest_of_each_target(shown))
        boards = make_boards(ui.runs, newest, asked["metric"])
        return page("board.html", boards=[board for board in boards if board.places])
    if asked["view"] == "groups":
        return page("groups.html", groups=group_lines(shown)[:_MAX_GROUPS])
    sort = request.query_params.get("sort", "-when")
    return _list_page(page, request, sort_lines(shown, sort), sort, asked["metric"])


def _list_page(
    page: Callable[..., Response],
    request: Request,
    lines: Sequence[RunLine],
    sort: str,
    metric: str,
) -> Response:
    values: dict[str, Estimate] = {}
    figures = Counter[str]()
    pages = slice_of(request, len(lines))
    # A metric that somebody chose may sort the list, which needs it of every run.
    for point in oldest_first(lines if metric else lines[pages.skip : pages.last]):
        figures.update(filter(is_score, point.values))
        if (name := metric or point.metric or "") in point.values:
            values[point.name] = point.values[name]
    if metric and sort.removeprefix("-") == "mean":
        means = {name: value.mean for name, value in values.items()}
        lines = sort_lines(lines, sort, lambda line: means.get(line.name))
    lines = lines[pages.skip : pages.last]
    shown = [values[line.name] for line in lines if line.name in values]
    ends = [v.mean if end is None else end for v in shown for end in (v.low, v.high)]
    columns = [name for name in request.query_params.getlist("col") if name in COLUMNS] or USUAL
    headlines = Counter(line.metric for line in lines if line.metric)
    return page(
        "runs.html",
        lines=lines,
        pages=pages,
        sort=sort,
        values=values,
        axis=(floor(min(ends, default=0) * 10) / 10, ceil(max(ends, default=1) * 10) / 10),
        columns=[name for name in COLUMNS if name in columns],
        every_column=COLUMNS,
        sortable=SORTABLE,
        numeric=NUMERIC,
        metric=metric or (headlines.most_common(1)[0][0] if headlines else ""),
        metrics=[name for name, _ in figures.most_common(40)],
    )


async def act_on_chosen(request: Request) -> Response:
    """Compare, grade or export the runs that were chosen in the list.

    The export is a CSV file: one line a run, each figure with its interval.
    """
    return await asyncio.to_thread(_act, request, await posted(request))


def _act(request: Request, values: Sequence[tuple[str, str]]) -> Response:
    ui, asked = ui_of(request), dict(values)
    lines = ui.chosen_lines(values)
    names = [line.name for line in lines]
    if not lines:
        raise UsageError("choose runs in the list first")
    if asked.get("do") == "grade":
        return grade_runs(request, lines, asked.get("query", ""))
    if asked.get("do") == "export":
        runs = [ExportedRun.read(RunFolder(ui.runs / name)) for name in names]
        figures = list(dict.fromkeys(name for run in runs for name in run.report.figures))
        table = io.BytesIO()
        write_rows(run_rows(runs, figures), "csv", table, run_columns(figures))
        return download(table.getvalue(), "runs.csv", "text/csv")
    change = lines[0].change
    if len(names) == 1 and change is not None:
        names = [change.previous, *names]
    return RedirectResponse(f"/compare?{urlencode([('run', name) for name in names])}", 303)


# --- trends --------------------------------------------------------------------------------------


def _trend_sets(ui: Ui) -> list[list[RunLine]]:
    """The complete runs of each target on each data set; the most comparable runs first."""
    sets: dict[tuple[str | None, ...], list[RunLine]] = {}
    for line in ui.index.lines(lambda line: line.state == RunState.COMPLETE):
        sets.setdefault((line.target, line.dataset, line.split), []).append(line)

    def size(lines: Sequence[RunLine]) -> int:
        return max((len(group) for group in group_lines(lines)), default=0)

    return sorted(sets.values(), key=size, reverse=True)


def trends_page(request: Request) -> Response:
    """One chart of the set that the address names, else of the largest."""
    ui = ui_of(request)
    ui.index.refresh()
    asked = asked_for(request, "target", "dataset", "split", "metric", "branch", "since", "until")
    sets, names = _trend_sets(ui), ("target", "dataset", "split")
    wanted = [
        lines
        for lines in sets
        if all(asked[name] in ("", getattr(lines[0], name)) for name in names)
    ]
    if not wanted:
        return ui.page(request, "trend.html", sets=sets, chosen=None)
    every = oldest_first(wanted[0][:MAX_TREND])
    points = [
        point
        for point in every
        if asked["branch"] in ("", point.branch_title)
        and asked["since"] <= (day := (point.started or "")[:10])
        and (not asked["until"] or day <= asked["until"])
        and point.answered
    ]
    figures = list(dict.fromkeys(name for found in reversed(points) for name in found.values))
    headline = points[-1].metric if points else ""
    choices = [name for name in (asked["metric"], headline, *figures) if name in figures]
    return ui.page(
        request,
        "trend.html",
        asked=asked,
        sets=sets,
        chosen=wanted[0][0],
        trend=build_trend(points, choices[0]) if choices else None,
        figures=figures,
        branches=sorted({point.branch_title for point in every}),
    )

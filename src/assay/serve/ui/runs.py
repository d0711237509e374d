"""The list of runs, the report of a run, and comparisons."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.dataset import Dataset
from assay.errors import UsageError
from assay.evaluation.reporting import render_report_page
from assay.report.html import QueryFigures, RunView, hide_password, run_view
from assay.report.html_comparison import (
    ComparedSide,
    ComparisonView,
    comparison_view,
    render_comparison_view,
)
from assay.run.comparison import compare_with_each
from assay.run.folder import RunFolder, remove_run
from assay.run.index import FILTERS, ONLY, RunLine
from assay.run.listing import comparable_key
from assay.run.state import RunState
from assay.serve.ui.context import PER_PAGE, DatasetKey, Ui, chosen_runs, download, slice_of, ui_of
from assay.serve.ui.evaluation_form import repeat_query
from assay.serve.ui.evaluations import LiveRun, event_stream, follow
from assay.serve.ui.trends import trend_spark

COMPARED_LIMIT = 6
_OFFERED = 100
_OTHERS = 40


def run_routes() -> list[BaseRoute]:
    """The list, the pages and files of each run, and comparisons."""
    return [
        Route("/", runs_page),
        Route("/runs/{name}", run_page),
        Route("/runs/{name}/events", run_events),
        Route("/runs/{name}/report.html", html_file),
        Route("/runs/{name}/report.json", json_file),
        Route("/compare", compare_page),
        Route("/compare.html", comparison_file),
        Route("/delete", confirm_delete, methods=["GET"]),
        Route("/delete", delete_runs, methods=["POST"]),
    ]


async def runs_page(request: Request) -> Response:
    """All runs, filtered and in pages, with the trend of each target."""
    ui = ui_of(request)
    await ui.refresh()
    names = (*FILTERS, "text", "only", "since")
    asked = {name: request.query_params.get(name, "") for name in names}
    filters = {name: value for name, value in asked.items() if value}
    sort = request.query_params.get("sort", "-started")
    pages = slice_of(request, ui.index.find(filters, limit=0).total)
    trends = [] if pages.previous else ui.index.trends(filters)
    lines = ui.index.find(filters, skip=pages.skip, limit=PER_PAGE, sort=sort).lines
    return ui.page(
        request,
        "runs.html",
        lines=lines,
        answers=any(line.correctness is not None for line in lines),
        pages=pages,
        running=ui.index.find({"state": RunState.RUNNING}).lines,
        trends=[(trend, trend_spark(trend)) for trend in trends],
        filters=asked,
        choices=ui.index.choices(),
        only=list(ONLY),
        labels=any(line.label or line.branch for line in lines),
        sort=sort,
        sorted_by=lambda column, down: _sort_link(request, sort, column, down),
        folder=ui.runs,
    )


def _sort_link(request: Request, sort: str, column: str, down: bool) -> str:
    """The address of this list in another order; the same column again turns it around."""
    first, second = (f"-{column}", column) if down else (column, f"-{column}")
    url = request.url.include_query_params(sort=second if sort == first else first)
    return f"{url.path}?{url.remove_query_params('page').query}"


async def run_page(request: Request) -> Response:
    """The report of a run, or its progress where it is not finished."""
    ui = ui_of(request)
    line, folder = await ui.run(request)
    dataset = await ui.datasets.of(folder.read_header())
    if line.state == RunState.RUNNING or not folder.report_file.exists():
        return await _unfinished(request, ui, line, folder, dataset)
    view = await asyncio.to_thread(_view, folder, dataset)
    again = repeat_query(view.report.config, hide_password)
    others = _comparable(ui, line)
    return ui.page(request, "run.html", run=view, line=line, others=others, again=again)


async def run_events(request: Request) -> Response:
    """The progress of a run, as server-sent events."""
    ui = ui_of(request)
    _, folder = await ui.run(request)
    dataset = await ui.datasets.of(folder.read_header())
    return event_stream(follow(folder, dataset), f"/runs/{folder.name}")


async def html_file(request: Request) -> Response:
    """The page as a file, rendered again: the one in the folder may lack grades and texts."""
    ui = ui_of(request)
    _, folder = await ui.run(request)
    dataset = await ui.datasets.of(folder.read_header())
    page = await asyncio.to_thread(render_report_page, folder, dataset)
    return download(page, f"{folder.name}.html")


async def json_file(request: Request) -> Response:
    """`report.json` as a file."""
    _, folder = await ui_of(request).run(request)
    require_report(folder)
    name = f"{folder.name}.json"
    return FileResponse(folder.report_file, media_type="application/json", filename=name)


async def compare_page(request: Request) -> Response:
    """The runs that the address names side by side, or a form to choose them."""
    ui = ui_of(request)
    names = [line.name for line in await ui.chosen_lines(request)]
    if len(names) > COMPARED_LIMIT:
        raise UsageError(f"at most {COMPARED_LIMIT} runs are compared at once, got {len(names)}")
    if len(names) < 2:
        lines = ui.index.find({"state": RunState.COMPLETE}, limit=_OFFERED).lines
        return ui.page(
            request, "compare_choice.html", lines=lines, chosen=names, limit=COMPARED_LIMIT
        )
    view = await _comparison(ui, names)
    query = request.url.query
    return ui.page(request, "compare.html", compared=view, links=True, query=query)


async def comparison_file(request: Request) -> Response:
    """The same comparison as one file."""
    ui = ui_of(request)
    names = [line.name for line in await ui.chosen_lines(request)]
    if not 2 <= len(names) <= COMPARED_LIMIT:
        raise HTTPException(422, f"choose 2 to {COMPARED_LIMIT} runs to compare, got {len(names)}")
    view = await _comparison(ui, names)
    return download(await asyncio.to_thread(render_comparison_view, view), "comparison.html")


async def _comparison(ui: Ui, names: Sequence[str]) -> ComparisonView:
    folders = [RunFolder(ui.runs / name) for name in names]
    dataset = await ui.datasets.of(*(folder.read_header() for folder in folders))
    async with ui.comparing:
        return await asyncio.to_thread(_compared, folders, dataset)


async def confirm_delete(request: Request) -> Response:
    """The runs that would be deleted, and a button that does it."""
    ui = ui_of(request)
    lines = await ui.chosen_lines(request)
    if not lines:
        return RedirectResponse("/", 303)
    names = [line.name for line in lines]
    kept = [(line, why) for line in lines if (why := _why_kept(ui, line, names))]
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
    """Why a run cannot be deleted together with the chosen ones, in a sentence; empty if it can."""
    started = ui.evaluations.of_run(line.name)
    if line.state == RunState.RUNNING or (started is not None and not started.ended):
        return f"run {line.name!r} is running; cancel it, or wait until it has ended"
    if (ui.runs / line.name).is_symlink():
        return f"run {line.name!r} is a link to another folder; remove the link yourself"
    of = line.baseline_of
    if of and of not in chosen and ui.index.get(of) is not None:
        return f"run {line.name!r} is the baseline of run {of!r}; delete that one too, or first"
    return ""


def require_report(folder: RunFolder) -> None:
    """Answer 404 for a run that has no report."""
    if not folder.report_file.exists():
        raise HTTPException(404, f"run {folder.name!r} has no report yet")


async def _unfinished(
    request: Request, ui: Ui, line: RunLine, folder: RunFolder, dataset: Dataset | None
) -> Response:
    view = await asyncio.to_thread(lambda: LiveRun(folder, dataset).look())
    events = f"/runs/{folder.name}/events" if line.state == RunState.RUNNING else ""
    return ui.page(
        request,
        "running.html",
        line=line,
        view=view if events else replace(view, message="stopped before it finished", left=""),
        events=events,
        path=folder.path,
        started=ui.evaluations.of_run(folder.name),
    )


def _comparable(ui: Ui, line: RunLine) -> list[RunLine]:
    """Other runs on the same judgments: first what compares best, and of that the newest."""
    filters = {"dataset": line.dataset or "", "split": line.split or ""}
    found = [
        other
        for other in ui.index.find(filters, limit=_OTHERS).lines
        if other.name != line.name
        and other.mean is not None
        and other.fingerprint == line.fingerprint
    ]
    key = comparable_key(line)
    found.sort(
        key=lambda each: (
            each.state != RunState.COMPLETE, comparable_key(each) != key, each.target != line.target
        )
    )  # fmt: skip
    return found


def _view(folder: RunFolder, dataset: Dataset | None) -> RunView:
    return _cached_view(str(folder.path), _changed_at(folder), DatasetKey(dataset))


def _changed_at(folder: RunFolder) -> int:
    return max(path.stat().st_mtime_ns for path in folder.path.iterdir())


@lru_cache(maxsize=16)
def _cached_view(path: str, _changed: int, key: DatasetKey) -> RunView:
    """A report of 100,000 queries takes seconds to read; the second look at it does not."""
    folder = RunFolder(Path(path))
    report = folder.read_report()
    figures = QueryFigures(report.headline[0], key.dataset.queries if key.dataset else {})
    for row in folder.read_rows():
        figures.add(row)
    return run_view(
        report,
        figures,
        name=folder.name,
        dataset=key.dataset,
        answers=folder.read_answers(),
        query_links=f"/runs/{folder.name}/queries/",
        question_links=f"/runs/{folder.name}/questions",
    )


def _compared(folders: Sequence[RunFolder], dataset: Dataset | None) -> ComparisonView:
    changed = tuple((str(folder.path), _changed_at(folder)) for folder in folders)
    return _cached_comparison(changed, DatasetKey(dataset))


@lru_cache(maxsize=16)
def _cached_comparison(changed: tuple[tuple[str, int], ...], key: DatasetKey) -> ComparisonView:
    """As long as no file of the runs has changed; the view holds few of their rows."""
    dataset = key.dataset
    sides = [ComparedSide.read(RunFolder(Path(path))) for path, _ in changed]
    first, *others = [each.compared for each in sides]
    comparisons = compare_with_each(first, others)
    return comparison_view(sides, comparisons, dataset)

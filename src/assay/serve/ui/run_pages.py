"""The page of a run, the comparison of runs, and both as files."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.dataset import Dataset, Query
from assay.errors import UsageError
from assay.evaluation.reporting import render_report_page
from assay.report.documents import EXCERPT, JudgedDocuments, kind_of
from assay.report.html import QueryFigures, QueryLine, RunPage, Searches, hide_password
from assay.report.html_comparison import (
    ComparedSide,
    ComparePage,
    compare_page,
    render_compare_file,
)
from assay.report.slices import ordered
from assay.run.calls import CallLog, first_failure
from assay.run.comparison import compare_with_each
from assay.run.folder import RunFolder
from assay.run.index import RunLine
from assay.run.judge_log import read_judge_calls
from assay.run.listing import comparable_key
from assay.run.models import AnswerRow, Comparison
from assay.run.state import RunState
from assay.serve.ui.context import DatasetKey, Ui, address, download, slice_of, ui_of
from assay.serve.ui.evaluation_form import repeat_query
from assay.serve.ui.evaluations import LiveRun, event_stream, follow
from assay.serve.ui.runs import COMPARED_LIMIT

Compared = tuple[list[ComparedSide], list[Comparison]]
_OTHERS = 6
_OFFERED = 40
_SORTS: Mapping[str, Callable[[QueryLine], Any]] = {
    "score": lambda line: line.score,
    "latency": lambda line: line.latency_ms,
    "found": lambda line: line.found,
    "text": lambda line: line.text.lower(),
}
COMPARE_TABS = {
    "queries": "Queries",
    "documents": "Documents",
    "metrics": "Metrics",
    "settings": "Settings",
}


def run_routes() -> list[BaseRoute]:
    """The page and files of each run, and comparisons; earlier addresses lead to them."""
    return [
        Route("/runs/{name}", run_page),
        Route("/runs/{name}/events", run_events),
        Route("/runs/{name}/report.html", html_file),
        Route("/runs/{name}/report.json", json_file),
        Route("/runs/{name}/queries", _moved_to_tab),
        Route("/runs/{name}/questions", _moved_to_tab),
        Route("/runs/{name}/{list:str}/{query_id:path}", _moved_to_tab),
        Route("/compare", comparison_page),
        Route("/compare.html", comparison_file),
    ]


async def _moved_to_tab(request: Request) -> Response:
    asked = request.path_params
    answers = "questions" in request.url.path.split("/")
    url = request.url.replace(path=f"/runs/{asked['name']}", query="")
    url = url.include_query_params(tab="answers" if answers else "queries")
    if "query_id" in asked:
        url = url.include_query_params(query=asked["query_id"])
    return RedirectResponse(f"{url.path}?{url.query}", 308)


async def run_page(request: Request) -> Response:
    """A tab of a run, or its progress while it is not finished."""
    ui = ui_of(request)
    line, folder = await ui.run(request)
    dataset = await ui.datasets.of(folder.read_header())
    if line.state == RunState.RUNNING or not folder.report_file.exists():
        return await _unfinished(request, ui, line, folder, dataset)
    page = await asyncio.to_thread(_run_page, folder, dataset)
    names = [name for name, _ in page.tabs]
    tab = request.query_params.get("tab", "")
    tab = tab if tab in names else names[0]
    values: dict[str, Any] = {"run": page, "tab": tab, "line": line, "panel": None}
    values |= {
        "change": ui.index.change(line),
        "again": repeat_query(page.report.config, hide_password),
    }
    if tab == "queries":
        values |= _query_list(request, page)
    elif tab == "answers":
        values |= _answer_list(request, page)
    if values.get("selected"):
        values["panel"] = await asyncio.to_thread(_panel, ui, line, folder, values["selected"])
    values["others"] = _comparable(ui, line)
    return ui.page(request, "run.html", **values)


def _query_list(request: Request, page: RunPage) -> dict[str, Any]:
    asked = {name: request.query_params.get(name, "") for name in ("q", "slice", "sort", "query")}
    lines = page.figures.lines
    sizes = Counter(found for line in lines for found in line.slices)
    words = asked["q"].lower()
    chosen = [
        line
        for line in lines
        if words in f"{line.query_id} {line.text}".lower()
        and (not asked["slice"] or any(found.key == asked["slice"] for found in line.slices))
    ]
    sort = asked["sort"] or "score"
    value = _SORTS.get(sort.removeprefix("-"), _SORTS["score"])
    having = [line for line in chosen if value(line) is not None]
    having.sort(key=value, reverse=sort.startswith("-"))
    chosen = [*having, *(line for line in chosen if value(line) is None)]
    pages = slice_of(request, len(chosen))
    rows = chosen[pages.skip : pages.last]
    return {
        "asked": {**asked, "sort": sort},
        "rows": rows,
        "pages": pages,
        "slices": [(found, sizes[found]) for found in ordered(sizes)],
        "selected": _selected(asked["query"], lines, rows),
        "sort_link": lambda name, down=False: address(
            request,
            page="",
            sort=name if (sort == f"-{name}" or (not down and sort != name)) else f"-{name}",
        ),
    }


def _sort_link(request: Request, sort: str, name: str, *, down: bool) -> str:
    first, second = (f"-{name}", name) if down else (name, f"-{name}")
    return address(request, page="", sort=second if sort == first else first)


def _answer_list(request: Request, page: RunPage) -> dict[str, Any]:
    asked = {name: request.query_params.get(name, "") for name in ("q", "kind", "query")}
    words, order = asked["q"].lower(), list(page.kinds)
    chosen = [
        row
        for row in page.answers
        if words in f"{row.query_id} {row.query_text} {row.answer or ''}".lower()
        and asked["kind"] in ("", kind_of(row))
    ]
    chosen.sort(key=lambda row: order.index(kind_of(row)))
    pages = slice_of(request, len(chosen))
    rows = chosen[pages.skip : pages.last]
    selected = _selected(asked["query"], page.answers, rows)
    return {"asked": asked, "rows": rows, "pages": pages, "selected": selected}


def _selected(
    asked: str, every: Sequence[QueryLine | AnswerRow], rows: Sequence[QueryLine | AnswerRow]
) -> str:
    """The query that is asked for, else the first of the list; 404 for one that the run lacks."""
    if asked and not any(row.query_id == asked for row in every):
        raise HTTPException(404, f"the run has no query {asked!r}")
    return asked or (rows[0].query_id if rows else "")


def _panel(ui: Ui, line: RunLine, folder: RunFolder, query_id: str) -> dict[str, Any]:
    """All that is known about one query of a run, and about the same query in other runs."""
    others = []
    for other in _comparable(ui, line)[:_OTHERS]:
        row = RunFolder(ui.runs / other.name).find_row(query_id)
        if row is not None:
            others.append((other, row))
    answer = next((row for row in folder.read_answers() if row.query_id == query_id), None)
    return {
        "row": folder.find_row(query_id),
        "answer": answer,
        "call": next(CallLog(folder.calls_file).read([Query(query_id, "")]), None),
        "judge_calls": list(read_judge_calls(folder.path, query_id)),
        "others": others,
    }


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
    if not folder.report_file.exists():
        raise HTTPException(404, f"run {folder.name!r} has no report yet")
    name = f"{folder.name}.json"
    return FileResponse(folder.report_file, media_type="application/json", filename=name)


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
    found = ui.index.lines(
        lambda other: (
            other.name != line.name
            and other.mean is not None
            and other.fingerprint == line.fingerprint
            and other.split == line.split
        )
    )
    key = comparable_key(line)
    found.sort(
        key=lambda other: (
            other.state != RunState.COMPLETE,
            comparable_key(other) != key,
            other.target != line.target,
        )
    )
    return found[:_OFFERED]


async def comparison_page(request: Request) -> Response:
    """2 to 20 runs side by side; the oldest is the reference unless `ref` names another."""
    ui = ui_of(request)
    page = await _compare(request, ui)
    tab = request.query_params.get("tab", "")
    tab = tab if tab in COMPARE_TABS else "queries"
    asked = {name: request.query_params.get(name, "") for name in ("q", "slice", "query")}
    words = asked["q"].lower()
    chosen = [
        change
        for change in page.queries
        if words in f"{change.query_id} {change.text}".lower()
        and (not asked["slice"] or any(found.key == asked["slice"] for found in change.slices))
    ]
    if request.query_params.get("sort") == "-gain":
        chosen.reverse()
    pages = slice_of(request, len(chosen))
    rows = chosen[pages.skip : pages.last]
    selected = next((one for one in page.queries if one.query_id == asked["query"]), None)
    line = ui.lines([page.a.name])[0]
    names = {side.name for side in page.sides}
    return ui.page(
        request,
        "compare.html",
        compared=page,
        tab=tab,
        tabs=COMPARE_TABS,
        asked=asked,
        rows=rows,
        pages=pages,
        place={change.query_id: number for number, change in enumerate(chosen, start=1)},
        selected=selected or (rows[0] if rows else None),
        offered=[other for other in _comparable(ui, line) if other.name not in names]
        if line
        else [],
        query=request.url.query,
    )


async def comparison_file(request: Request) -> Response:
    """The same comparison as one file."""
    page = await _compare(request, ui_of(request))
    page = replace(page, server=False, docs=replace(page.docs, excerpt=EXCERPT))
    return download(await asyncio.to_thread(render_compare_file, page), "comparison.html")


async def _compare(request: Request, ui: Ui) -> ComparePage:
    lines = sorted(await ui.chosen_lines(request), key=lambda line: (line.started or "", line.name))
    if not 2 <= len(lines) <= COMPARED_LIMIT:
        raise UsageError(f"choose 2 to {COMPARED_LIMIT} runs to compare, got {len(lines)}")
    names = [line.name for line in lines]
    if (reference := request.query_params.get("ref")) in names:
        names.sort(key=lambda name: name != reference)
    folders = [RunFolder(ui.runs / name) for name in names]
    dataset = await ui.datasets.of(*(folder.read_header() for folder in folders))
    b = request.query_params.get("b", "")
    chosen = names.index(b) - 1 if b in names[1:] else len(names) - 2
    changed = tuple((str(folder.path), _changed_at(folder)) for folder in folders)
    metric, key = request.query_params.get("metric", ""), DatasetKey(dataset)
    async with ui.comparing:
        return await asyncio.to_thread(_cached_comparison, changed, key, chosen, metric)


def _changed_at(folder: RunFolder) -> int:
    return max(path.stat().st_mtime_ns for path in folder.path.iterdir())


def _run_page(folder: RunFolder, dataset: Dataset | None) -> RunPage:
    return _cached_page(str(folder.path), _changed_at(folder), DatasetKey(dataset))


@lru_cache(maxsize=8)
def _cached_page(path: str, _changed: int, key: DatasetKey) -> RunPage:
    """A report of 100,000 queries takes seconds to read; the second look at it does not."""
    folder = RunFolder(Path(path))
    report = folder.read_report()
    figures = QueryFigures(report.headline[0], key.dataset.queries if key.dataset else {})
    for row in folder.read_rows():
        figures.add(row)
    docs = JudgedDocuments.of(report.config, key.dataset, excerpt=None)
    answers = list(folder.read_answers())
    cause = "" if report.config.private else first_failure(folder.calls_file)
    header = folder.read_header()
    return RunPage(
        folder.name,
        report,
        header,
        figures,
        docs,
        answers,
        server=True,
        cause=cause,
        searches=Searches.of(folder),
    )


@lru_cache(maxsize=4)
def _cached_sides(changed: tuple[tuple[str, int], ...]) -> Compared:
    """As long as no file of the runs has changed."""
    sides = [ComparedSide.read(RunFolder(Path(path))) for path, _ in changed]
    first, *others = [side.compared for side in sides]
    return sides, compare_with_each(first, others)


@lru_cache(maxsize=8)
def _cached_comparison(
    changed: tuple[tuple[str, int], ...], key: DatasetKey, chosen: int, metric: str
) -> ComparePage:
    """Slices and lost documents take a while, and every click in the list needs them again."""
    sides, comparisons = _cached_sides(changed)
    return compare_page(
        sides, comparisons, key.dataset, chosen=chosen, metric=metric, excerpt=None, server=True
    )

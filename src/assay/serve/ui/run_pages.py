"""The page of a run, the comparison of runs, and both as files."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from assay.data.dataset import Query
from assay.errors import UsageError
from assay.report.html import EXCERPT, QueryLine, RunPage, kind_of, render_run
from assay.report.html_comparison import (
    COMPARE_TABS,
    ComparePage,
    QueryChange,
    compare_page,
    render_compare_file,
)
from assay.run.calls import CallLog
from assay.run.comparison import ComparedRun, compare_with_each
from assay.run.folder import RunFolder
from assay.run.listing import RunLine
from assay.run.models import AnswerRow, RunState
from assay.serve.ui.context import PER_PAGE, Ui, asked_for, download, slice_of, ui_of
from assay.serve.ui.evaluate import repeat_query
from assay.serve.ui.evaluations import LiveRun, event_stream, follow
from assay.serve.ui.runs import COMPARED_LIMIT

_Line = TypeVar("_Line", QueryLine, QueryChange)

_MAX_OTHERS = 6
_MAX_OFFERED = 40
_SORTS: Mapping[str, Callable[[QueryLine], Any]] = {
    "score": lambda line: line.score,
    "latency": lambda line: line.latency_ms,
    "found": lambda line: line.found,
    "text": lambda line: line.text.lower(),
}


def run_page(request: Request) -> Response:
    """A tab of a run, or its progress while it is not finished."""
    ui = ui_of(request)
    line, folder = ui.run(request)
    dataset = ui.dataset(folder.read_header())
    if line.state == RunState.RUNNING or not folder.report_file.exists():
        view = LiveRun(folder, dataset).look()
        started = ui.evaluations.of_run(line)
        is_live = started or line.state == RunState.RUNNING
        if not is_live:
            view = replace(view, message="stopped before it finished", left="")
        events = f"/runs/{folder.name}/events" if is_live else ""
        live = partial(ui.page, request, "running.html", line=line, view=view, path=folder.path)
        return live(events=events, started=started)
    # A report of 100,000 queries takes seconds to read; the second look at it does not.
    key = (folder.path, _changed_at(folder), dataset is None)
    read = partial(RunPage.read, folder, dataset, server=True)
    run = ui.recent.get(key, read)
    names = [name for name, _ in run.tabs]
    tab = request.query_params.get("tab", "")
    tab = tab if tab in names else names[0]
    others = _comparable(ui, line)
    page = partial(
        ui.page,
        request,
        "run.html",
        run=run,
        tab=tab,
        line=line,
        change=line.change,
        again=repeat_query(run.report.config),
        others=others,
    )
    if tab not in ("queries", "answers"):
        return page(panel=None)
    asked = asked_for(request, "q", "slice", "sort", "kind", "query")
    asked["sort"] = asked["sort"] or "score"
    every: Sequence[QueryLine | AnswerRow] = run.figures.lines if tab == "queries" else run.answers
    chosen = _chosen_queries(run, asked) if tab == "queries" else _chosen_answers(run, asked)
    pages = slice_of(request, len(chosen))
    rows = chosen[pages.skip : pages.last]
    if asked["query"] and all(row.query_id != asked["query"] for row in every):
        raise HTTPException(404, f"the run has no query {asked['query']!r}")
    selected = asked["query"] or (rows[0].query_id if rows else "")
    # The row of a query is looked for in the whole file of each of the others.
    theirs = [(line, RunFolder(ui.runs / line.name)) for line in others[:_MAX_OTHERS]]
    panel = _panel(folder, selected, theirs) if selected else None
    return page(asked=asked, rows=rows, pages=pages, selected=selected, panel=panel)


def _chosen_queries(run: RunPage, asked: Mapping[str, str]) -> Sequence[QueryLine]:
    chosen, sort = _matching(run.figures.lines, asked), asked["sort"]
    value = _SORTS.get(sort.removeprefix("-"), _SORTS["score"])
    having = [line for line in chosen if value(line) is not None]
    having.sort(key=value, reverse=sort.startswith("-"))
    return [*having, *(line for line in chosen if value(line) is None)]


def _matching(lines: Iterable[_Line], asked: Mapping[str, str]) -> list[_Line]:
    """The queries that have the words and are in the slice that the address asks for."""
    words, key = asked["q"].lower(), asked["slice"]
    return [
        line
        for line in lines
        if words in f"{line.query_id} {line.text}".lower()
        and (not key or any(found.key == key for found in line.slices))
    ]


def _chosen_answers(run: RunPage, asked: Mapping[str, str]) -> Sequence[AnswerRow]:
    words, order = asked["q"].lower(), list(run.kinds)
    chosen = [
        row
        for row in run.answers
        if words in f"{row.query_id} {row.query_text} {row.answer or ''}".lower()
        and asked["kind"] in ("", kind_of(row))
    ]
    return sorted(chosen, key=lambda row: order.index(kind_of(row)))


def _panel(
    folder: RunFolder, query_id: str, others: Iterable[tuple[RunLine, RunFolder]]
) -> dict[str, object]:
    """All that is known about one query of a run, with its rows in `others`."""
    rows = [(line, other.find_row(query_id)) for line, other in others]
    return {
        "row": folder.find_row(query_id),
        "answer": next((row for row in folder.read_answers() if row.query_id == query_id), None),
        "call": next(CallLog(folder.calls_file).read([Query(query_id, "")]), None),
        "judge_calls": list(folder.read_judge_calls(query_id)),
        "others": [(line, row) for line, row in rows if row is not None],
    }


def run_events(request: Request) -> Response:
    """The progress of a run, as server-sent events."""
    ui = ui_of(request)
    line, folder = ui.run(request)
    dataset = ui.dataset(folder.read_header())
    started = ui.evaluations.of_run(line)
    return event_stream(follow(folder, dataset, started), f"/runs/{folder.name}")


def html_file(request: Request) -> Response:
    """The page as a file, rendered again: the one in the folder may lack grades and texts."""
    ui = ui_of(request)
    _, folder = ui.run(request)
    return download(render_run(folder, ui.dataset(folder.read_header())), f"{folder.name}.html")


def _comparable(ui: Ui, line: RunLine) -> list[RunLine]:
    """Other runs on the same judgments: first what compares best, and of that the newest."""
    found = ui.index.lines(
        lambda other: (
            other.name != line.name
            and other.answered > 0
            and (other.fingerprint, other.split) == (line.fingerprint, line.split)
        )
    )
    key = line.comparable

    def distance(other: RunLine) -> tuple[bool, ...]:
        is_incomplete = other.state != RunState.COMPLETE
        return is_incomplete, other.comparable != key, other.target != line.target

    return sorted(found, key=distance)[:_MAX_OFFERED]


def comparison_page(request: Request) -> Response:
    """2 to 20 runs side by side; the oldest is the reference unless `ref` names another."""
    ui = ui_of(request)
    page = _compare(request, ui)
    asked = asked_for(request, "q", "slice", "query", "tab", "sort")
    chosen = _matching(page.queries, asked)
    if asked["sort"] == "-gain":
        chosen.reverse()
    # Each link names all runs: of many, fewer queries keep the page under 150 kB.
    pages = slice_of(request, len(chosen), PER_PAGE if len(page.sides) < 9 else PER_PAGE // 2)
    rows = chosen[pages.skip : pages.last]
    selected = next((one for one in page.queries if one.query_id == asked["query"]), None)
    names = [side.name for side in page.sides]
    return ui.page(
        request,
        "compare.html",
        compared=page,
        tab=asked["tab"] if asked["tab"] in COMPARE_TABS else "queries",
        tabs=COMPARE_TABS,
        asked=asked,
        rows=rows,
        pages=pages,
        chosen=chosen,
        selected=selected or (rows[0] if rows else None),
        offered=[o for o in _comparable(ui, ui.lines(names)[0]) if o.name not in names],
        query=request.url.query,
    )


def comparison_file(request: Request) -> Response:
    """The same comparison as one file."""
    page = _compare(request, ui_of(request))
    page = replace(page, server=False, docs=replace(page.docs, excerpt=EXCERPT))
    return download(render_compare_file(page), "comparison.html")


def _compare(request: Request, ui: Ui) -> ComparePage:
    lines = ui.chosen_lines(request.query_params.multi_items())
    if not 2 <= len(lines) <= COMPARED_LIMIT:
        raise UsageError(f"choose 2 to {COMPARED_LIMIT} runs to compare, got {len(lines)}")
    asked = asked_for(request, "ref", "b", "metric")
    lines.sort(key=lambda line: (line.name != asked["ref"], line.started or "", line.name))
    folders = [RunFolder(ui.runs / line.name) for line in lines]
    others = [line.name for line in lines[1:]]
    chosen = others.index(asked["b"]) if asked["b"] in others else len(others) - 1
    dataset = ui.dataset(*(folder.read_header() for folder in folders))
    changed = tuple((folder.path, _changed_at(folder)) for folder in folders)

    def compared() -> ComparePage:
        sides = [ComparedRun.read(folder, keep_rows=True) for folder in folders]
        found = compare_with_each(sides[0], sides[1:])
        return compare_page(sides, found, dataset, server=True)

    # Slices and lost documents take a while, and every click in the list needs them again.
    key = (changed, dataset is None)
    choose = partial(ui.recent.get(key, compared).choose, chosen, asked["metric"])
    return ui.recent.get((key, chosen, asked["metric"]), choose)


def _changed_at(folder: RunFolder) -> int:
    return max(path.stat().st_mtime_ns for path in folder.path.iterdir())

"""The list of runs with their trends, and a run's page, which is its report."""

import asyncio
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.dataset import Dataset
from assay.evaluation.report_page import read_answer_rows, report_page
from assay.evaluation.report_reading import read_rows
from assay.evaluation.run_folder import RunFolder
from assay.evaluation.run_index import FILTERS, Trend
from assay.evaluation.run_lines import DAMAGED, RUNNING, Line
from assay.report.html import run_view
from assay.report.plots import sparkline
from assay.serve.ui.context import PER_PAGE, Ui, slice_of, ui_of
from assay.serve.ui.evaluation_form import form_fields
from assay.serve.ui.live import last_look

_OTHERS = 40


def run_routes() -> list[BaseRoute]:
    return [
        Route("/", runs),
        Route("/runs/{name}", run),
        Route("/runs/{name}/report.html", as_html),
        Route("/runs/{name}/report.json", as_json),
    ]


async def runs(request: Request) -> Response:
    ui = ui_of(request)
    await ui.refresh()
    asked = {name: request.query_params.get(name, "") for name in (*FILTERS, "text")}
    filters = {name: value for name, value in asked.items() if value}
    pages = slice_of(request, ui.index.find(filters, limit=0).total)
    trends = [] if pages.previous else ui.index.trends(filters)
    lines = ui.index.find(filters, skip=pages.skip, limit=PER_PAGE).lines
    return ui.page(
        request,
        "runs.html",
        lines=lines,
        answers=any(line["correctness"] is not None for line in lines),
        pages=pages,
        running=ui.index.find({"state": RUNNING}).lines,
        trends=[(trend, _spark(trend)) for trend in trends],
        filters=asked,
        choices=ui.index.choices(),
        folder=ui.runs,
    )


async def run(request: Request) -> Response:
    ui = ui_of(request)
    line, folder = await ui.run(request)
    if line["state"] == DAMAGED:
        raise HTTPException(409, f"run {folder.name!r} cannot be read: its files are damaged")
    dataset = await ui.datasets.of(folder.read_header())
    if line["state"] == RUNNING or not folder.report.exists():
        return await _unfinished(request, ui, line, folder, dataset)
    view = await asyncio.to_thread(_view, folder, dataset)
    again = urlencode(form_fields(view["config"] | {"gates": view["head"]["config"]["gates"]}))
    others = _comparable(ui, line)
    return ui.page(request, "run.html", run=view, line=line, others=others, again=again)


async def as_html(request: Request) -> Response:
    """The static page, made anew: the one in the folder may have been made without the data."""
    ui = ui_of(request)
    _, folder = await ui.run(request)
    dataset = await ui.datasets.of(folder.read_header())
    page = await asyncio.to_thread(report_page, folder, dataset)
    name = f'attachment; filename="{folder.name}.html"'
    return HTMLResponse(page, headers={"content-disposition": name})


async def as_json(request: Request) -> Response:
    _, folder = await ui_of(request).run(request)
    if not folder.report.exists():
        raise HTTPException(404, f"run {folder.name!r} has no report yet")
    name = f"{folder.name}.json"
    return FileResponse(folder.report, media_type="application/json", filename=name)


async def _unfinished(
    request: Request, ui: Ui, line: Line, folder: RunFolder, dataset: Dataset | None
) -> Response:
    view = await asyncio.to_thread(last_look, folder, dataset)
    events = f"/runs/{folder.name}/events" if line["state"] == RUNNING else ""
    return ui.page(
        request,
        "running.html",
        line=line,
        view=view,
        events=events,
        path=folder.path,
        started=ui.evaluations.of_run(folder.name),
    )


def _comparable(ui: Ui, line: Line) -> list[Line]:
    """Other runs on the same judgments, newest first."""
    wanted = {"dataset": line["dataset"], "split": line["split"]}
    return [
        other
        for other in ui.index.find(wanted, limit=_OTHERS).lines
        if other["name"] != line["name"]
        and other["mean"] is not None
        and other["fingerprint"] == line["fingerprint"]
    ]


def _spark(trend: Trend) -> Markup:
    columns = ([point[name] for point in trend.points] for name in ("mean", "low", "high"))
    return sparkline(*columns)


def _view(folder: RunFolder, dataset: Dataset | None) -> dict[str, Any]:
    stamp = max(path.stat().st_mtime_ns for path in folder.path.iterdir())
    return _kept_view(str(folder.path), stamp, _Identity(dataset))


@lru_cache(maxsize=16)
def _kept_view(path: str, _stamp: int, data: "_Identity") -> dict[str, Any]:
    """A report of 100,000 queries takes seconds to read; the second look at it does not."""
    folder = RunFolder(Path(path))
    return run_view(
        folder.read_head(),
        read_rows(folder.report),
        name=folder.name,
        dataset=data.dataset,
        answers=read_answer_rows(folder),
        query_links=f"/runs/{folder.name}/queries/",
        question_links=f"/runs/{folder.name}/questions",
    )


class _Identity:
    """A data set as a key of the cache: only the very same object is the same."""

    def __init__(self, dataset: Dataset | None) -> None:
        self.dataset = dataset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.dataset is self.dataset

    def __hash__(self) -> int:
        return id(self.dataset)

"""The matrix of queries by runs, in pages."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.dataset import Dataset
from assay.report.matrix import MATRIX_LIMIT, MATRIX_ORDERS, Matrix, MatrixRow, read_matrix
from assay.report.shared_pages import render_matrix_page
from assay.run.folder import RunFolder
from assay.serve.ui.context import Ui, chosen_runs, page_download, slice_of, ui_of
from assay.serve.ui.queries import QueryFilter, slice_choices

_KEPT = 4


def matrix_routes() -> list[BaseRoute]:
    """The page of the matrix."""
    return [Route("/matrix", matrix_page), Route("/matrix.html", matrix_file)]


async def matrix_page(request: Request) -> Response:
    """The queries of the runs that the address names, with the score of each run."""
    ui = ui_of(request)
    found = await _chosen(request, ui)
    if isinstance(found, Response):
        return found
    matrix, rows, asked = found
    pages = slice_of(request, len(rows))
    return ui.page(
        request,
        "matrix.html",
        metric=matrix.metric,
        columns=matrix.columns,
        rows=rows[pages.skip : pages.last],
        pages=pages,
        orders=MATRIX_ORDERS,
        slices=slice_choices(row.slices for row in matrix.rows),
        asked=asked,
        query=request.url.query,
        links=True,
    )


async def matrix_file(request: Request) -> Response:
    """The same queries as one file."""
    found = await _chosen(request, ui_of(request))
    if isinstance(found, Response):
        return found
    matrix, rows, asked = found
    page = await asyncio.to_thread(render_matrix_page, matrix, rows, asked.words)
    return page_download(page, "queries-by-runs.html")


async def _chosen(
    request: Request, ui: Ui
) -> tuple[Matrix, list[MatrixRow], QueryFilter] | Response:
    await ui.refresh()
    names = chosen_runs(request.query_params.multi_items())
    ui.lines(names)
    if len(names) > MATRIX_LIMIT:
        raise HTTPException(
            422, f"{len(names)} runs are too many to show side by side; choose {MATRIX_LIMIT}"
        )
    if len(names) < 2:
        return RedirectResponse(f"/compare?{request.url.query}", 303)
    asked = QueryFilter(
        request.query_params.get("order", "spread"),
        "",
        request.query_params.get("text", ""),
        request.query_params.get("slice", ""),
    )
    folders = [RunFolder(ui.runs / name) for name in names]
    dataset = await ui.datasets.of(*(folder.read_header() for folder in folders))
    matrix = await asyncio.to_thread(_read, ui, folders, dataset)
    rows = [row for row in matrix.ordered(asked.order) if _matches(row, asked)]
    return matrix, rows, asked


def _matches(row: MatrixRow, asked: QueryFilter) -> bool:
    if asked.slice and asked.slice not in row.slices:
        return False
    return asked.text.lower() in f"{row.query_id} {row.text}".lower()


def _read(ui: Ui, folders: Sequence[RunFolder], dataset: Dataset | None) -> Matrix:
    """Kept until a report changes: ten runs of 10,000 queries take seconds to read."""
    key = tuple((each.name, each.report_file.stat().st_mtime_ns) for each in folders)
    kept: OrderedDict[object, Matrix] = ui.matrices
    if key not in kept:
        queries = dataset.queries if dataset else {}
        tags = {query.id: query.tags for query in queries.values()}
        kept[key] = read_matrix(folders, tags)
        while len(kept) > _KEPT:
            kept.popitem(last=False)
    return kept[key]

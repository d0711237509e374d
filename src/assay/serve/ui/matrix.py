"""The matrix of queries by runs, in pages."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from assay.data.dataset import Dataset
from assay.metrics.metric import parse_metric
from assay.report.html_queries import (
    DocumentView,
    JudgedDocuments,
    QueryView,
    Remark,
    query_view,
)
from assay.report.matrix import (
    MATRIX_LIMIT,
    MATRIX_ORDERS,
    Matrix,
    MatrixRow,
    read_matrix,
    render_matrix_page,
)
from assay.run.folder import RunFolder
from assay.serve.ui.context import DatasetKey, Ui, download, slice_of, ui_of
from assay.serve.ui.queries import QueryFilter, slice_choices


def matrix_routes() -> list[BaseRoute]:
    """The matrix, the same as a file, and one of its queries."""
    return [
        Route("/matrix", matrix_page),
        Route("/matrix.html", matrix_file),
        Route("/matrix/query", matrix_query_page),
    ]


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
        target=matrix.target,
        columns=matrix.columns,
        query_link=lambda query_id: _query_link(request, query_id),
        rows=rows[pages.skip : pages.last],
        pages=pages,
        orders=MATRIX_ORDERS,
        slices=slice_choices(row.slices for row in matrix.rows),
        asked=asked,
        query=request.url.query,
        links=True,
    )


def _query_link(request: Request, query_id: str) -> str:
    """One query of the matrix that an address asks for, with its filters."""
    url = request.url.remove_query_params(["page", "query"])
    return f"/matrix/query?{url.include_query_params(query=query_id).query}"


async def matrix_query_page(request: Request) -> Response:
    """One query in all runs: their rankings side by side, and what moved since the first run."""
    ui = ui_of(request)
    found = await _chosen(request, ui)
    if isinstance(found, Response):
        return found
    matrix, rows, asked = found
    query_id = request.query_params.get("query", "")
    place = next((at for at, row in enumerate(rows) if row.query_id == query_id), None)
    if place is None:
        raise HTTPException(404, f"no query {query_id!r} in these runs, with these filters")
    folders = [RunFolder(ui.runs / column.name) for column in matrix.columns]
    dataset = await ui.datasets.of(*(folder.read_header() for folder in folders))
    views = await asyncio.to_thread(_side_by_side, folders, matrix.metric, query_id, dataset)
    known = next(each for each in views if each is not None)
    back = request.url.remove_query_params("query").query
    return ui.page(
        request,
        "matrix_query.html",
        matrix=matrix,
        row=rows[place],
        place=place,
        total=len(rows),
        query=known,
        views=views,
        graded=dataset is not None,
        chosen=asked.words,
        back=f"/matrix?{back}",
        neighbors={
            name: _query_link(request, rows[at].query_id)
            for name, at in (("previous", place - 1), ("next", place + 1))
            if 0 <= at < len(rows)
        },
    )


def _side_by_side(
    folders: Sequence[RunFolder], metric: str, query_id: str, dataset: Dataset | None
) -> list[QueryView | None]:
    """The query in each run, None where it was not asked; documents say how far they moved."""
    views: list[QueryView | None] = []
    places: dict[str, int] | None = None
    for folder in folders:
        row = folder.find_row(query_id)
        if row is None:
            views.append(None)
            continue
        judged = JudgedDocuments.of(folder.read_config(), dataset)
        view = query_view(row, parse_metric(metric), judged)
        if places is not None:
            view = replace(view, retrieved=_moved(view.retrieved, places))
        elif not row.failure:
            places = {id_: place for place, id_ in reversed(list(enumerate(row.retrieved_docs)))}
        views.append(view)
    return views


def _moved(documents: Sequence[DocumentView], places: Mapping[str, int]) -> list[DocumentView]:
    moved = []
    for place, each in enumerate(documents):
        before = places.get(each.doc_id)
        steps = 0 if before is None else before - place
        words = "new" if before is None else f"{'↑' if steps > 0 else '↓'}{abs(steps)}"
        tone = "plain" if before is None else "good" if steps > 0 else "bad"
        remark = () if before is not None and not steps else (Remark(words, tone),)
        moved.append(replace(each, remarks=(*each.remarks, *remark)))
    return moved


async def matrix_file(request: Request) -> Response:
    """The same queries as one file."""
    found = await _chosen(request, ui_of(request))
    if isinstance(found, Response):
        return found
    matrix, rows, asked = found
    page = await asyncio.to_thread(render_matrix_page, matrix, rows, asked.words)
    return download(page, "queries-by-runs.html")


async def _chosen(
    request: Request, ui: Ui
) -> tuple[Matrix, list[MatrixRow], QueryFilter] | Response:
    names = [line.name for line in await ui.chosen_lines(request)]
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
    matrix = await asyncio.to_thread(_read, folders, dataset)
    rows = [row for row in matrix.ordered(asked.order) if asked.matches_words(row)]
    return matrix, rows, asked


def _read(folders: Sequence[RunFolder], dataset: Dataset | None) -> Matrix:
    changed = tuple((str(each.path), each.report_file.stat().st_mtime_ns) for each in folders)
    return _cached_matrix(changed, DatasetKey(dataset))


@lru_cache(maxsize=4)
def _cached_matrix(changed: tuple[tuple[str, int], ...], key: DatasetKey) -> Matrix:
    """Kept until a report changes: ten runs of 10,000 queries take seconds to read."""
    queries = key.dataset.queries if key.dataset else {}
    tags = {query.id: query.tags for query in queries.values()}
    return read_matrix([RunFolder(Path(path)) for path, _ in changed], tags)

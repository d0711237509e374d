"""Every query of a run, in pages, and each with an address of its own."""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.evaluation.report_reading import read_rows
from assay.evaluation.run_folder import RunFolder
from assay.measure.metrics import parse_metric
from assay.report.html_queries import QueryPainter
from assay.serve.ui.context import slice_of, ui_of

Row = dict[str, Any]

ORDERS: dict[str, tuple[str, Callable[[Row], float]]] = {
    "plan": ("as asked", lambda row: 0.0),
    "worst": ("worst first", lambda row: float(row["score"])),
    "best": ("best first", lambda row: -float(row["score"])),
    "slowest": ("slowest first", lambda row: -float(row["latency_ms"] or 0)),
}


def query_routes() -> list[BaseRoute]:
    return [
        Route("/runs/{name}/queries", queries),
        Route("/runs/{name}/queries/{query_id:path}", query),
    ]


async def queries(request: Request) -> Response:
    ui = ui_of(request)
    line, folder = await ui.run(request)
    _require_report(folder)
    asked = {name: request.query_params.get(name, "") for name in ("order", "only", "text")}
    rows = await asyncio.to_thread(_rows, folder)
    chosen = [row for row in rows if _matches(row, asked)]
    chosen.sort(key=ORDERS.get(asked["order"], ORDERS["plan"])[1])
    pages = slice_of(request, len(chosen))
    return ui.page(
        request,
        "queries.html",
        line=line,
        rows=chosen[pages.skip : pages.last],
        pages=pages,
        orders={name: words for name, (words, _) in ORDERS.items()},
        asked=asked,
    )


async def query(request: Request) -> Response:
    ui = ui_of(request)
    line, folder = await ui.run(request)
    _require_report(folder)
    wanted = request.path_params["query_id"]
    row = await asyncio.to_thread(_find, folder, wanted)
    if row is None:
        raise HTTPException(404, f"run {folder.name!r} has no query {wanted!r}")
    dataset = await ui.datasets.of(folder.read_header())
    statistics = folder.read_head()["statistics"]
    metrics = {str(metric): row[metric.key] for metric in map(parse_metric, statistics)}
    painter = QueryPainter(parse_metric(line["metric"]).key, line["top_k"], line["split"], dataset)
    shown = painter.paint(row)
    return ui.page(
        request,
        "query.html",
        line=line,
        query=shown,
        graded=dataset is not None,
        metrics=metrics,
        answered=folder.answers.exists(),
    )


def _require_report(folder: RunFolder) -> None:
    if not folder.report.exists():
        raise HTTPException(404, f"run {folder.name!r} has no report yet")


def _matches(row: Row, asked: dict[str, str]) -> bool:
    if asked["only"] == "failed" and not row["failure"]:
        return False
    return asked["text"].lower() in f"{row['query_id']} {row['text']}".lower()


def _rows(folder: RunFolder) -> list[Row]:
    key = parse_metric(next(iter(folder.read_head()["statistics"]))).key
    return [
        {
            "query_id": row["query_id"],
            "text": row["query_text"],
            "score": row[key],
            "found": row["relevant_docs_retrieved"],
            "relevant": row["total_relevant_docs"],
            "latency_ms": row.get("latency_ms"),
            "failure": row.get("failure", ""),
        }
        for row in read_rows(folder.report)
    ]


def _find(folder: RunFolder, query_id: str) -> Row | None:
    return next((row for row in read_rows(folder.report) if row["query_id"] == query_id), None)

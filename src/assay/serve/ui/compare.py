"""Runs against each other: the comparison, and the leaderboard."""

import asyncio
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.data.dataset import Dataset
from assay.evaluation.comparison import compare_with_each
from assay.evaluation.leaderboard import Place, rank, told_apart
from assay.evaluation.run_folder import RunFolder
from assay.evaluation.run_index import Board
from assay.report.html_comparison import Side, comparison_view
from assay.serve.ui.context import Ui, ui_of

MOST_COMPARED = 6
MOST_RANKED = 30
_OFFERED = 100


def compare_routes() -> list[BaseRoute]:
    return [Route("/compare", compare), Route("/leaderboard", leaderboard)]


async def compare(request: Request) -> Response:
    ui = ui_of(request)
    await ui.refresh()
    names = list(dict.fromkeys(filter(None, request.query_params.getlist("run"))))
    for name in names:
        if ui.index.get(name) is None:
            raise HTTPException(404, f"there is no run {name!r} under {ui.runs}")
    if not 2 <= len(names) <= MOST_COMPARED:
        lines = ui.index.find({"state": "complete"}, limit=_OFFERED).lines
        return ui.page(
            request, "compare_choice.html", lines=lines, chosen=names, most=MOST_COMPARED
        )
    folders = [RunFolder(ui.runs / name) for name in names]
    dataset = await ui.datasets.of(folders[0].read_header())
    view = await asyncio.to_thread(_compared, folders, dataset)
    return ui.page(request, "compare.html", compared=view)


async def leaderboard(request: Request) -> Response:
    ui = ui_of(request)
    await ui.refresh()
    boards = ui.index.boards()
    datasets = list(dict.fromkeys((board.dataset, board.split) for board in boards))
    chosen = (request.query_params.get("dataset", ""), request.query_params.get("split", "test"))
    if chosen not in datasets and datasets:
        if chosen[0]:
            raise HTTPException(404, f"there is no complete run on {chosen[0]!r} {chosen[1]!r}")
        chosen = datasets[0]
    shown = [board for board in boards if (board.dataset, board.split) == chosen]
    ranked = await asyncio.to_thread(_ranked, ui, shown)
    return ui.page(request, "leaderboard.html", datasets=datasets, chosen=chosen, boards=ranked)


def _compared(folders: list[RunFolder], dataset: Dataset | None) -> dict[str, Any]:
    sides = [Side(folder.name, folder.read_report()) for folder in folders]
    first, *others = sides
    compared = compare_with_each(first.report, [other.report for other in others])
    comparisons = [each.to_json() for each in compared]
    return comparison_view(sides, comparisons, dataset)


def _ranked(ui: Ui, boards: list[Board]) -> list[tuple[Board, list[Place]]]:
    ranked = []
    for board in boards:
        lines = ui.index.latest_of_each_target(board, limit=MOST_RANKED)
        ranked.append((board, rank(lines, told_apart(ui.runs, lines))))
    return ranked

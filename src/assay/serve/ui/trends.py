"""Trends: figures over time, by branch; the largest set of comparable runs unless one is chosen."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.report.trends import figure_title, figures_of_trend, render_trend_page, trend_view
from assay.run.index import RunLine
from assay.run.state import RunState
from assay.run.trend import NO_BRANCH, TrendPoint
from assay.serve.ui.context import Ui, download, ui_of

MAX_RUNS = 5000
"""Runs that one trend has at most, the newest of them."""

_ASKED = ("target", "dataset", "split", "metric", "branch", "since", "until", "x")


def trend_routes() -> list[BaseRoute]:
    """The page, and the page as one file."""
    return [Route("/trends", trends_page), Route("/trends.html", trend_file)]


@dataclass(frozen=True, slots=True)
class TrendSet:
    """The complete runs of one target on one data set and split, newest first."""

    target: str
    dataset: str
    split: str
    lines: Sequence[RunLine]


async def trends_page(request: Request) -> Response:
    """One chart of the set that the address names, else of the largest."""
    ui = ui_of(request)
    await ui.refresh()
    return ui.page(request, "trend.html", **await asyncio.to_thread(_trend, ui, request))


async def trend_file(request: Request) -> Response:
    """The chart as one file."""
    ui = ui_of(request)
    await ui.refresh()
    found = await asyncio.to_thread(_trend, ui, request)
    if found["trend"] is None:
        return ui.page(request, "trend.html", status=404, **found)
    by_run = found["asked"]["x"] == "run"
    page = await asyncio.to_thread(
        lambda: render_trend_page(found["points"], found["figure"], by_run=by_run)
    )
    return download(page, "trend.html")


def trend_sets(ui: Ui) -> list[TrendSet]:
    """Every target on every data set with a complete run, the most comparable runs first."""
    sets: dict[tuple[str, str, str], list[RunLine]] = {}
    for line in ui.index.lines(lambda line: line.state == RunState.COMPLETE):
        sets.setdefault((line.target or "", line.dataset or "", line.split or ""), []).append(line)
    largest = {
        key: max((len(group) for group in ui.index.groups(lines)), default=0)
        for key, lines in sets.items()
    }
    return [TrendSet(*key, sets[key]) for key in sorted(sets, key=lambda key: -largest[key])]


def _trend(ui: Ui, request: Request) -> dict[str, Any]:
    asked = {name: request.query_params.get(name, "") for name in _ASKED}
    sets = trend_sets(ui)
    wanted = [
        one
        for one in sets
        if all(asked[name] in ("", getattr(one, name)) for name in ("target", "dataset", "split"))
    ]
    if not wanted:
        empty: list[TrendPoint] = []
        return {"sets": sets, "chosen": None, "asked": asked, "trend": None, "points": empty}
    chosen = wanted[0]
    every = ui.index.trend_points(chosen.lines[:MAX_RUNS])
    points = [point for point in every if _matches(point, asked)]
    figures = figures_of_trend(points)
    figure = asked["metric"] if asked["metric"] in figures else ""
    if not figure and figures:
        headline = points[-1].line.metric or ""
        figure = headline if headline in figures else figures[0]
    by_run = asked["x"] == "run"
    view = None
    if figure:
        view = trend_view(points, figure, by_run=by_run, link=lambda line: f"/runs/{line.name}")
    return {
        "sets": sets,
        "chosen": chosen,
        "asked": asked,
        "trend": view,
        "points": points,
        "figure": figure,
        "figures": figures,
        "title_of": figure_title,
        "server": True,
        "branches": sorted({point.line.branch or NO_BRANCH for point in every}),
    }


def _matches(point: TrendPoint, asked: dict[str, str]) -> bool:
    day = (point.line.started or "")[:10]
    return (
        asked["branch"] in ("", point.line.branch or NO_BRANCH)
        and (not asked["since"] or day >= asked["since"])
        and (not asked["until"] or day <= asked["until"])
        and (point.line.failed or 0) < (point.line.queries or 0)
    )

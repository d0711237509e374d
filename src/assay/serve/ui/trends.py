"""Trends: a target on a data set over weeks, by branch, as a page and as files."""

import asyncio
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.answers.figures import parse_figure
from assay.report.plots import sparkline
from assay.report.table_files import write_rows
from assay.report.trends import (
    figures_of_trend,
    render_trend_page,
    trend_document,
    trend_rows,
    trend_view,
)
from assay.run.index import RunLine, Trend
from assay.run.state import RunState
from assay.run.trend import NO_BRANCH, TrendPoint
from assay.serve.ui.context import Ui, download, ui_of

TREND_RUNS = 5000
"""Runs that one trend has at most, the newest of them."""

_LISTED = 200
_ASKED = ("target", "dataset", "split", "metric", "track", "branch", "label", "since", "until", "x")


def trend_routes() -> list[BaseRoute]:
    """The list of trends, the page of one, and its files."""
    return [
        Route("/trends", trends_page),
        Route("/trends.html", trend_file),
        Route("/trends.csv", trend_csv),
        Route("/trends.json", trend_json),
    ]


@dataclass(frozen=True, slots=True)
class AskedTrend:
    """The runs that an address asks for, and how they are to be shown.

    Attributes:
        asked: the fields of the address.
        points: the runs that its filters leave, oldest first.
        figure: the score to follow; empty where no run is left.
        figures: those that can be chosen.
        choices: the values that each filter can have.
    """

    asked: Mapping[str, str]
    points: Sequence[TrendPoint]
    figure: str
    figures: Sequence[str]
    choices: Mapping[str, Sequence[str]]

    @property
    def by_run(self) -> bool:
        """Whether runs stand one by one instead of by date."""
        return self.asked["x"] == "run"

    @property
    def query(self) -> str:
        """The part of the address that asks for the same again."""
        return urlencode({name: value for name, value in self.asked.items() if value})


async def trends_page(request: Request) -> Response:
    """The trend that the address names, or a list of all."""
    ui = ui_of(request)
    await ui.refresh()
    if not request.query_params.get("target"):
        cards = [(trend, trend_spark(trend)) for trend in ui.index.trends(limit=_LISTED)]
        return ui.page(request, "trends_list.html", trends=cards)
    found = await asyncio.to_thread(asked_trend, ui, request)

    def link(line: RunLine) -> str:
        return f"/runs/{line.name}"

    view = None
    if found.figure:
        view = await asyncio.to_thread(
            lambda: trend_view(found.points, found.figure, by_run=found.by_run, link=link)
        )
    return ui.page(request, "trend.html", found=found, trend=view, run_link=link)


async def trend_file(request: Request) -> Response:
    """The page as one file."""
    found = await _require(request)
    page = await asyncio.to_thread(
        lambda: render_trend_page(found.points, found.figure, by_run=found.by_run)
    )
    return download(page, "trend.html")


async def trend_csv(request: Request) -> Response:
    """One line a run."""
    found = await _require(request)
    stream = io.BytesIO()
    write_rows(trend_rows(found.points, found.figure), "csv", stream)
    return download(stream.getvalue(), "trend.csv", "text/csv")


async def trend_json(request: Request) -> Response:
    """The runs and what changed between them."""
    found = await _require(request)
    content = orjson.dumps(trend_document(found.points, found.figure), option=orjson.OPT_INDENT_2)
    return download(content, "trend.json", "application/json")


async def _require(request: Request) -> AskedTrend:
    ui = ui_of(request)
    await ui.refresh()
    found = await asyncio.to_thread(asked_trend, ui, request)
    if not found.figure:
        raise HTTPException(404, "no run matches: remove a filter")
    return found


def asked_trend(ui: Ui, request: Request) -> AskedTrend:
    """The trend that an address asks for; 404 where the target has no complete run."""
    asked = {name: request.query_params.get(name, "") for name in _ASKED}
    wanted = {name: asked[name] for name in ("target", "dataset", "split")}
    if not all(wanted.values()):
        newest = ui.index.find({**wanted, "state": RunState.COMPLETE}, limit=1).lines
        for line in newest:
            wanted = {
                "target": line.target or "",
                "dataset": line.dataset or "",
                "split": line.split or "",
            }
    lines = ui.index.find({**wanted, "state": RunState.COMPLETE}, limit=TREND_RUNS).lines
    if not lines:
        raise HTTPException(
            404, f"no complete run of {asked['target']!r} on {asked['dataset'] or 'any data set'!r}"
        )
    points = ui.index.trend_points(lines)
    choices = {
        name: sorted({value for each in points if (value := _facts(each)[name])})
        for name in ("track", "branch", "label")
    }
    left = [each for each in points if _matches(each, asked)]
    figures = figures_of_trend(left)
    figure = _figure(asked["metric"], figures, left)
    return AskedTrend(asked | wanted, left, figure, figures, choices)


def _facts(point: TrendPoint) -> dict[str, str]:
    line = point.line
    branch = line.branch or NO_BRANCH
    return {"track": line.track or "", "branch": branch, "label": line.label or ""}


def _matches(point: TrendPoint, asked: Mapping[str, str]) -> bool:
    day = (point.line.started or "")[:10]
    return (
        all(not asked[name] or asked[name] == value for name, value in _facts(point).items())
        and (not asked["since"] or day >= asked["since"])
        and (not asked["until"] or day <= asked["until"])
        and (point.line.failed or 0) < (point.line.queries or 0)
    )


def _figure(given: str, figures: Sequence[str], points: Sequence[TrendPoint]) -> str:
    """The one that is asked for where some run has it; else the headline of most runs."""
    if given:
        name = parse_figure(given).slug
        return name if name in figures else ""
    headlines = Counter(point.line.metric or "" for point in reversed(points))
    return headlines.most_common(1)[0][0] if headlines else ""


def trend_spark(trend: Trend) -> str:
    """A trend as a small line."""
    return sparkline(
        [point.mean or 0.0 for point in trend.points],
        [point.low for point in trend.points],
        [point.high for point in trend.points],
    )

"""The leaderboard: rankings by any metric, with columns to choose, as a page and as files."""

import asyncio
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from assay.answers.figures import AnswerFigure, parse_figure
from assay.evaluation.leaderboard import Board, BoardPlace, make_boards
from assay.net.json import JsonObject
from assay.net.redact import markdown_text
from assay.report.numbers import counted, figure
from assay.report.table_files import Cell, Format, Row, latex_text, write_rows
from assay.report.trend_plots import figure_title, figure_words
from assay.report.trends import figures_of_trend
from assay.run.trend import COST, LATENCY, SLOW, TrendPoint, sample_words
from assay.serve.ui.context import Ui, download, ui_of

_MOST_COLUMNS = 20
_FILES: Mapping[str, tuple[str, Format | None]] = {
    "csv": ("text/csv", "csv"),
    "md": ("text/markdown", "markdown"),
    "tex": ("application/x-tex", "latex"),
    "json": ("application/json", None),
}


def leaderboard_routes() -> list[BaseRoute]:
    """The page, and the same rankings as files."""
    return [
        Route("/leaderboard", leaderboard_page),
        Route("/leaderboard.{kind}", leaderboard_file),
    ]


@dataclass(frozen=True, slots=True)
class BoardColumn:
    """A column that can be chosen; `value` is what files hold, `shown` what people read."""

    title: str
    value: Callable[[TrendPoint], Cell]
    shown: Callable[[TrendPoint], str]


def _figure_column(name: str) -> BoardColumn:
    def value(point: TrendPoint) -> float | None:
        return point.values[name].mean if name in point.values else None

    return BoardColumn(figure_title(name), value, lambda p: figure_words(name, value(p)))


def _fact_column(title: str, fact: Callable[[TrendPoint], str | int | None]) -> BoardColumn:
    def shown(point: TrendPoint) -> str:
        found = fact(point)
        return f"{found:,}" if isinstance(found, int) else found or ""

    return BoardColumn(title, fact, shown)


_FACTS = {
    "queries": _fact_column("Queries", lambda point: point.line.queries),
    "failed": _fact_column("Failed", lambda point: point.line.failed),
    LATENCY: _figure_column(LATENCY),
    SLOW: _figure_column(SLOW),
    COST: _figure_column(COST),
    "agent": _fact_column("Agent", lambda point: point.line.agent),
    "label": _fact_column("Label", lambda point: point.line.label),
    "branch": _fact_column("Branch", lambda point: point.line.branch),
    "commit": _fact_column("Commit", lambda point: (point.line.git_commit or "")[:7]),
    "started": _fact_column("Started", lambda point: (point.line.started or "")[:10]),
}
_USUAL = ("interval", "plot", "correctness", "queries", "failed", LATENCY)
_DRAWN = {"interval": "95% interval", "plot": "0 to 1"}


@dataclass(frozen=True, slots=True)
class BoardView:
    """A board with what the page shows beside it; `notes` are what to know about its figures."""

    board: Board
    title: str
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class AskedBoards:
    """What an address asks for; its fields, also those that were left out, by name."""

    datasets: Sequence[tuple[str, str]]
    dataset: str
    split: str
    metric: str
    board: str
    figures: Sequence[str]
    offered: Mapping[str, str]
    columns: Mapping[str, BoardColumn]
    drawn: Sequence[str]
    boards: Sequence[Board]
    given: Sequence[str]

    def query_of(self, board: Board) -> str:
        """The part of the address that asks for one board alone, in the same way."""
        asked = [("dataset", self.dataset), ("split", self.split), ("metric", self.metric)]
        pairs = [*asked, ("board", board.key), *(("column", each) for each in self.given)]
        return urlencode([(name, value) for name, value in pairs if value])


async def leaderboard_page(request: Request) -> Response:
    """The rankings of one data set and split, a table for all that compares."""
    ui = ui_of(request)
    await ui.refresh()
    found = await asyncio.to_thread(_asked, ui, request)
    views = await asyncio.to_thread(lambda: list(map(_view, found.boards, _titles(found.boards))))
    return ui.page(
        request,
        "leaderboard.html",
        found=found,
        boards=views,
        any_of=_has_column,
        title_of=figure_title,
    )


async def leaderboard_file(request: Request) -> Response:
    """The same as CSV, Markdown, LaTeX or JSON."""
    kind = request.path_params["kind"]
    if kind not in _FILES:
        raise HTTPException(404, f"there is no leaderboard.{kind}; choose csv, md, tex or json")
    ui = ui_of(request)
    await ui.refresh()
    found = await asyncio.to_thread(_asked, ui, request)
    media, form = _FILES[kind]
    stream = io.BytesIO()
    if form is None:
        stream.write(orjson.dumps(_document(found), option=orjson.OPT_INDENT_2))
    elif form == "csv":
        write_rows((row for board in found.boards for row in _rows(found, board)), form, stream)
    else:
        for board, title in zip(found.boards, _titles(found.boards), strict=True):
            latex = form == "latex"
            words = f"% {latex_text(title)}" if latex else f"### {markdown_text(title)}"
            stream.write(f"{words}\n\n".encode())
            write_rows(_shown_rows(found, board), form, stream)
            stream.write(b"\n")
    return download(stream.getvalue(), f"leaderboard.{kind}", media)


def _asked(ui: Ui, request: Request) -> AskedBoards:
    given = request.query_params
    datasets = ui.index.datasets()
    chosen = (given.get("dataset", ""), given.get("split", ""))
    if not all(chosen):
        matching = [each for each in datasets if not chosen[0] or each[0] == chosen[0]]
        named = [each for each in matching if not chosen[1] or each[1] == chosen[1]]
        preferred = [each for each in named if each[1] == "test"] or named
        chosen = preferred[0] if preferred else chosen
    if chosen not in datasets and (datasets or chosen[0]):
        raise HTTPException(404, f"there is no complete run on {chosen[0]!r} {chosen[1]!r}")
    ranked_by = parse_figure(given["metric"]) if given.get("metric") else None
    metric, answers = ranked_by.slug if ranked_by else "", isinstance(ranked_by, AnswerFigure)
    lines = ui.index.newest_of_each_target(*chosen, answers=answers)
    points = ui.index.trend_points(lines)
    boards = make_boards(ui.runs, points, metric, given.get("board", ""))
    figures = figures_of_trend(points)
    known = {**_FACTS, **{name: _figure_column(name) for name in figures}}
    columns = [each for each in given.getlist("column") if each in known or each in _DRAWN]
    columns = list(dict.fromkeys(columns))[:_MOST_COLUMNS]
    wanted = columns or [name for name in _USUAL if name in known or name in _DRAWN]
    return AskedBoards(
        datasets=datasets,
        dataset=chosen[0],
        split=chosen[1],
        metric=metric,
        board=given.get("board", ""),
        figures=figures,
        offered={**_DRAWN, **{name: column.title for name, column in known.items()}},
        columns={name: known[name] for name in wanted if name in known},
        drawn=[name for name in wanted if name in _DRAWN],
        boards=boards,
        given=columns,
    )


def _has_column(board: Board, name: str, found: AskedBoards) -> bool:
    """Whether a column says something about some target, and not the same as the ranking."""
    if name == board.figure:
        return False
    return any(found.columns[name].value(each.point) is not None for each in board.places)


def _titles(boards: Sequence[Board]) -> list[str]:
    """What each board is about, with the version of the data where there are several."""
    lines = [board.places[0].point.line if board.places else None for board in boards]
    several = len({line.fingerprint for line in lines if line}) > 1
    titles = []
    for board, line in zip(boards, lines, strict=True):
        parts = [figure_title(board.figure)]
        if line is not None:
            parts += [f"{line.track} track", sample_words(line)]
        if line is not None and several:
            parts.append(f"data {(line.fingerprint or '')[:8]}")
        titles.append(", ".join(parts))
    return titles


def _view(board: Board, title: str) -> BoardView:
    return BoardView(board, title, list(_notes(board)))


def _notes(board: Board) -> Iterator[str]:
    if board.places:
        line = board.places[0].point.line
        yield (
            f"Each target was asked for {line.top_k} documents, on data of fingerprint "
            f"{(line.fingerprint or '')[:12]}."
        )
    ways = {each.point.answers_by for each in board.places if each.point.answers_by}
    if len(ways) > 1:
        yield "Correctness was decided in different ways, so it does not compare here."
    if not parse_figure(board.figure).higher_is_better:
        yield "Lower is better."
    if board.silent:
        yield f"Not ranked, because no query was answered: {', '.join(board.silent)}."
    if board.left_out:
        yield f"The best {len(board.places)}; {counted(board.left_out, 'target')} more."


def _rows(found: AskedBoards, board: Board) -> Iterator[Row]:
    """One row a target: its ranks, and what makes its board."""
    for place in board.places:
        line = place.point.line
        facts: dict[str, Cell] = {
            "rank_best": place.best,
            "rank_worst": place.worst,
            "target": line.target,
            "metric": board.figure,
            "mean": place.value.mean,
            "low": place.value.low,
            "high": place.value.high,
            **{name: column.value(place.point) for name, column in found.columns.items()},
        }
        same: dict[str, Cell] = {
            "run": line.name,
            "dataset": line.dataset,
            "split": line.split,
            "fingerprint": line.fingerprint,
            "track": line.track,
            "top_k": line.top_k,
            "queries": line.queries,
            "seed": line.seed if line.sample is not None else None,
            "board": board.key,
        }
        yield facts | same


def _shown_rows(found: AskedBoards, board: Board) -> Iterator[Row]:
    """As people read them: the chosen columns, in their words."""
    for place in board.places:
        row: dict[str, Cell] = {
            "Rank": place.ranks,
            "Target": place.point.line.target,
            figure_title(board.figure): place.value.mean,
        }
        if "interval" in found.drawn:
            row["95% interval"] = _interval(place)
        for name, column in found.columns.items():
            if _has_column(board, name, found):
                row[column.title] = column.shown(place.point)
        yield row


def _interval(place: BoardPlace) -> str:
    low, high = place.value.low, place.value.high
    return "" if low is None or high is None else f"{figure(low)} to {figure(high)}"


def _document(found: AskedBoards) -> JsonObject:
    """Every board with its targets and the tests of all pairs."""
    return {
        "dataset": found.dataset,
        "split": found.split,
        "boards": [
            {
                "board": board.key,
                "metric": board.figure,
                "title": title,
                "places": list(_rows(found, board)),
                "pairs": [
                    {
                        "better": a,
                        "worse": b,
                        "difference": test.difference,
                        "p_adjusted": test.p,
                        "significant": test.significant,
                    }
                    for (a, b), test in board.tests.items()
                ],
                "answered_nothing": list(board.silent),
            }
            for board, title in zip(found.boards, _titles(found.boards), strict=True)
        ],
    }

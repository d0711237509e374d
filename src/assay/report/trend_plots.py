"""A figure over time: runs by date or one by one, branches, intervals, gates, and what changed.

A chart of a trend is drawn once for each of several widths, because a drawing that shrinks to the
width of a phone would shrink its letters too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from assay.answers.figures import AnswerFigure, parse_figure
from assay.report.numbers import counted, dollars, duration, figure, interval
from assay.report.svg import (
    REACHED,
    DataTable,
    Scale,
    apart,
    axis_beside,
    date_ticks,
    drawing,
    element,
    line,
    place_labels,
    point,
    shortened,
    text,
    text_width,
    tip,
    without_overlap,
)
from assay.run.listing import RunLine
from assay.run.trend import (
    COST,
    JUDGE_COST,
    LATENCY,
    SLOW,
    TargetTrend,
    TrendPoint,
    TrendSeries,
)

SERIES = 6
"""Branches that one chart tells apart."""

WIDTHS = {"wide": (1080, 360), "middle": (700, 330), "narrow": (400, 320)}
"""The drawings of a large chart, by the class that the style sheet shows or hides."""

SMALL = (400, 270)
_DOTS = 150
_LEFT, _RIGHT = 54, 14
_CHANGES = 20

Link = Callable[[RunLine], str]


def figure_title(name: str) -> str:
    """What a chart calls a figure."""
    titles = {
        LATENCY: "Median latency",
        SLOW: "95% latency",
        COST: "Cost of the run",
        JUDGE_COST: "Cost of the judge",
    }
    if name in titles:
        return titles[name]
    found = parse_figure(name)
    return found.title if isinstance(found, AnswerFigure) else str(found)


def figure_words(name: str, value: float | None) -> str:
    """A value of a figure with its unit."""
    if name in (LATENCY, SLOW):
        return duration(None if value is None else value / 1000)
    return dollars(value) if name in (COST, JUDGE_COST) else figure(value)


def run_words(each: TrendPoint) -> str:
    """What tells a run apart: when, branch, commit, label."""
    made = each.line
    where = f"{each.branch} {(made.git_commit or '')[:7]}".strip()
    return ", ".join(filter(None, (_moment(each.moment), where, made.label)))


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def branches_of(trend: TargetTrend) -> list[str]:
    """The branches of a trend, the main one first, then the most recently used."""
    newest = {each.branch: each.moment for each in trend.points}
    main = ("main", "master", "trunk")
    return sorted(newest, key=lambda branch: (branch not in main, -newest[branch]))


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a chart of a trend draws: its scales, and the places of its runs."""

    across: Scale
    up: Scale
    places: dict[str, float]

    def at(self, each: TrendPoint, name: str) -> tuple[float, float]:
        return self.places[each.line.name], self.up(each.values[name].mean)


def trend_chart(
    trend: TargetTrend, size: tuple[int, int], class_: str, *, by_run: bool, link: Link | None
) -> Markup:
    """A figure over time: a line for each branch where runs compare, gates, and what changed.

    Parameters:
        trend: what to draw; it has at least one run.
        size: of the drawing.
        class_: the class of the drawing, one of WIDTHS, or empty for a small one.
        by_run: give every run the same room, instead of placing it by its date.
        link: where a run leads to; None for a page without a server.
    """
    width, height = size
    colors = {branch: number for number, branch in enumerate(branches_of(trend)[:SERIES])}
    shown = [series for series in trend.series if series.branch in colors]
    legend, below = _legend(figure_title(trend.figure), colors, width)
    frame = _frame(trend, shown, width, below + 26, height - 44, by_run=by_run)
    digits = axis_words(trend.figure)
    parts = axis_beside(frame.up, _LEFT, width - _RIGHT, digits, 5)
    parts += legend
    parts += _time_axis(trend, frame, height - 44, by_run=by_run)
    parts += _gate_lines(trend, frame, width)
    parts += _change_marks(trend, frame, below + 14, height - 44)
    for series in shown:
        parts += _series_lines(series, trend.figure, frame, colors[series.branch])
    dots = [(series, each) for series in shown for each in series.points]
    chosen = _thinned(dots, _DOTS)
    few = len(chosen) <= REACHED
    for series, each in chosen:
        x, y = frame.at(each, trend.figure)
        hollow = "" if series.current else " hollow"
        failed = " failed" if each.line.gates_failed else ""
        mark = _mark(colors[series.branch], x, y, f"series-{colors[series.branch]}{hollow}{failed}")
        href = link(each.line) if link else ""
        words = _point_words(trend.figure, each)
        parts.append(point(mark, words, x=_LEFT, room=width - 70, few=few, href=href))
    parts += _run_labels([each for _, each in chosen], trend.figure, frame)
    says = _says(trend)
    return drawing(width, height, parts, says, f"trend {class_}".strip(), role="group")


def trend_table(trend: TargetTrend) -> DataTable:
    """The data of a chart of a trend, newest run first."""
    rows = []
    for each in reversed(trend.points):
        value = each.values[trend.figure]
        rows.append(
            (
                _moment(each.moment),
                each.branch,
                (each.line.git_commit or "")[:7],
                each.line.label or "",
                figure_words(trend.figure, value.mean),
                interval(value.low, value.high),
            )
        )
    title = figure_title(trend.figure)
    headings = ("Started", "Branch", "Commit", "Label", title, "95% interval")
    return DataTable(headings, rows)


def _says(trend: TargetTrend) -> str:
    first, last = trend.points[0], trend.points[-1]
    values = [figure_words(trend.figure, each.values[trend.figure].mean) for each in (first, last)]
    runs = counted(len(trend.points), "run")
    return f"{figure_title(trend.figure)} over {runs}: from {values[0]} to {values[1]}"


def _point_words(name: str, each: TrendPoint) -> str:
    value = each.values[name]
    words = f"{figure_title(name)} {figure_words(name, value.mean)}"
    if value.low is not None:
        words += f" {interval(value.low, value.high)}"
    return f"{words}, {run_words(each)}{', gate failed' if each.line.gates_failed else ''}"


def _frame(
    trend: TargetTrend,
    shown: Sequence[TrendSeries],
    width: int,
    top: float,
    bottom: float,
    *,
    by_run: bool,
) -> _Frame:
    name = trend.figure
    points = sorted((p for each in shown for p in each.points), key=lambda p: p.moment)
    moments = [each.moment for each in points]
    if by_run:
        across = Scale(0, max(1, len(points) - 1), _LEFT + 14, width - _RIGHT - 14)
        places = {each.line.name: across(number) for number, each in enumerate(points)}
    else:
        spare = 0.0 if moments[-1] > moments[0] else 12 * 3600
        across = Scale(moments[0] - spare, moments[-1] + spare, _LEFT + 14, width - _RIGHT - 14)
        places = {each.line.name: across(each.moment) for each in points}
    values = [each.values[name] for each in points]
    ends = [v for each in values for v in (each.mean, each.low, each.high) if v is not None]
    ends += [each.bounds[name] for each in points if name in each.bounds]
    low, high = min(ends), max(ends)
    if name in (LATENCY, SLOW, COST, JUDGE_COST):
        known = [v for v in ends if v > 0]
        wide = bool(known) and high / min(known) > 50
        low, high = (min(known) / 1.3 if wide else 0, high * 1.1 or 1)
        return _Frame(across, Scale(low, high, bottom, top, logarithmic=wide), places)
    spare = max(0.08 * (high - low), 0.005)
    up = Scale(max(0.0, low - spare) if low >= 0 else low - spare, high + spare, bottom, top)
    return _Frame(across, up, places)


def axis_words(name: str) -> Callable[[float], str]:
    """How an axis labels values of a figure."""
    if name in (LATENCY, SLOW):
        return lambda v: f"{v:g} ms" if v < 1000 else f"{v / 1000:g} s"
    return (lambda v: f"${v:g}") if name in (COST, JUDGE_COST) else (lambda v: f"{v:g}")


def _legend(title: str, colors: dict[str, int], width: int) -> tuple[list[str], float]:
    """What the axis measures, marks and names of the branches in rows, and where they end."""
    parts, y = [text(title, 0, 12, "start", "label")], 12.0
    x = max(float(_LEFT), text_width(title) + 18)
    for branch, number in colors.items():
        name = shortened(branch, 180)
        room = text_width(name) + 34
        if x > _LEFT and x + room > width - _RIGHT:
            x, y = float(_LEFT), y + 18
        parts.append(_mark(number, x + 6, y - 4, f"series-{number}"))
        parts.append(text(name, x + 16, y, "start", "label"))
        x += room
    return parts, y + 4


def _mark(number: int, x: float, y: float, class_: str) -> str:
    """A shape of its own for each series: colors alone do not tell everybody."""
    if number % 3 == 0:
        return element("circle", cx=x, cy=y, r=4.5, class_=f"mark {class_}")
    if number % 3 == 1:
        return element("rect", x=x - 4, y=y - 4, width=8, height=8, class_=f"mark {class_}")
    corners = f"{x:.1f},{y - 5:.1f} {x + 5:.1f},{y + 4:.1f} {x - 5:.1f},{y + 4:.1f}"
    return element("polygon", points=corners, class_=f"mark {class_}")


def _time_axis(trend: TargetTrend, frame: _Frame, y: float, *, by_run: bool) -> list[str]:
    """Dates, and below them the commits that there is room for, the newest first."""
    across, places = frame.across, frame.places
    parts = [line(_LEFT, y, across.end + 14, y, "axis")]
    newest = [each for each in reversed(trend.points) if each.line.name in places]
    if by_run:
        dates = [(places[e.line.name], _moment(e.moment)[5:10]) for e in newest]
    else:
        most = max(2, int((across.end - across.start) / 66))
        dates = [(across(v), words) for v, words in date_ticks(across.low, across.high, most)]
    parts += [text(words, x, y + 16, "middle", "tick") for x, words in without_overlap(dates)]
    commits = [(places[e.line.name], (e.line.git_commit or "")[:7]) for e in newest]
    known = [(x, words) for x, words in commits if words]
    parts += [text(words, x, y + 33, "middle", "commit") for x, words in without_overlap(known)]
    return parts


def _gate_lines(trend: TargetTrend, frame: _Frame, width: int) -> list[str]:
    """Each bound from the first run that had it to the last; to the edge where it still holds."""
    spans: dict[float, list[float]] = {}
    points = [each for each in trend.points if each.line.name in frame.places]
    for each in points:
        if trend.figure in each.bounds:
            spans.setdefault(each.bounds[trend.figure], []).append(frame.places[each.line.name])
    last = frame.places[points[-1].line.name]
    bounds = list(spans)
    ends = apart([frame.up(each) - 5 for each in bounds], 14, frame.up.end, frame.up.start - 4)
    parts = []
    for bound, y in zip(bounds, ends, strict=True):
        start, end = spans[bound][0] - 8, spans[bound][-1] + 8
        if spans[bound][-1] == last:
            end = width - _RIGHT
        words = f"gate {axis_words(trend.figure)(bound)}"
        gate = line(start, frame.up(bound), end, frame.up(bound), "gate")
        parts += [element("g", tip(words), gate), text(words, end, y, "end", "tick gate-words")]
    return parts


def shown_changes(trend: TargetTrend) -> list[tuple[int, str, str]]:
    """What changed, newest last: the number of its mark, the run, the words."""
    changes = trend.changes[-_CHANGES:]
    return [
        (number, run_words(each.point), each.words) for number, each in enumerate(changes, start=1)
    ]


def _change_marks(trend: TargetTrend, frame: _Frame, top: float, bottom: float) -> list[str]:
    changes = [
        (number, each)
        for number, each in enumerate(trend.changes[-_CHANGES:], start=1)
        if each.point.line.name in frame.places
    ]
    room = int((frame.across.end - frame.across.start) / 18) + 1
    changes = changes[-room:]
    where = [frame.places[each.point.line.name] for _, each in changes]
    marks = apart(where, 18, frame.across.start, frame.across.end)
    parts = []
    for (number, each), x, shown in zip(changes, where, marks, strict=True):
        class_ = "change breaks" if each.breaks else "change"
        stem = element(
            "polyline", points=f"{shown:.1f},{top + 4:.1f} {x:.1f},{top + 12:.1f} {x:.1f},{bottom}",
            class_=class_,
        )  # fmt: skip
        badge = element("circle", cx=shown, cy=top - 4, r=7.5, class_="badge")
        digit = text(number, shown, top, "middle", "badge-number")
        words = f"{number}. {run_words(each.point)}: {each.words}"
        parts.append(element("g", tip(words), stem, badge, digit))
    return parts


def _series_lines(series: TrendSeries, name: str, frame: _Frame, color: int) -> list[str]:
    """The line through all runs of a series, with intervals as a band, or as bars of few runs."""
    points = series.points
    parts = []
    known = [each for each in points if each.values[name].low is not None]
    ends = [(frame.places[e.line.name], e.values[name]) for e in known]
    if len(known) > REACHED:
        edge = [(x, v.high or 0.0) for x, v in ends]
        edge += [(x, v.low or 0.0) for x, v in reversed(ends)]
        band = " ".join(f"{x:.1f},{frame.up(v):.1f}" for x, v in edge)
        parts.append(element("polygon", points=band, class_=f"spread series-{color}"))
    else:
        for x, v in ends:
            low, high = frame.up(v.low or 0.0), frame.up(v.high or 0.0)
            parts.append(line(x, low, x, high, f"bar-interval series-{color}"))
    if len(points) > 1:
        at = [frame.at(each, name) for each in points]
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        faint = "" if series.current else " earlier"
        parts.append(element("polyline", points=corners, class_=f"joined series-{color}{faint}"))
    return parts


def _run_labels(points: Sequence[TrendPoint], name: str, frame: _Frame) -> list[str]:
    """The labels of runs that there is room for, the newest first; the same label once."""
    newest = {each.line.label: each for each in sorted(points, key=lambda each: each.moment)}
    labeled = [each for label, each in reversed(newest.items()) if label]
    return place_labels(
        [(*frame.at(each, name), shortened(each.line.label or "", 110)) for each in labeled],
        [frame.at(each, name) for each in points],
        (frame.across.start - 14, frame.across.end + 14),
        frame.up.end,
    )


def _thinned(
    dots: Sequence[tuple[TrendSeries, TrendPoint]], most: int
) -> list[tuple[TrendSeries, TrendPoint]]:
    """At most so many dots: evenly chosen, and the last of each series always."""
    if len(dots) <= most:
        return list(dots)
    step = -(-len(dots) // most)
    lasts = {series.points[-1].line.name for series, _ in dots}
    return [dot for place, dot in enumerate(dots) if not place % step or dot[1].line.name in lasts]

"""A figure over time as a chart: a line a branch, gates, and what changed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

from markupsafe import Markup

from assay.metrics.figures import AnswerFigure, parse_figure
from assay.report.charts import (
    Scale,
    chart,
    drawing,
    element,
    grid,
    line,
    path,
    point,
    series_mark,
    shortened,
    text,
    text_width,
    without_overlap,
)
from assay.report.numbers import counted, dollars, duration, figure, interval
from assay.run.listing import RunLine
from assay.run.trend import (
    COST,
    JUDGE_COST,
    LATENCY,
    SLOW,
    TargetTrend,
    TrendPoint,
    TrendSeries,
    build_trend,
    is_score,
    sample_words,
)

MAX_SERIES = 6
MAX_LABELS = 6
_WIDTH, _HEIGHT = 1200, 380
_LEFT, _RIGHT, _BOTTOM = 54, 16, 30
_MAX_DOTS = 150
_MAX_STOPS = 60
_MAX_CHANGES = 12
_MAX_BARS = 12
_TITLES = {
    LATENCY: "Median latency",
    SLOW: "p95 latency",
    COST: "Cost of the run",
    JUDGE_COST: "Cost of the judge",
}

Link = Callable[[RunLine], str]


def figure_title(name: str) -> str:
    """What a chart calls a figure."""
    if not is_score(name):
        return _TITLES[name]
    found = parse_figure(name)
    return found.title if isinstance(found, AnswerFigure) else str(found)


def figure_words(name: str, value: float | None) -> str:
    """A value of a figure with its unit."""
    if name in (LATENCY, SLOW):
        return duration(None if value is None else value / 1000)
    return figure(value) if is_score(name) else dollars(value)


def run_words(found: TrendPoint) -> str:
    """What tells a run apart: when, branch, commit, label."""
    where = f"{found.branch} {(found.line.git_commit or '')[:7]}".strip()
    return ", ".join(filter(None, (_moment(found.moment), where, found.line.label)))


def _moment(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def branches_of(trend: TargetTrend) -> list[str]:
    """The branches of a trend, the main one first, then the most recently used."""
    newest = {found.branch: found.moment for found in trend.points}
    main = ("main", "master", "trunk")
    return sorted(newest, key=lambda branch: (branch not in main, -newest[branch]))


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where a chart draws: the figure, its scales, and the places of its runs."""

    name: str
    across: Scale
    up: Scale
    places: Mapping[str, float]

    def at(self, found: TrendPoint) -> tuple[float, float]:
        return self.places[found.line.name], self.up(found.values[self.name].mean)


def trend_chart(trend: TargetTrend, link: Link) -> Markup:
    """A figure over time: a line for each branch where runs compare, gates, and what changed.

    `trend` has at least one run; `link` says where each leads to.
    """
    name = trend.figure
    colors = {branch: number for number, branch in enumerate(branches_of(trend)[:MAX_SERIES])}
    shown = [series for series in trend.series if series.branch in colors]
    legend, top = _legend(colors)
    frame = _frame(trend, shown, top + 24)
    parts = [*grid(frame.up, _LEFT, _WIDTH - _RIGHT, _axis_words(name), 5), *legend]
    y, most = _HEIGHT - _BOTTOM, int((frame.across.end - frame.across.start) / 70)
    ticks = date_ticks(frame.across.low, frame.across.high, most)
    dates = without_overlap((frame.across(at), words) for at, words in ticks)
    parts.append(line(_LEFT, y, frame.across.end + 14, y, "axis"))
    parts += [text(words, x, y + 16, "middle", "tick") for x, words in dates]
    parts += _gate_lines(trend, frame)
    parts += _change_marks(trend, frame, top + 12)
    for series in shown:
        parts += _series_lines(series, frame, colors[series.branch])
    dots = [(series, found) for series in shown for found in series.points]
    step = -(-len(dots) // _MAX_DOTS)
    last = {series.points[-1].line.name for series in shown}
    dots = [d for place, d in enumerate(dots) if not place % step or d[1].line.name in last]
    for series, found in dots:
        state = f"{'' if series.current else ' hollow'}{' failed' * bool(found.line.gates_failed)}"
        mark = series_mark(colors[series.branch], *frame.at(found), state)
        value, gate = found.values[name], ", gate failed" * bool(found.line.gates_failed)
        range_ = "" if value.low is None else f" {interval(value.low, value.high)}"
        words = f"{figure_title(name)} {figure_words(name, value.mean)}{range_}, {run_words(found)}"
        stop = len(dots) <= _MAX_STOPS
        parts.append(point(mark, f"{words}{gate}", link(found.line), stop=stop))
    parts += _labels([found for _, found in dots], frame)
    first, newest = (figure_words(name, trend.points[at].values[name].mean) for at in (0, -1))
    runs = counted(len(trend.points), "run")
    says = f"{figure_title(name)} over {runs}: from {first} to {newest}"
    return drawing(_WIDTH, _HEIGHT, parts, says, "trend")


def _frame(trend: TargetTrend, shown: Sequence[TrendSeries], top: float) -> _Frame:
    name, bottom = trend.figure, _HEIGHT - _BOTTOM
    points = sorted((p for series in shown for p in series.points), key=lambda p: p.moment)
    moments = [point.moment for point in points]
    spare = 0.0 if moments[-1] > moments[0] else 1.0
    across = Scale(moments[0] - spare, moments[-1] + spare, _LEFT + 14, _WIDTH - _RIGHT - 14)
    places = {p.line.name: across(at) for p, at in zip(points, moments, strict=True)}
    values = [p.values[name] for p in points]
    ends = [end for v in values for end in (v.mean, v.low, v.high) if end is not None]
    ends += [p.bounds[name] for p in points if name in p.bounds]
    low, high, wide = min(ends), max(ends), False
    if name == "truthfulness":
        low, high = -1.0, 1.0
    elif is_score(name):
        room = max(0.08 * (high - low), 0.005)
        low, high = max(0.0, low - room), min(1.0, high + room)
    else:
        known = [end for end in ends if end > 0]
        wide = bool(known) and high / min(known) > 50
        low, high = (min(known) / 1.3 if wide else 0.0), high * 1.1 or 1.0
    return _Frame(name, across, Scale(low, high, bottom, top, logarithmic=wide), places)


def _axis_words(name: str) -> Callable[[float], str]:
    if name in (LATENCY, SLOW):
        return lambda v: f"{v:g} ms" if v < 1000 else f"{v / 1000:g} s"
    return (lambda v: f"{v:g}") if is_score(name) else (lambda v: f"${v:g}")


def _legend(colors: Mapping[str, int]) -> tuple[list[str], float]:
    """Marks and names of the branches in rows, and where they end."""
    parts, x, y = list[str](), float(_LEFT), 12.0
    for branch, number in colors.items():
        name = shortened(branch, 180)
        room = text_width(name) + 34
        if x > _LEFT and x + room > _WIDTH - _RIGHT:
            x, y = float(_LEFT), y + 18
        parts += [series_mark(number, x + 6, y - 4), text(name, x + 16, y)]
        x += room
    return parts, y + 4


_DAY = 86400
_STEPS = (
    *((n, "%H:%M:%S") for n in (1, 5, 15, 30)),
    *((60 * n, "%b %d %H:%M") for n in (1, 5, 15, 30, 60, 180, 360, 720)),
    *((_DAY * n, "%b %d") for n in (1, 2, 7, 14, 28)),
    *((_DAY * n, "%b %Y") for n in (61, 182, 365, 1826)),
)


def date_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """At most so many round times between two times in seconds since 1970, with their words."""
    span = max(high - low, 1.0)
    step, form = next((one for one in _STEPS if span / one[0] <= most), _STEPS[-1])
    first = math.ceil(low / step) * step
    moments = [first + n * step for n in range(int((high - first) // step) + 1)]
    return [(at, datetime.fromtimestamp(at, UTC).strftime(form)) for at in moments]


def _gate_lines(trend: TargetTrend, frame: _Frame) -> list[str]:
    """Each bound from the first run that had it to the last; to the edge if it still holds."""
    spans: dict[float, list[float]] = {}
    points = [found for found in trend.points if found.line.name in frame.places]
    for found in points:
        if trend.figure in found.bounds:
            spans.setdefault(found.bounds[trend.figure], []).append(frame.places[found.line.name])
    last = frame.places[points[-1].line.name]
    parts = []
    for bound, places in spans.items():
        end = _WIDTH - _RIGHT if places[-1] == last else places[-1] + 8
        y, words = frame.up(bound), f"gate {_axis_words(trend.figure)(bound)}"
        parts.append(line(places[0] - 8, y, end, y, "gate"))
        parts.append(text(words, max(end, _LEFT + 60), y - 4, "end", "tick gate-words"))
    return parts


def _change_marks(trend: TargetTrend, frame: _Frame, top: float) -> list[str]:
    parts, free = [], -math.inf
    for number, found in enumerate(trend.changes[-_MAX_CHANGES:], start=1):
        x = frame.places.get(found.point.line.name)
        if x is None or x < free:
            continue  # the list below the chart has it; two badges on each other say nothing
        free = x + 18
        class_ = "change breaks" if found.breaks else "change"
        stem = line(x, top + 4, x, _HEIGHT - _BOTTOM, class_)
        badge = element("circle", cx=x, cy=top - 4, r=7.5, class_="badge")
        title = element("title", escape(f"{number}. {run_words(found.point)}: {found.words}"))
        words = text(number, x, top, "middle", "badge-number")
        parts.append(element("g", title, stem, badge, words))
    return parts


def _series_lines(series: TrendSeries, frame: _Frame, color: int) -> list[str]:
    """The line through all runs of a series, with intervals as a band, or as bars of few runs."""
    parts = []
    values = [(frame.places[p.line.name], p.values[frame.name]) for p in series.points]
    ends = [
        (x, frame.up(v.low), frame.up(v.high))
        for x, v in values
        if v.low is not None and v.high is not None
    ]
    if len(ends) > _MAX_BARS:
        edge = [(x, high) for x, _, high in ends] + [(x, low) for x, low, _ in ends[::-1]]
        parts.append(path("polygon", edge, f"spread series-{color}"))
    else:
        parts += [line(x, low, x, high, f"bar-interval series-{color}") for x, low, high in ends]
    if len(series.points) > 1:
        faint = "" if series.current else " earlier"
        places = [frame.at(found) for found in series.points]
        parts.append(path("polyline", places, f"joined series-{color}{faint}"))
    return parts


def _labels(points: Sequence[TrendPoint], frame: _Frame) -> list[str]:
    """At most six labels of runs, the newest first, none on a mark or on another label."""
    newest = {p.line.label: p for p in sorted(points, key=lambda p: p.moment) if p.line.label}
    marks = [frame.at(found) for found in points]
    boxes: list[tuple[float, float, float]] = []
    parts: list[str] = []

    def is_free(x: float, y: float, half: float) -> bool:
        return (
            frame.up.end <= y - 11
            and y <= frame.up.start
            and all(abs(x - bx) > half + bh + 4 or abs(y - by) > 14 for bx, by, bh in boxes)
            and not any(abs(x - mx) < half + 4 and y - 14 < my < y + 5 for mx, my in marks)
        )

    for label, found in reversed(newest.items()):
        (x, y), words = frame.at(found), shortened(label or "", 110)
        half = text_width(words, 11.5) / 2
        x = min(max(x, frame.across.start + half - 14), frame.across.end - half + 14)
        base = next((base for base in (y - 9, y + 17) if is_free(x, base, half)), None)
        if base is not None and len(parts) < MAX_LABELS:
            boxes.append((x, base, half))
            parts.append(text(words, x, base, "middle", "run-label"))
    return parts


def figures_of_trend(points: Sequence[TrendPoint]) -> list[str]:
    """The figures that a trend can follow, those of the newest run first."""
    return list(dict.fromkeys(name for found in reversed(points) for name in found.values))


def trend_view(points: Sequence[TrendPoint], name: str, link: Link) -> dict[str, Any]:
    """What the page shows of runs, oldest first; at least one of them has the figure.

    `branches` have their newest run and the comparable run before it; `changes` have the number of
    their mark, the run and what changed.
    """
    trend = build_trend(points, name)
    rows = [
        (
            _moment(found.moment),
            found.branch,
            (found.line.git_commit or "")[:7],
            found.line.label or "",
            figure_words(name, found.values[name].mean),
            interval(found.values[name].low, found.values[name].high),
        )
        for found in reversed(trend.points)
    ]
    headings = ("Started", "Branch", "Commit", "Label", figure_title(name), "95% interval")
    plot = f'<div class="scroll newest">{trend_chart(trend, link)}</div>'
    branches = []
    for branch in branches_of(trend):
        series = [found for found in trend.series if found.branch == branch]
        latest = max(series, key=lambda found: found.points[-1].moment).points
        branches.append((latest[-1], latest[-2] if len(latest) > 1 else None))
    notes = []
    if (more := len(branches) - MAX_SERIES) > 0:
        notes.append(f"{counted(more, 'more branch', 'more branches')} can be chosen above.")
    if trend.silent:
        notes.append(f"Left out: {counted(trend.silent, 'run')} in which no query was answered.")
    changes = enumerate(trend.changes[-_MAX_CHANGES:], start=1)
    return {
        "trend": trend,
        "newest": trend.points[-1].line,
        "chart": chart(plot, headings, rows),
        "title": figure_title(name),
        "sample": sample_words(trend.comparable[-1].line),
        "branches": branches,
        "changes": [(number, run_words(found.point), found.words) for number, found in changes],
        "notes": notes,
    }

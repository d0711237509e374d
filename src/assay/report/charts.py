"""Charts as plain SVG: marks for cells of tables, the charts of a run, a figure over time.

Colors come from CSS classes, so that one chart serves light mode, dark mode and paper. A chart has
neither a style attribute nor a script: the pages forbid both. What a point says is its title. A
chart is one picture for a screen reader, with its data in a table behind it.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from markupsafe import Markup

from assay.metrics.figures import AnswerFigure, parse_figure
from assay.report.numbers import (
    count,
    counted,
    difference,
    duration,
    figure,
    interval,
    moment,
)
from assay.run.listing import (
    LATENCY,
    SLOW,
    RunLine,
    TargetTrend,
    TrendSeries,
    is_score,
)
from assay.run.models import CurvePoint

MAX_ROWS = 200  # of the table behind a chart
MAX_SERIES = 6
MAX_LABELS = 6
MAX_CHANGES = 12
_WIDTH, _HEIGHT = 440, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 14, 38
_BAR_WIDTH = 600
_TREND_WIDTH, _TREND_HEIGHT, _TREND_TOP, _TREND_BOTTOM = 1200, 380, 40, 350
_MAX_DOTS = 150  # more would make the page of a thousand runs larger than 150 kB
_MAX_STOPS = 60  # of the Tab key in one chart; the list of runs leads to the same places
_MAX_BARS = 12  # from more runs on, their intervals are a band
_SERIES_ROOM = 190
_TITLES = {LATENCY: "Median latency", SLOW: "p95 latency"}


# --- elements ------------------------------------------------------------------------------------


def element(name: str, *children: str, **attributes: object) -> str:
    """One element; `class_` and `text_anchor` are written `class` and `text-anchor`.

    Children must be escaped already; attributes are escaped here.
    """
    written = ""
    for key, value in attributes.items():
        if isinstance(value, float):  # two decimals are finer than any screen
            value = f"{value:.2f}".rstrip("0").rstrip(".")
        if value is not None:
            written += f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def text(words: object, x: float, y: float, anchor: str = "start", class_: str = "label") -> str:
    """A text at a point; `anchor` is `start`, `middle` or `end`."""
    return element("text", escape(str(words)), x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def path(name: str, places: Iterable[tuple[float, float]], class_: str) -> str:
    """A `polyline` or a `polygon` through these places."""
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return element(name, points=corners, class_=class_)


def band(ends: Sequence[tuple[float, float, float]], class_: str) -> str:
    """The area between two lines, of `(x, low, high)`."""
    edge = [(x, high) for x, _, high in ends] + [(x, low) for x, low, _ in ends[::-1]]
    return path("polygon", edge, f"spread {class_}")


def drawing(width: float, height: float, parts: Iterable[str], says: str, class_: str) -> Markup:
    """A whole plot; `says` is its text alternative for screen readers."""
    drawn = "".join(parts)
    # A screen reader passes over whatever is inside a picture, links included.
    role = "group" if "a href" in drawn else "img"
    box = f"0 0 {width:g} {height:g}"
    return Markup(
        element("svg", drawn, viewBox=box, role=role, aria_label=says, class_=f"plot {class_}")
    )


def point(shape: str, words: str, href: str = "", *, stop: bool = False) -> str:
    """A mark with a tooltip; with `href`, a link, and a `stop` of the Tab key if it is one."""
    title = element("title", escape(words))
    if href:
        tab = None if stop else -1  # a list beside the chart leads to the same places
        return element("a", title, shape, href=href, class_="point", tabindex=tab)
    return element("g", title, shape, class_="point")


def chart(plot: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A drawing, and its data as a table behind it."""
    head = "".join(element("th", escape(heading), scope="col") for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:MAX_ROWS]
    )
    left = f"<p>The first {MAX_ROWS} of {count(len(rows))}.</p>" if len(rows) > MAX_ROWS else ""
    return Markup(
        f'<div class="chart">{plot}<details class="chart-data"><summary>Data</summary>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{left}</details></div>"
    )


def series_mark(number: int, x: float, y: float, class_: str = "") -> str:
    """A shape for each series: colors alone do not tell everybody."""
    class_ = f"mark series-{number}{class_}"
    if number % 3 == 0:
        return element("circle", cx=x, cy=y, r=4.5, class_=class_)
    if number % 3 == 1:
        return element("rect", x=x - 4, y=y - 4, width=8, height=8, class_=class_)
    return path("polygon", [(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)], class_)


def text_width(words: str) -> float:
    """About how wide a text is, rather too wide: fonts differ."""
    return 7.0 * len(words)


def shortened(words: str, room: float) -> str:
    """As much of a text as fits."""
    # About the width of a letter, rather too wide: fonts differ.
    fitting = int(room / 7.0)
    return words if len(words) <= fitting else f"{words[: fitting - 1].rstrip(' .,/')}…"


# --- axes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` onto coordinates from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        part = min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))
        return self.start + part * (self.end - self.start)

    def ticks(self, number: int = 5) -> list[float]:
        """About so many round values inside the scale: 1, 2 or 5 times a power of ten."""
        if self.high <= self.low:
            return [self.low]
        rough = (self.high - self.low) / number
        power = 10.0 ** math.floor(math.log10(rough))
        # The slack is for steps such as 0.1, which no float is.
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(place * step, 12) for place in range(first, last + 1)]


def _grid(
    up: Scale, left: float, right: float, words: Callable[[float], str], number: int = 4
) -> list[str]:
    """A line across the plot at each round height, with its value."""
    parts = []
    for value in up.ticks(number):
        y = up(value)
        parts += [line(left, y, right, y, "grid"), text(words(value), left - 6, y + 4, "end")]
    return parts


def _axis(across: Scale, y: float, words: Callable[[float], str], label: str = "") -> list[str]:
    marks = [text(words(tick), across(tick), y + 15, "middle", "tick") for tick in across.ticks()]
    middle = (across.start + across.end) / 2
    return [
        line(across.start, y, across.end, y, "axis"),
        *marks,
        text(label, middle, y + 34, "middle"),
    ]


# --- cells of tables -----------------------------------------------------------------------------


def whisker(
    mean: float, low: float | None, high: float | None, ends: tuple[float, float] = (0, 1)
) -> Markup:
    """A mean with its interval: `ends` are what is left and right."""
    across = Scale(*ends, 4, 130)
    says = f"{figure(mean)}, 95% interval {interval(low, high)}"
    parts = [element("title", escape(says)), line(4, 8, 130, 8, "grid")]
    if min(ends) < 0 < max(ends):
        parts.append(line(across(0), 2, across(0), 14, "zero"))
    if low is not None and high is not None:
        parts.append(line(across(low), 8, across(high), 8, "interval"))
    parts.append(element("circle", cx=across(mean), cy=8, r=3.5, class_="dot"))
    return drawing(134, 16, parts, says, "whisker")


def change_bar(change: float, better: bool) -> Markup:
    """A difference between -1 and 1 as a bar from the middle."""
    end = Scale(-1, 1, 0, 70)(change)
    class_ = "better" if better else "worse"
    bar = element("rect", x=min(35.0, end), y=3, width=abs(end - 35), height=8, class_=class_)
    return drawing(70, 14, [line(35, 0, 35, 14, "grid"), bar], difference(change, 3), "change-bar")


def sparkline(values: Sequence[float]) -> Markup:
    """A target's score from run to run."""
    up, across = Scale(min(values), max(values), 22, 4), Scale(0, max(1, len(values) - 1), 4, 150)
    places = [(across(x), up(value)) for x, value in enumerate(values)]
    last = element("circle", cx=places[-1][0], cy=places[-1][1], r=3, class_="dot")
    says = f"{counted(len(values), 'run')}: from {figure(values[0])} to {figure(values[-1])}"
    parts = [element("title", escape(says)), path("polyline", places, "line"), last]
    return drawing(154, 26, parts, says, "sparkline")


# --- charts of a run -----------------------------------------------------------------------------


def histogram(counts: Sequence[int], zeros: int, label: str) -> Markup:
    """How many queries scored what; those at exactly 0 have a bar to themselves."""
    up = Scale(0, max([1, zeros, *counts]), _HEIGHT - _BOTTOM, _TOP)
    across = Scale(0, 1, _LEFT + 34, _WIDTH - _RIGHT)
    step = (across.end - across.start) / len(counts)
    parts = _grid(up, _LEFT, across.end, lambda value: f"{value:,.0f}")
    parts += _axis(across, up(0), lambda value: f"{value:.1f}" if value else "", label)
    parts.append(text("0", _LEFT + 13, up(0) + 15, "middle", "tick"))
    bars = [("exactly 0", zeros, _LEFT + 3.0, 20.0, "bad")]
    for place, number in enumerate(counts):
        scores = f"{place / len(counts):.2f} to {(place + 1) / len(counts):.2f}"
        bars.append((scores, number, across.start + place * step + 1, step - 2, "column"))
    for scores, number, x, width, class_ in bars:
        height, words = up(0) - up(number), f"{counted(number, 'query', 'queries')}: {scores}"
        bar = element("rect", x=x, y=up(number), width=width, height=height, class_=class_)
        parts.append(point(bar, words))
    says = f"Distribution of {label}: {counted(zeros, 'query', 'queries')} at exactly 0"
    plot = drawing(_WIDTH, _HEIGHT, parts, says, "histogram")
    return chart(plot, (label, "Queries"), [(bar[0], count(bar[1])) for bar in bars])


def latency_dots(dots: Sequence[tuple[float, float, str, str]]) -> Markup:
    """One dot a query: when it was asked, how long it took, what it says, where it leads."""
    times, powers = [dot[0] for dot in dots], [math.log10(max(dot[1], 1e-3)) for dot in dots]
    # Of powers of ten: one slow query would press all others onto the axis.
    up = Scale(min(powers), max(powers) + 0.05, _HEIGHT - _BOTTOM, _TOP)
    across = Scale(min(times), max(times), _LEFT + 8, _WIDTH - _RIGHT)
    parts = _grid(
        up, across.start, across.end, lambda power: _axis_words(LATENCY, float(f"{10**power:.2g}"))
    )
    parts += _axis(across, up.start, lambda value: f"{value:g}", "seconds into the run")
    for (x, _, words, href), power in zip(dots, powers, strict=True):
        mark = element("circle", cx=across(x), cy=up(power), r=3, class_="query")
        parts.append(point(mark, words, href))
    longest = duration(max(dot[1] for dot in dots) / 1000)
    says = f"Latency of {counted(len(dots), 'query', 'queries')}: up to {longest}"
    return drawing(_WIDTH, _HEIGHT, parts, says, "latency")


def scatter(
    points: Sequence[tuple[float, float, str, str]],
    labels: tuple[str, str],
    ends: tuple[float, float] = (0.0, 1.0),
    higher_is_better: bool = True,
) -> Markup:
    """One dot a query with both scores, its words and its link: above the diagonal, y is higher."""
    size = 320
    across, up = Scale(*ends, 44, size - 10), Scale(*ends, size - 40, 10)
    parts = _grid(up, across.start, across.end, lambda value: f"{value:.1f}")
    parts += _axis(across, up.start, lambda value: f"{value:.1f}", shortened(labels[0], size - 60))
    parts.append(line(across.start, up.start, across.end, up.end, "zero"))
    parts.append(text(shortened(labels[1], size - 60), 46, 8))
    for x, y, words, href in points:
        class_ = "same" if x == y else "better" if (y > x) == higher_is_better else "worse"
        mark = element("circle", cx=across(x), cy=up(y), r=3.5, class_=f"query {class_}")
        parts.append(point(mark, f"{words}: {figure(x, 3)} → {figure(y, 3)}", href))
    says = f"{counted(len(points), 'query', 'queries')}: {labels[1]} against {labels[0]}"
    widest = sorted(points, key=lambda one: -abs(one[1] - one[0]))
    rows = [(words, figure(x, 3), figure(y, 3)) for x, y, words, _ in widest]
    return chart(drawing(size, size, parts, says, "scatter"), ("Query", *labels), rows)


def evidence_curve(curves: Mapping[str, Sequence[CurvePoint]]) -> Markup:
    """The share of the evidence that was seen after so many searches, with its band.

    Curves of several runs, by name, lie over each other.
    """
    up = Scale(0, 1, _HEIGHT - _BOTTOM, _TOP)
    last = max(found.at for curve in curves.values() for found in curve)
    across = Scale(0, last, _LEFT, _WIDTH - _RIGHT)
    parts = _grid(up, _LEFT, across.end, lambda value: f"{value:g}")
    parts += _axis(across, up(0), lambda v: f"{v:g}" if v == int(v) else "", "searches")
    rows, ends = [], []
    for number, (name, curve) in enumerate(curves.items()):
        known = [
            (across(c.at), up(c.low), up(c.high))
            for c in curve
            if c.low is not None and c.high is not None
        ]
        parts.append(band(known, f"series-{number}"))
        means = [(across(c.at), up(c.mean)) for c in curve]
        parts.append(path("polyline", means, f"joined series-{number}"))
        for found, (x, y) in zip(curve, means, strict=True):
            cells = (figure(found.mean, 3), interval(found.low, found.high))
            words = f"after {counted(found.at, 'search', 'searches')}: {' '.join(cells)}"
            parts.append(point(series_mark(number, x, y), f"{name} {words}".strip()))
            rows.append((name, str(found.at), *cells))
        if name:
            y = up(0) - 8 - 16 * (len(curves) - 1 - number)
            parts.append(series_mark(number, across.end - 8, y - 4))
            parts.append(text(shortened(name, 320), across.end - 18, y, "end"))
        ends.append(f"{name} {figure(curve[-1].mean, 3)} at the end".strip())
    says = f"Evidence seen after each search: {', '.join(ends)}"
    headings = ("Run", "Searches", "Evidence seen", "95% interval")
    return chart(drawing(_WIDTH, _HEIGHT, parts, says, "curve"), headings, rows)


def loss_bar(points: Mapping[str, float], unit: str = "points", digits: int = 1) -> Markup:
    """What is lost, split by its cause, as one bar: percentage points, or another unit."""
    shown = sorted(((n, v) for n, v in points.items() if v > 0), key=lambda item: -item[1])
    labels = [f"{name} {figure(value, digits)}" for name, value in shown]
    total, x, parts = sum(value for _, value in shown) or 1.0, 0.0, []
    for number, ((_, value), label) in enumerate(zip(shown, labels, strict=True)):
        width, class_ = _BAR_WIDTH * value / total, f"share series-{number % 6}"
        bar = element("rect", x=x, y=2, width=width, height=24, class_=class_)
        parts.append(point(bar, f"{label} {unit}"))
        if width > text_width(label) + 40:
            parts.append(text(f"{label} {unit}", x + 6, 18, class_="share-words"))
        x += width
    says = f"Loss in {unit}: {', '.join(labels)}"
    legend = element("p", escape(" · ".join(labels)), class_="m")
    return drawing(_BAR_WIDTH, 28, parts, says, "loss") + Markup(legend)


# --- a figure over time --------------------------------------------------------------------------


def figure_title(name: str) -> str:
    """What a chart or a table calls a figure."""
    if not is_score(name):
        return _TITLES[name]
    found = parse_figure(name)
    return found.title if isinstance(found, AnswerFigure) else str(found)


def figure_words(name: str, value: float) -> str:
    """A value of a figure with its unit."""
    if name in (LATENCY, SLOW):
        return duration(value / 1000)
    return figure(value)


def run_words(found: RunLine) -> str:
    """What tells a run apart: when, branch, commit, label."""
    where = f"{found.branch_title} {(found.git_commit or '')[:7]}".strip()
    return ", ".join(filter(None, (moment(found.started or ""), where, found.label)))


def branches_of(trend: TargetTrend) -> list[str]:
    """The branches of a trend, the main one first, then the most recently used."""
    newest = {found.branch_title: found.moment for found in trend.points}
    main = ("main", "master", "trunk")
    return sorted(newest, key=lambda branch: (branch not in main, -newest[branch]))


def trend_chart(trend: TargetTrend) -> Markup:
    """A figure over time: a line for each branch where runs compare, gates, and what changed.

    `trend` has at least one run; a point leads to its page.
    """
    name, title = trend.figure, figure_title(trend.figure)
    colors = {branch: number for number, branch in enumerate(branches_of(trend)[:MAX_SERIES])}
    shown = [series for series in trend.series if series.branch in colors]
    moments = [found.moment for series in shown for found in series.points]
    spare = 0.0 if max(moments) > min(moments) else 1.0
    ends = (min(moments) - spare, max(moments) + spare)
    across = Scale(*ends, _LEFT + 22, _TREND_WIDTH - _RIGHT - 18)
    up = _height_scale(trend, shown)
    parts = _grid(up, _LEFT, _TREND_WIDTH - _RIGHT, lambda value: _axis_words(name, value), 5)
    for branch, number in colors.items():
        x = _LEFT + _SERIES_ROOM * number
        parts += [series_mark(number, x + 6, 8), text(shortened(branch, 160), x + 16, 12)]
    parts.append(line(_LEFT, _TREND_BOTTOM, across.end + 14, _TREND_BOTTOM, "axis"))
    for at, words in date_ticks(*ends):
        parts.append(text(words, across(at), _TREND_BOTTOM + 16, "middle", "tick"))
    parts += _gate_lines(trend, across, up) + _change_marks(trend, across)
    for series in shown:
        parts += _series_lines(series, name, across, up, colors[series.branch])
    dots = [(series, found) for series in shown for found in series.points]
    step = -(-len(dots) // _MAX_DOTS)
    last = {series.points[-1].name for series in shown}
    dots = [d for place, d in enumerate(dots) if place % step == 0 or d[1].name in last]
    for series, found in dots:
        value, has_failed = found.values[name], bool(found.gates_failed)
        state = f"{'' if series.current else ' hollow'}{' failed' if has_failed else ''}"
        mark = series_mark(colors[series.branch], across(found.moment), up(value.mean), state)
        words = f"{title} {figure_words(name, value.mean)}, {run_words(found)}"
        words += ", gate failed" if has_failed else ""
        parts.append(point(mark, words, f"/runs/{found.name}", stop=len(dots) <= _MAX_STOPS))
    parts += _run_labels([found for _, found in dots], name, across, up)
    first, newest = (figure_words(name, trend.points[at].values[name].mean) for at in (0, -1))
    says = f"{title} over {counted(len(trend.points), 'run')}: from {first} to {newest}"
    plot = drawing(_TREND_WIDTH, _TREND_HEIGHT, parts, says, "trend")
    rows = [
        (
            moment(found.started or ""),
            found.branch_title,
            (found.git_commit or "")[:7],
            found.label or "",
            figure_words(name, found.values[name].mean),
            interval(found.values[name].low, found.values[name].high),
        )
        for found in reversed(trend.points)
    ]
    headings = ("Started", "Branch", "Commit", "Label", title, "95% interval")
    return chart(f'<div class="scroll newest">{plot}</div>', headings, rows)


def _height_scale(trend: TargetTrend, shown: Sequence[TrendSeries]) -> Scale:
    name = trend.figure
    points = [found for series in shown for found in series.points]
    values = [found.values[name] for found in points]
    ends = [end for v in values for end in (v.mean, v.low, v.high) if end is not None]
    ends += [found.bounds[name] for found in points if name in found.bounds]
    low, high = min(ends), max(ends)
    # It goes from -1 to 1: where zero is must be seen, whatever values the runs have.
    if name == "truthfulness":
        low, high = -1.0, 1.0
    elif is_score(name):
        room = max(0.08 * (high - low), 0.005)
        low, high = max(0.0, low - room), min(1.0, high + room)
    else:
        # From zero: otherwise twice the height would not be twice the time.
        low, high = 0.0, high * 1.1 or 1.0
    return Scale(low, high, _TREND_BOTTOM, _TREND_TOP)


def _axis_words(name: str, value: float) -> str:
    if name in (LATENCY, SLOW):
        return f"{value:g} ms" if value < 1000 else f"{value / 1000:g} s"
    return f"{value:g}"


_DAY = 86400
_STEPS = (
    *((60 * n, "%b %d %H:%M") for n in (1, 5, 15, 60, 180, 720)),
    *((_DAY * n, "%b %d") for n in (1, 2, 7, 14, 28)),
    *((_DAY * n, "%b %Y") for n in (61, 182, 365, 1826)),
)


def date_ticks(low: float, high: float, number: int = 10) -> list[tuple[float, str]]:
    """At most so many round times between two times in seconds since 1970, with their words."""
    span = max(high - low, 1.0)
    step, form = next((one for one in _STEPS if span / one[0] <= number), _STEPS[-1])
    first = math.ceil(low / step) * step
    moments = [first + n * step for n in range(int((high - first) // step) + 1)]
    return [(at, datetime.fromtimestamp(at, UTC).strftime(form)) for at in moments]


def _gate_lines(trend: TargetTrend, across: Scale, up: Scale) -> list[str]:
    """Each bound from the first run that had it to the last."""
    spans: dict[float, list[float]] = {}
    for found in trend.points:
        if trend.figure in found.bounds:
            spans.setdefault(found.bounds[trend.figure], []).append(across(found.moment))
    parts = []
    for bound, places in spans.items():
        y, end = up(bound), places[-1] + 8
        words = f"gate {_axis_words(trend.figure, bound)}"
        parts.append(line(places[0] - 8, y, end, y, "gate"))
        parts.append(text(words, max(end, _LEFT + 60), y - 4, "end", "tick gate-words"))
    return parts


def _change_marks(trend: TargetTrend, across: Scale) -> list[str]:
    parts, free = [], -math.inf
    for number, found in enumerate(trend.changes[-MAX_CHANGES:], start=1):
        x = across(found.point.moment)
        if x < free:
            continue  # the list below the chart has it; two badges on each other say nothing
        free = x + 18
        class_ = "change breaks" if found.breaks else "change"
        title = element("title", escape(f"{number}. {run_words(found.point)}: {found.words}"))
        stem = line(x, _TREND_TOP - 8, x, _TREND_BOTTOM, class_)
        badge = element("circle", cx=x, cy=_TREND_TOP - 15, r=7.5, class_="badge")
        words = text(number, x, _TREND_TOP - 11, "middle", "badge-number")
        parts.append(element("g", title, stem, badge, words))
    return parts


def _series_lines(
    series: TrendSeries, name: str, across: Scale, up: Scale, color: int
) -> list[str]:
    """The line through all runs of a series, with intervals as a band, or as bars of few runs."""
    values = [(across(found.moment), found.values[name]) for found in series.points]
    ends = [
        (x, up(v.low), up(v.high)) for x, v in values if v.low is not None and v.high is not None
    ]
    bars = [line(x, low, x, high, f"bar-interval series-{color}") for x, low, high in ends]
    drawn = [band(ends, f"series-{color}")] if len(ends) > _MAX_BARS else bars
    faint = "" if series.current else " earlier"
    means = [(x, up(value.mean)) for x, value in values]
    return [*drawn, path("polyline", means, f"joined series-{color}{faint}")]


def _run_labels(points: Sequence[RunLine], name: str, across: Scale, up: Scale) -> list[str]:
    """At most six labels of runs, the newest first, none over another."""
    newest = {p.label: p for p in sorted(points, key=lambda p: p.moment) if p.label}
    kept: list[tuple[float, float]] = []
    parts: list[str] = []
    for label, found in reversed(newest.items()):
        words = shortened(label or "", 120)
        half = text_width(words) / 2
        x = min(max(across(found.moment), across.start + half), across.end - half)
        if len(kept) < MAX_LABELS and all(abs(x - at) > half + room for at, room in kept):
            kept.append((x, half))
            parts.append(text(words, x, up(found.values[name].mean) - 9, "middle", "run-label"))
    return parts

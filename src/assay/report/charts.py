"""Charts as plain SVG: marks for cells of tables, and the charts of a run.

Colors come from CSS classes, so that one chart serves light mode, dark mode and paper. A chart has
neither a style attribute nor a script: the pages forbid both. What a point says is its title. A
chart is one picture for a screen reader, with its data in a table behind it; only points that lead
somewhere are stops of the Tab key.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from assay.report.numbers import count, counted, difference, duration, figure, interval
from assay.run.searches import CurvePoint

MAX_ROWS = 200
"""Rows of the table behind a chart."""

_WIDTH, _HEIGHT = 440, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 14, 38
_BAR_WIDTH = 600


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


def drawing(width: float, height: float, parts: Iterable[str], says: str, class_: str) -> Markup:
    """A whole plot; `says` is its text alternative for screen readers."""
    drawn = "".join(parts)
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
    left = f"<p>The first {MAX_ROWS} of {count(len(rows))}.</p>" * (len(rows) > MAX_ROWS)
    return Markup(
        f'<div class="chart">{plot}<details class="chart-data"><summary>Data</summary>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{left}</details></div>"
    )


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` onto coordinates from `start` to `end`.

    `logarithmic` is for values that span orders of magnitude.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = (math.log10(max(each, 1e-9)) for each in (low, high, value))
        if high == low:
            return (self.start + self.end) / 2
        part = min(1.0, max(0.0, (value - low) / (high - low)))
        return self.start + part * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values inside the scale, about `most` of them: 1, 2 or 5 times a power of ten."""
        if self.high <= self.low:
            return [self.low]
        if self.logarithmic:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            fine = (1, 2, 5) if len(powers) <= 3 else (1,)
            steps = [one * 10.0**power for power in powers for one in fine]
            return [step for step in steps if self.low <= step <= self.high]
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(one * power for one in (1, 2, 5, 10) if one * power >= rough * 0.999)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) for number in range(first, last + 1)]


def text_width(words: str, size: float = 12) -> float:
    """About how wide a text is, rather too wide: fonts differ."""
    return sum(1.0 if ord(letter) > 0x2E7F else 0.58 for letter in words) * size


def shortened(words: str, room: float) -> str:
    """As much of a text as fits."""
    if len(words) <= 400 and text_width(words) <= room:
        return words
    words = words[: max(0, int(room / 6))]  # no letter is narrower
    while words and text_width(f"{words}…") > room:
        words = words[:-1]
    return f"{words.rstrip(' .,/')}…"


def without_overlap(labels: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """Those of the labels, centered at a place each, that leave the ones before them free."""
    kept: list[tuple[float, float, str]] = []
    for x, words in labels:
        half = text_width(words) / 2
        if all(abs(x - other) >= half + room + 8 for other, room, _ in kept):
            kept.append((x, half, words))
    return [(x, words) for x, _, words in kept]


def grid(
    up: Scale, left: float, right: float, words: Callable[[float], str], most: int = 4
) -> list[str]:
    """A line across the plot at each round height, with its value."""
    parts = []
    for value in up.ticks(most):
        y = up(value)
        parts += [line(left, y, right, y, "grid"), text(words(value), left - 6, y + 4, "end")]
    return parts


def _axis(across: Scale, y: float, words: Callable[[float], str], label: str = "") -> list[str]:
    ticks = without_overlap((across(value), words(value)) for value in across.ticks())
    marks = [text(tick, x, y + 15, "middle", "tick") for x, tick in ticks]
    middle = (across.start + across.end) / 2
    return [
        line(across.start, y, across.end, y, "axis"),
        *marks,
        text(label, middle, y + 34, "middle"),
    ]


def _plain(value: float) -> str:
    return f"{value:g}"


def _whole(value: float) -> str:
    return f"{value:g}" if value == int(value) else ""


def whisker(
    mean: float, low: float | None, high: float | None, ends: tuple[float, float] = (0, 1)
) -> Markup:
    """A mean with its interval, for a cell of a table: `ends` are what is left and right."""
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
    """A difference between -1 and 1 as a bar from the middle, for a cell of a table."""
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


def histogram(counts: Sequence[int], zeros: int, label: str) -> Markup:
    """How many queries scored what; those at exactly 0 have a bar to themselves."""
    up = Scale(0, max([1, zeros, *counts]), _HEIGHT - _BOTTOM, _TOP)
    across = Scale(0, 1, _LEFT + 34, _WIDTH - _RIGHT)
    step = (across.end - across.start) / len(counts)
    parts = grid(up, _LEFT, across.end, lambda value: f"{value:,.0f}")
    parts += _axis(across, up(0), lambda value: f"{value:.1f}" if value else "", label)
    parts.append(text("0", _LEFT + 13, up(0) + 15, "middle", "tick"))
    bars = [("exactly 0", zeros, _LEFT + 3.0, 20.0, "bad")]
    for place, number in enumerate(counts):
        scores = f"{place / len(counts):.2f} to {(place + 1) / len(counts):.2f}"
        bars.append((scores, number, across.start + place * step + 1, step - 2, "bar"))
    for scores, number, x, width, class_ in bars:
        height, words = up(0) - up(number), f"{counted(number, 'query', 'queries')}: {scores}"
        bar = element("rect", x=x, y=up(number), width=width, height=height, class_=class_)
        parts.append(point(bar, words))
    says = f"Distribution of {label}: {counted(zeros, 'query', 'queries')} at exactly 0"
    plot = drawing(_WIDTH, _HEIGHT, parts, says, "histogram")
    return chart(plot, (label, "Queries"), [(bar[0], count(bar[1])) for bar in bars])


def latency_dots(dots: Sequence[tuple[float, float, str, str]], label: str) -> Markup:
    """One dot a query: when it was asked, how long it took, what it says, where it leads."""
    times, taken = [dot[0] for dot in dots], [dot[1] for dot in dots]
    low, high = max(min(taken), 1e-3), max([*taken, 1e-3])
    wide = high / low > 50
    up = Scale(low if wide else 0, high * 1.1, _HEIGHT - _BOTTOM, _TOP, logarithmic=wide)
    across = Scale(min(times), max(times), _LEFT + 8, _WIDTH - _RIGHT)
    parts = grid(up, across.start, across.end, lambda value: duration(value / 1000))
    parts += _axis(across, _HEIGHT - _BOTTOM, _plain, label)
    for x, y, words, href in dots:
        mark = element("circle", cx=across(x), cy=up(y), r=3, class_="query")
        parts.append(point(mark, words, href))
    says = f"Latency of {counted(len(dots), 'query', 'queries')}: up to {duration(high / 1000)}"
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
    parts = grid(up, across.start, across.end, lambda value: f"{value:.1f}")
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
    parts = grid(up, _LEFT, across.end, _plain) + _axis(across, up(0), _whole, "searches")
    rows, ends = [], []
    for number, (name, curve) in enumerate(curves.items()):
        known = [
            (across(c.at), up(c.low), up(c.high))
            for c in curve
            if c.low is not None and c.high is not None
        ]
        edge = [(x, high) for x, _, high in known] + [(x, low) for x, low, _ in known[::-1]]
        parts.append(path("polygon", edge, f"spread series-{number}"))
        means = [(across(c.at), up(c.mean)) for c in curve]
        parts.append(path("polyline", means, f"joined series-{number}"))
        for found, (x, y) in zip(curve, means, strict=True):
            value = f"{figure(found.mean, 3)} {interval(found.low, found.high)}"
            words = f"after {counted(found.at, 'search', 'searches')}: {value}"
            shown = ", ".join(filter(None, (name, words)))
            parts.append(point(series_mark(number, x, y), shown))
            rows.append(
                (name, str(found.at), figure(found.mean, 3), interval(found.low, found.high))
            )
        if name:
            y = up(0) - 8 - 16 * (len(curves) - 1 - number)
            parts += [series_mark(number, across.end - 8, y - 4)]
            parts.append(text(shortened(name, 320), across.end - 18, y, "end"))
        ends.append(f"{name} {figure(curve[-1].mean, 3)} at the end".strip())
    says = f"Evidence seen after each search: {', '.join(ends)}"
    headings = ("Run", "Searches", "Evidence seen", "95% interval")
    return chart(drawing(_WIDTH, _HEIGHT, parts, says, "curve"), headings, rows)


def series_mark(number: int, x: float, y: float, class_: str = "") -> str:
    """A shape for each series: colors alone do not tell everybody."""
    class_ = f"mark series-{number}{class_}"
    if number % 3 == 0:
        return element("circle", cx=x, cy=y, r=4.5, class_=class_)
    if number % 3 == 1:
        return element("rect", x=x - 4, y=y - 4, width=8, height=8, class_=class_)
    return path("polygon", [(x, y - 5), (x + 5, y + 4), (x - 5, y + 4)], class_)


def loss_bar(points: Mapping[str, float], unit: str = "points", digits: int = 1) -> Markup:
    """What is lost, split by its cause, as one bar: percentage points, or another unit."""
    shown = sorted(((n, v) for n, v in points.items() if v > 0), key=lambda item: -item[1])
    labels = [f"{name} {figure(value, digits)}" for name, value in shown]
    total, x, parts = sum(value for _, value in shown) or 1.0, 0.0, []
    for number, ((_, value), label) in enumerate(zip(shown, labels, strict=True)):
        width, words = _BAR_WIDTH * value / total, f"{label} {unit}"
        class_ = f"share series-{number % 6}"
        bar = element("rect", x=x, y=2, width=width, height=24, class_=class_)
        parts.append(point(bar, words))
        if width > text_width(words) + 8:
            parts.append(text(words, x + 6, 18, class_="share-words"))
        x += width
    says = f"Loss in {unit}: {', '.join(labels)}"
    legend = element("p", escape(" · ".join(labels)), class_="m")
    return drawing(_BAR_WIDTH, 28, parts, says, "loss") + Markup(legend)

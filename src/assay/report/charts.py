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

from assay.metrics.answer_values import Quadrants
from assay.report.numbers import count, counted, difference, duration, figure, interval, share
from assay.run.searches import CurvePoint

WIDTH, HEIGHT = 440, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 14, 38
TABLE_ROWS = 200
"""Rows of the table behind a chart, at most."""


def element(name: str, *children: str, **attributes: object) -> str:
    """One element; `class_` and `text_anchor` are written `class` and `text-anchor`.

    Children must be escaped already; attributes are escaped here.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def _short(value: object) -> str:
    """Two decimals are finer than any screen and keep the file small."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(words: object, x: float, y: float, anchor: str = "start", class_: str = "label") -> str:
    """A text at a point; `anchor` is `start`, `middle` or `end`."""
    return element("text", escape(str(words)), x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def drawing(width: float, height: float, parts: Iterable[str], says: str, class_: str) -> Markup:
    """A whole plot; `says` is its text alternative for screen readers."""
    box, group = f"0 0 {width:g} {height:g}", "a href" in (drawn := "".join(parts))
    role = "group" if group else "img"
    return Markup(
        element("svg", drawn, viewBox=box, role=role, aria_label=says, class_=f"plot {class_}")
    )


def point(shape: str, words: str, href: str = "", *, stop: bool = False) -> str:
    """A mark with a tooltip; with `href`, a link, and a `stop` of the Tab key if it is one."""
    parts = [element("title", escape(words)), shape]
    if href:
        tab = None if stop else -1  # a list beside the chart leads to the same places
        return element("a", *parts, href=href, class_="point", tabindex=tab)
    return element("g", *parts, class_="point")


def chart(plots: Iterable[str], headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Drawings of the same data for several widths, and the data as a table behind them."""
    head = "".join(element("th", escape(heading), scope="col") for heading in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[:TABLE_ROWS]
    )
    left = f"<p>The first {TABLE_ROWS} of {count(len(rows))}.</p>" * (len(rows) > TABLE_ROWS)
    return Markup(
        f'<div class="chart">{"".join(plots)}<details class="chart-data"><summary>Data</summary>'
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
        low, high, value = (self._on(each) for each in (self.low, self.high, value))
        if high == low:
            return (self.start + self.end) / 2
        part = min(1.0, max(0.0, (value - low) / (high - low)))
        return self.start + part * (self.end - self.start)

    def _on(self, value: float) -> float:
        return math.log10(max(value, 1e-9)) if self.logarithmic else value

    def ticks(self, most: int = 5) -> list[float]:
        """Round values inside the scale, about `most` of them: 1, 2 or 5 times a power of ten."""
        if self.logarithmic:
            first, last = math.floor(self._on(self.low)), math.ceil(self._on(self.high))
            fine = (1, 2, 5) if last - first <= 2 else (1,)
            steps = [one * 10.0**power for power in range(first, last + 1) for one in fine]
            return [step for step in steps if self.low <= step <= self.high]
        if self.high <= self.low:
            return [self.low]
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
    if text_width(words[:400]) <= room and len(words) <= 400:
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


def axis_below(scale: Scale, y: float, words: Callable[[float], str]) -> list[str]:
    """A horizontal axis with its ticks; `words` labels a value."""
    ticks = without_overlap((scale(value), words(value)) for value in scale.ticks())
    marks = [text(label, x, y + 15, "middle", "tick") for x, label in ticks]
    return [line(scale.start, y, scale.end, y, "axis"), *marks]


def axis_beside(
    scale: Scale, x: float, end: float, words: Callable[[float], str], most: int = 4
) -> list[str]:
    """A vertical axis with a grid line across the plot at each tick; `words` labels a value."""
    marks = []
    for value in scale.ticks(most):
        y = scale(value)
        marks += [line(x, y, end, y, "grid"), text(words(value), x - 6, y + 4, "end", "tick")]
    return marks


def whisker(
    mean: float, low: float | None, high: float | None, ends: tuple[float, float] = (0, 1)
) -> Markup:
    """A mean with its interval, for a cell of a table: `ends` are what is left and right."""
    across = Scale(*ends, 4, 130)
    parts = [line(4, 8, 130, 8, "grid")]
    if min(ends) < 0 < max(ends):
        parts.append(line(across(0), 2, across(0), 14, "zero"))
    if low is not None and high is not None:
        parts.append(line(across(low), 8, across(high), 8, "interval"))
    parts.append(element("circle", cx=across(mean), cy=8, r=3.5, class_="dot"))
    says = f"{figure(mean)}, 95% interval {interval(low, high)}"
    return drawing(134, 16, [element("title", escape(says)), *parts], says, "whisker")


def change_bar(change: float, better: bool, reach: float = 1.0) -> Markup:
    """A difference as a bar from the middle, for a cell of a table."""
    end = Scale(-reach, reach, 0, 70)(change)
    bar = element(
        "rect",
        x=min(35.0, end),
        y=3,
        width=abs(end - 35),
        height=8,
        class_="better" if better else "worse",
    )
    return drawing(70, 14, [line(35, 0, 35, 14, "grid"), bar], difference(change, 3), "change-bar")


def sparkline(values: Sequence[float]) -> Markup:
    """A target's score from run to run."""
    up, across = Scale(min(values), max(values), 22, 4), Scale(0, max(1, len(values) - 1), 4, 150)
    places = " ".join(f"{across(x):.1f},{up(value):.1f}" for x, value in enumerate(values))
    last = element("circle", cx=across(len(values) - 1), cy=up(values[-1]), r=3, class_="dot")
    says = f"{counted(len(values), 'run')}: from {figure(values[0])} to {figure(values[-1])}"
    joined = element("polyline", points=places, class_="line")
    return drawing(154, 26, [element("title", escape(says)), joined, last], says, "sparkline")


def histogram(counts: Sequence[int], zeros: int, label: str) -> Markup:
    """How many queries scored what; those at exactly 0 have a bar to themselves."""
    up = Scale(0, max([1, zeros, *counts]), HEIGHT - _BOTTOM, _TOP)
    across = Scale(0, 1, _LEFT + 34, WIDTH - _RIGHT)
    step = (across.end - across.start) / len(counts)
    parts = axis_beside(up, _LEFT, WIDTH - _RIGHT, lambda value: f"{value:,.0f}")
    parts += axis_below(across, up(0), lambda value: f"{value:.1f}" if value else "")
    parts.append(text("0", _LEFT + 13, up(0) + 15, "middle", "tick"))
    bars = [("exactly 0", zeros, _LEFT + 3.0, 20.0, "bad")]
    for place, number in enumerate(counts):
        scores = f"{place / len(counts):.2f} to {(place + 1) / len(counts):.2f}"
        bars.append((scores, number, across.start + place * step + 1, step - 2, "bar"))
    for scores, number, x, width, class_ in bars:
        top, words = up(number), f"{counted(number, 'query', 'queries')}: {scores}"
        bar = element("rect", x=x, y=top, width=width, height=up(0) - top, class_=class_)
        parts.append(point(bar, words))
    parts.append(text(label, (across.start + across.end) / 2, HEIGHT - 4, "middle"))
    says = f"Distribution of {label}: {counted(zeros, 'query', 'queries')} at exactly 0"
    plot = drawing(WIDTH, HEIGHT, parts, says, "histogram")
    return chart([plot], (label, "Queries"), [(bar[0], count(bar[1])) for bar in bars])


def latency_dots(dots: Sequence[tuple[float, float, str, str]], axis: str) -> Markup:
    """One dot a query: when it was asked, how long it took, what it says, where it leads."""
    times, taken = [dot[0] for dot in dots], [dot[1] for dot in dots]
    low, high = max(min(taken), 1e-3), max([*taken, 1e-3])
    wide = high / low > 50
    up = Scale(low if wide else 0, high * 1.1, HEIGHT - _BOTTOM, _TOP, logarithmic=wide)
    across = Scale(min(times), max(times), _LEFT + 8, WIDTH - _RIGHT)
    parts = axis_beside(up, _LEFT + 8, across.end, lambda value: duration(value / 1000))
    parts += axis_below(across, HEIGHT - _BOTTOM, lambda value: f"{value:g}")
    for x, y, words, href in dots:
        mark = element("circle", cx=across(x), cy=up(y), r=3, class_="query")
        parts.append(point(mark, words, href))
    parts.append(text(axis, (across.start + across.end) / 2, HEIGHT - 4, "middle"))
    says = f"Latency of {counted(len(dots), 'query', 'queries')}: up to {duration(high / 1000)}"
    return drawing(WIDTH, HEIGHT, parts, says, "latency")


def scatter(
    points: Sequence[tuple[float, float, str, str]],
    labels: tuple[str, str],
    ends: tuple[float, float] = (0.0, 1.0),
    higher_is_better: bool = True,
) -> Markup:
    """One dot a query with both scores, its words and its link: above the diagonal, y is higher."""
    size = 320
    across, up = Scale(*ends, 44, size - 10), Scale(*ends, size - 40, 10)
    parts = axis_beside(up, 44, size - 10, lambda value: f"{value:.1f}")
    parts += axis_below(across, size - 40, lambda value: f"{value:.1f}")
    parts.append(line(across.start, up.start, across.end, up.end, "zero"))
    for x, y, words, href in points:
        class_ = "same" if x == y else "better" if (y > x) == higher_is_better else "worse"
        mark = element("circle", cx=across(x), cy=up(y), r=3.5, class_=f"query {class_}")
        parts.append(point(mark, f"{words}: {figure(x, 3)} → {figure(y, 3)}", href))
    parts.append(text(shortened(labels[0], size - 60), size / 2, size - 6, "middle"))
    parts.append(text(shortened(labels[1], size - 60), 46, 8))
    says = f"{counted(len(points), 'query', 'queries')}: {labels[1]} against {labels[0]}"
    widest = sorted(points, key=lambda one: -abs(one[1] - one[0]))
    rows = [(words, figure(x, 3), figure(y, 3)) for x, y, words, _ in widest]
    return chart([drawing(size, size, parts, says, "scatter")], ("Query", *labels), rows)


_CELLS = (
    ("evidence_right", "right", "everything needed was retrieved"),
    ("evidence_wrong", "wrong", "everything needed was retrieved: generation failed"),
    ("no_evidence_right", "right", "something needed was missing"),
    ("no_evidence_wrong", "wrong", "something needed was missing: retrieval failed"),
)


def quadrants_bar(quadrants: Quadrants) -> Markup:
    """Retrieval against generation as one bar: evidence there or not, answer right or wrong."""
    numbers = [getattr(quadrants, name) for name, _, _ in _CELLS]
    total = sum(numbers)
    parts, rows, x = [], [], 0.0
    for (_, verdict, meaning), number in zip(_CELLS, numbers, strict=True):
        width = 600 * number / total if total else 0.0
        words = f"{count(number)} {verdict} ({share(number, total)}), {meaning}"
        faded = " missing" if meaning.startswith("something") else ""
        bar = element("rect", x=x, y=2, width=width, height=24, class_=f"cell {verdict}{faded}")
        parts.append(point(bar, words))
        label = f"{count(number)} {verdict}"
        if width > text_width(label) + 8:
            parts.append(text(label, x + 6, 18, class_=f"cell-words {verdict}"))
        rows.append((meaning, verdict, count(number)))
        x += width
    says = "; ".join(": ".join((meaning, f"{number} {v}")) for meaning, v, number in rows)
    plot = drawing(600, 28, parts, f"Retrieval against generation. {says}", "quadrants")
    return chart([plot], ("Retrieval", "Answer", "Questions"), rows)


def evidence_curve(points: Sequence[CurvePoint]) -> Markup:
    """The share of the evidence that was seen after so many searches, with its band."""
    curve = [(found.at, found.mean, found.low, found.high) for found in points]
    up = Scale(0, 1, HEIGHT - _BOTTOM, _TOP)
    across = Scale(0, max(at for at, *_ in curve), _LEFT, WIDTH - _RIGHT)
    parts = axis_beside(up, _LEFT, WIDTH - _RIGHT, lambda value: f"{value:g}")
    parts += axis_below(across, up(0), lambda value: f"{value:g}")
    known = [(at, low, high) for at, _, low, high in curve if low is not None and high is not None]
    edge = [(at, high) for at, _, high in known] + [(at, low) for at, low, _ in known[::-1]]
    for class_, name, places in (
        ("spread series-0", "polygon", edge),
        ("line", "polyline", [(at, mean) for at, mean, *_ in curve]),
    ):
        corners = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in places)
        parts.append(element(name, points=corners, class_=class_))
    for at, mean, low, high in curve:
        words = (
            f"after {counted(at, 'search', 'searches')}: {figure(mean, 3)} {interval(low, high)}"
        )
        parts.append(point(element("circle", cx=across(at), cy=up(mean), r=3, class_="dot"), words))
    parts.append(text("searches", (across.start + across.end) / 2, HEIGHT - 4, "middle"))
    says = f"Evidence seen after each search: {figure(curve[-1][1], 3)} at the end"
    rows = [(str(at), figure(mean, 3), interval(low, high)) for at, mean, low, high in curve]
    plot = drawing(WIDTH, HEIGHT, parts, says, "curve")
    return chart([plot], ("Searches", "Evidence seen", "95% interval"), rows)


def loss_bar(points: Mapping[str, float], unit: str = "points", digits: int = 1) -> Markup:
    """What is lost, split by its cause, as one bar: percentage points, or another unit."""
    shown = {name: value for name, value in points.items() if value > 0}
    total, x, parts = sum(shown.values()) or 1.0, 0.0, []
    for number, (name, value) in enumerate(sorted(shown.items(), key=lambda item: -item[1])):
        width, words = 600 * value / total, f"{name} {figure(value, digits)} {unit}"
        bar = element("rect", x=x, y=2, width=width, height=24, class_=f"share series-{number % 6}")
        parts.append(point(bar, words))
        if width > text_width(words) + 8:
            parts.append(text(words, x + 6, 18, class_="share-words"))
        x += width
    rows = [(name, figure(value, digits)) for name, value in shown.items()]
    says = ", ".join(f"{name} {value}" for name, value in rows)
    plot = drawing(600, 28, parts, f"Loss in {unit}: {says}", "loss")
    legend = element("p", escape(" · ".join(f"{name} {value}" for name, value in rows)), class_="m")
    return chart([plot, legend], ("Cause", unit), rows)

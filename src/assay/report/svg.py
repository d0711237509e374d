"""Building blocks of SVG plots: elements, points, a scale, an axis, a table of the data.

Colors come from CSS classes, so that one plot serves light mode, dark mode and paper. A plot never
has a style attribute or a script: the pages forbid both. What a point says is its title, and is
written into the plot while the point has the focus, so that neither needs a script.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape

from markupsafe import Markup


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


def text(words: object, x: float, y: float, anchor: str = "start", class_: str = "label") -> str:
    """A text at a point; `anchor` is `start`, `middle` or `end`."""
    return element("text", escape(str(words)), x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    """A straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def tip(words: str) -> str:
    """A tooltip for the element that holds it."""
    return element("title", escape(words))


def drawing(
    width: float, height: float, parts: Iterable[str], says: str, class_: str, role: str = "img"
) -> Markup:
    """A whole plot; `says` is its text alternative for screen readers."""
    box = f"0 0 {width:g} {height:g}"
    return Markup(
        element("svg", *parts, viewBox=box, role=role, aria_label=says, class_=f"plot {class_}")
    )


_GAP = 8
REACHED = 60
"""Points that the Tab key reaches one by one; of more, a script makes one stop with arrow keys."""

TABLE_ROWS = 200
"""Rows of the table behind a chart, at most."""


def point(shape: str, words: str, *, x: float, room: float, few: bool, href: str = "") -> str:
    """A mark with a tooltip that can have the focus.

    Parameters:
        shape: the mark itself.
        words: what it stands for.
        x: where in the plot the words are written while the mark has the focus.
        room: how wide they may be; 0 where the plot says the same anyway.
        few: whether the plot has so few points that each is a stop of the Tab key.
        href: where it leads to.
    """
    parts = [tip(words), shape]
    if few and room:
        parts.append(text(shortened(words, room), x, 11, "start", "say"))
    if href:
        return element("a", *parts, href=href, class_="point")
    stop = 0 if few else None
    return element("g", *parts, class_="point", role="img", tabindex=stop)


@dataclass(frozen=True, slots=True)
class DataTable:
    """The figures of a chart; `more` says what it leaves out."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    more: str = ""

    @property
    def html(self) -> str:
        """The table, closed until somebody asks for it."""
        head = "".join(element("th", escape(each), scope="col") for each in self.headings)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows[:TABLE_ROWS]
        )
        left = len(self.rows) - TABLE_ROWS
        more = self.more or (f"The first {TABLE_ROWS} of {len(self.rows):,}." if left > 0 else "")
        note = element("p", escape(more), class_="muted") if more else ""
        # The rows of a table that nobody opened are not laid out, and not read aloud.
        return (
            '<details class="chart-data"><summary>Data of this chart</summary>'
            '<div class="scroll" tabindex="0" role="group" aria-label="Data of this chart">'
            f"<table><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table></div>{note}</details>"
        )


def chart(
    width: float,
    height: float,
    parts: Iterable[str],
    says: str,
    class_: str,
    table: DataTable | None,
) -> Markup:
    """A plot whose points can be reached, with its data behind it.

    `class_` also names the file that the plot is saved as.
    """
    svg = drawing(width, height, parts, says, class_, role="group")
    return framed([svg], class_, table)


def framed(plots: Iterable[str], name: str, table: DataTable | None) -> Markup:
    """Drawings of the same data for several widths, of which the style shows one, and the data."""
    data = table.html if table else ""
    return Markup(f'<div class="chart" data-name="{escape(name)}">{"".join(plots)}{data}</div>')


def text_width(words: str, size: float = 12) -> float:
    """About how wide a text is, rather too wide: fonts differ."""
    wide = sum(1.0 if ord(letter) > 0x2E7F else 0.58 for letter in words)
    return wide * size


def shortened(words: str, room: float) -> str:
    """As much of a text as fits."""
    if len(words) <= room and text_width(words) <= room:
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
        if all(abs(x - other) >= half + room + _GAP for other, room, _ in kept):
            kept.append((x, half, words))
    return [(x, words) for x, _, words in kept]


def place_labels(
    labels: Iterable[tuple[float, float, str]],
    marks: Sequence[tuple[float, float]],
    across: tuple[float, float],
    top: float,
) -> list[str]:
    """Labels of points, above or below each, where they cover neither a mark nor another label.

    Parameters:
        labels: the point of each and its words, those first that matter most.
        marks: the points that must stay in sight.
        across: the left and right edge.
        top: the upper edge.
    """
    boxes: list[tuple[float, float, float]] = []
    parts = []
    for x, y, words in labels:
        half = text_width(words, 11.5) / 2
        center = min(max(x, across[0] + half), across[1] - half)
        for base in (y - 9, y + 17):
            free = base - 11 >= top and all(
                abs(center - bx) > half + bh + 4 or abs(base - by) > 14 for bx, by, bh in boxes
            )
            if free and not any(
                abs(center - mx) < half + 4 and base - 14 < my < base + 5 for mx, my in marks
            ):
                boxes.append((center, base, half))
                parts.append(text(words, center, base, "middle", "run-label"))
                break
    return parts


def apart(places: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """The places, moved so far that any two are `gap` apart, in the same order."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    floor = low
    for i in order:
        moved[i] = floor = max(floor, places[i])
        floor += gap
    roof = high
    for i in reversed(order):
        moved[i] = roof = min(roof, moved[i])
        roof -= gap
    return moved


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
        share = min(1.0, max(0.0, (value - low) / (high - low)))
        return self.start + share * (self.end - self.start)

    def _on(self, value: float) -> float:
        return math.log10(max(value, 1e-9)) if self.logarithmic else value

    def ticks(self, most: int = 5) -> list[float]:
        """Round values inside the scale, about `most` of them."""
        if self.logarithmic:
            first, last = math.floor(self._on(self.low)), math.ceil(self._on(self.high))
            fine = (1, 2, 5) if last - first <= 2 else (1,)
            steps = [each * 10.0**power for power in range(first, last + 1) for each in fine]
            return [step for step in steps if self.low <= step <= self.high]
        return round_steps(self.low, self.high, most)


def round_steps(low: float, high: float, most: int) -> list[float]:
    """Steps of 1, 2 or 5 times a power of ten."""
    if high <= low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def axis_below(
    scale: Scale,
    y: float,
    words: Callable[[float], str],
    *,
    zero: bool = False,
) -> list[str]:
    """A horizontal axis with its ticks; `words` labels a value, `zero` adds one at the start."""
    marks = [line(scale.start, y, scale.end, y, "axis")]
    ticks = [(scale.start, words(0.0))] if zero else []
    ticks += [(scale(value), words(value)) for value in scale.ticks()]
    for x, label in without_overlap(ticks):
        marks.append(text(label, x, y + 15, "middle", "tick"))
    return marks


_HOUR, _DAY = 3600, 86400
_STEPS = (
    *((n, "%H:%M:%S") for n in (1, 5, 15, 30)),
    *((60 * n, "%b %-d %H:%M") for n in (1, 5, 15, 30)),
    *((_HOUR * n, "%b %-d %H:%M") for n in (1, 3, 6, 12)),
    *((_DAY * n, "%b %-d") for n in (1, 2, 7, 14)),
)
_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120)


def date_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """At most so many round times between two times in seconds since 1970, with their words."""
    span = max(high - low, 1.0)
    for step, form in _STEPS:
        if span / step <= most:
            # Days of a week are counted from a Monday, others from the first of the epoch.
            offset = 4 * _DAY if step >= 7 * _DAY else 0
            first = math.ceil((low - offset) / step) * step + offset
            count = int((high - first) // step) + 1
            moments = [datetime.fromtimestamp(first + n * step, UTC) for n in range(count)]
            return [(each.timestamp(), _date_words(each, form)) for each in moments]
    months = next((n for n in _MONTHS if span / (n * 30.4 * _DAY) <= most), _MONTHS[-1])
    return list(_month_ticks(low, high, months))


def _month_ticks(low: float, high: float, months: int) -> Iterable[tuple[float, str]]:
    first = datetime.fromtimestamp(low, UTC)
    number = -(-(first.year * 12 + first.month - 1) // months) * months
    while True:
        moment = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        if moment.timestamp() > high:
            return
        if moment.timestamp() >= low:
            yield moment.timestamp(), str(moment.year) if months >= 12 else f"{moment:%b %Y}"
        number += months


def _date_words(moment: datetime, form: str) -> str:
    return moment.strftime(form.replace("%-d", str(moment.day)))


def axis_beside(
    scale: Scale, x: float, end: float, words: Callable[[float], str], most: int = 4
) -> list[str]:
    """A vertical axis with a grid line across the plot at each tick; `words` labels a value."""
    marks = []
    for value in scale.ticks(most):
        y = scale(value)
        marks.append(line(x, y, end, y, "grid"))
        marks.append(text(words(value), x - 6, y + 4, "end", "tick"))
    return marks


def _short(value: object) -> str:
    """Two decimals are finer than any screen and keep the file small."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

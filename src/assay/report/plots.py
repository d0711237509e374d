"""The plots of the report, the comparison and the web pages, drawn as plain SVG.

`score_line`, `whisker` and `sparkline` are marks beside the figures that they show. The others are
charts: each point has a tooltip and can have the focus, and the data are a table behind the plot.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

from markupsafe import Markup

from assay.answers.diagnosis import Quadrants
from assay.report.numbers import count, counted, difference, duration, figure, interval, share
from assay.report.svg import (
    REACHED,
    DataTable,
    Scale,
    apart,
    axis_below,
    axis_beside,
    chart,
    drawing,
    element,
    line,
    point,
    shortened,
    text,
    tip,
)

WIDTH, HEIGHT = 440, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 14, 38


def score_line(mean: float, low: float | None, high: float | None, ceiling: float) -> Markup:
    """The headline score with its interval, between 0 and the ceiling."""
    across = Scale(0, 1, 2, 438)
    parts = [element("rect", x=2, y=22, width=436, height=10, rx=5, class_="track")]
    reach = across(mean) - across(0)
    parts.append(element("rect", x=2, y=22, width=reach, height=10, rx=5, class_="reach"))
    if low is not None and high is not None:
        parts += _whisker(across(low), across(high), 27, 8)
    parts.append(element("circle", cx=across(mean), cy=27, r=6.5, class_="dot"))
    parts.append(line(across(ceiling), 14, across(ceiling), 40, "ceiling"))
    end = ceiling > 0.8
    where = across(ceiling) if end else across(ceiling) + 5
    parts.append(text(f"ceiling {figure(ceiling)}", where, 10, "end" if end else "start", "tick"))
    parts += [text("0", 2, 54, "start", "tick"), text("1", 438, 54, "end", "tick")]
    says = f"{figure(mean)}, 95% interval {interval(low, high)}, ceiling {figure(ceiling)}"
    return drawing(440, 60, [tip(says), *parts], says, "score-line")


def whisker(
    mean: float, low: float | None, high: float | None, ends: tuple[float, float] = (0, 1)
) -> Markup:
    """A mean with its interval, for a cell of a table: `ends` are what is left and right."""
    across = Scale(*ends, 6, 174)
    parts = [line(6, 9, 174, 9, "grid")]
    if min(ends) < 0 < max(ends):
        parts.append(line(across(0), 1, across(0), 17, "zero"))
    if low is not None and high is not None:
        parts += _whisker(across(low), across(high), 9, 5)
    parts.append(element("circle", cx=across(mean), cy=9, r=4, class_="dot"))
    says = f"{figure(mean)}, 95% interval {interval(low, high)}"
    return drawing(180, 18, [tip(says), *parts], says, "whisker")


def histogram(counts: Sequence[int], zeros: int, label: str) -> Markup:
    """The distribution of scores. Those of exactly 0 have a bar of their own."""
    highest = max(*counts, zeros, 1)
    up = Scale(0, highest * 1.08, HEIGHT - _BOTTOM, _TOP)
    across = Scale(0, 1, _LEFT + 34, WIDTH - _RIGHT)
    step = (across.end - across.start) / len(counts)
    parts = axis_beside(up, _LEFT, WIDTH - _RIGHT, lambda value: count(round(value)))
    parts += axis_below(across, up(0), lambda value: f"{value:.1f}" if value else "")
    parts.append(line(_LEFT, up(0), _LEFT + 26, up(0), "axis"))
    parts.append(text("0", _LEFT + 13, up(0) + 15, "middle", "tick"))
    rows = [("exactly 0", count(zeros))]
    parts.append(_bar(_LEFT + 3, 20, up, zeros, f"{counted(zeros, 'query', 'queries')}: 0", "bad"))
    for place, number in enumerate(counts):
        scores = f"{place / len(counts):.2f} to {(place + 1) / len(counts):.2f}"
        rows.append((scores, count(number)))
        words = f"{counted(number, 'query', 'queries')}: {scores}"
        parts.append(_bar(across.start + place * step + 1, step - 2, up, number, words, "bar"))
    parts.append(text(label, (across.start + across.end) / 2, HEIGHT - 4, "middle", "label"))
    says = f"Distribution of {label}: {counted(zeros, 'query', 'queries')} at exactly 0"
    return chart(WIDTH, HEIGHT, parts, says, "histogram", DataTable((label, "Queries"), rows))


def latency_lines(
    places: Sequence[float], series: Mapping[str, Sequence[float | None]], axis: str
) -> Markup:
    """Percentiles of the latency over the run; logarithmic where they span magnitudes."""
    known = [v for values in series.values() for v in values if v is not None and v > 0]
    low, high = min(known, default=0.0), max(known, default=0.0)
    wide = bool(known) and high / low > 50
    up = Scale(
        low / 1.3 if wide else 0, (high or 1.0) * 1.15, HEIGHT - _BOTTOM, _TOP, logarithmic=wide
    )
    across = Scale(0, max(places, default=0), _LEFT + 8, WIDTH - _RIGHT - 26)
    parts = axis_beside(up, _LEFT + 8, across.end, lambda value: _seconds(value / 1000))
    words: Callable[[float], str] = _seconds if axis == "seconds" else lambda v: count(round(v))
    parts += axis_below(across, HEIGHT - _BOTTOM, words)
    when: Callable[[float], str] = (
        (lambda v: f"after {duration(v)}")
        if axis == "seconds"
        else (lambda v: f"after {counted(round(v), 'query', 'queries')}")
    )
    lasts = {}
    few = len(known) <= REACHED
    for name, values in series.items():
        known_points = [(x, v) for x, v in zip(places, values, strict=True) if v is not None]
        points = [f"{across(x):.1f},{up(v):.1f}" for x, v in known_points]
        parts.append(element("polyline", points=" ".join(points), class_=f"line {name}"))
        for x, v in known_points:
            shape = element("circle", cx=across(x), cy=up(v), r=3.5, class_=f"spot {name}")
            said = f"{name} {duration(v / 1000)} {when(x)}"
            parts.append(point(shape, said, x=_LEFT + 8, room=WIDTH - 70, few=few))
        if known_points:
            lasts[name] = up(known_points[-1][1]) + 4
    ends = apart(list(lasts.values()), 13, _TOP + 4, HEIGHT - _BOTTOM)
    for name, y in zip(lasts, ends, strict=True):
        parts.append(text(name, across.end + 6, y, "start", f"tick {name}"))
    title = "time into the run" if axis == "seconds" else "queries asked"
    parts.append(text(title, (across.start + across.end) / 2, HEIGHT - 4, "middle", "label"))
    says = f"Latency over the run: {duration(low / 1000)} to {duration(high / 1000)}"
    shown = [
        [when(x), *(duration(None if v is None else v / 1000) for v in values)]
        for x, *values in zip(places, *series.values(), strict=True)
    ]
    return chart(WIDTH, HEIGHT, parts, says, "latency", DataTable((title, *series), shown))


def scatter(
    points: Sequence[tuple[float, float, str]],
    x_label: str,
    y_label: str,
    higher_is_better: bool = True,
) -> Markup:
    """One dot a query, both scores from 0 to 1, or from -1: above the diagonal, y is higher."""
    size = 380
    low = -1 if any(min(x, y) < 0 for x, y, _ in points) else 0
    across = Scale(low, 1, 44, size - 10)
    up = Scale(low, 1, size - 40, 10)
    parts = axis_beside(up, 44, size - 10, lambda value: f"{value:.1f}")
    parts += axis_below(across, size - 40, lambda value: f"{value:.1f}")
    parts.append(line(across(low), up(low), across(1), up(1), "diagonal"))
    few = len(points) <= REACHED
    for x, y, words in points:
        class_ = "same" if x == y else "better" if (y > x) == higher_is_better else "worse"
        mark = element("circle", cx=across(x), cy=up(y), r=3, class_=f"query {class_}")
        parts.append(point(mark, words, x=44, room=size - 60, few=few))
    room = across.end - across.start
    parts.append(
        text(shortened(x_label, size - 20), (across.start + across.end) / 2, size - 6, "middle")
    )
    turned = element(
        "text",
        _escaped(shortened(y_label, room)),
        transform=f"translate(11 {(up.start + up.end) / 2:g}) rotate(-90)",
        text_anchor="middle",
        class_="label",
    )
    says = f"{counted(len(points), 'query', 'queries')}: {y_label} against {x_label}"
    widest = sorted(points, key=lambda each: -abs(each[1] - each[0]))
    rows = [(words, figure(x, 3), figure(y, 3)) for x, y, words in widest]
    table = DataTable(("Query", x_label, y_label), rows)
    return chart(size, size, [*parts, turned], says, "scatter", table)


def win_loss(differences: Sequence[float], label: str, higher_is_better: bool = True) -> Markup:
    """Every query's difference, largest win first: how broad a change is, and how deep."""
    ordered = sorted(differences, reverse=higher_is_better)
    up_is = 1 if higher_is_better else -1
    reach = max([0.1, *map(abs, ordered)]) * 1.05
    up = Scale(-reach, reach, HEIGHT - 26, 10)
    across = Scale(0, len(ordered), _LEFT, WIDTH - _RIGHT)
    parts = axis_beside(up, _LEFT, WIDTH - _RIGHT, lambda value: difference(value, 1))
    zero = up(0)
    rows = []
    for sign, class_ in ((up_is, "better"), (-up_is, "worse")):
        places = [(i, value) for i, value in enumerate(ordered) if value * sign > 0]
        if places:
            steps = [f"{across(places[0][0]):.1f},{zero:.1f}"]
            for place, value in places:
                steps.append(f"{across(place):.1f},{up(value):.1f}")
                steps.append(f"{across(place + 1):.1f},{up(value):.1f}")
            steps.append(f"{across(places[-1][0] + 1):.1f},{zero:.1f}")
            shape = element("polygon", points=" ".join(steps), class_=f"area {class_}")
            sizes = [value for _, value in places]
            middle, most = statistics.median(sizes), max(sizes, key=abs)
            rows.append((class_, count(len(sizes)), difference(middle, 3), difference(most, 3)))
            words = (
                f"{counted(len(sizes), 'query', 'queries')} {class_}: median "
                f"{difference(middle, 3)}, most {difference(most, 3)}"
            )
            parts.append(point(shape, words, x=_LEFT + 6, room=WIDTH - 70, few=True))
    parts.append(line(_LEFT, zero, WIDTH - _RIGHT, zero, "axis"))
    wins, losses = sum(v * up_is > 0 for v in ordered), sum(v * up_is < 0 for v in ordered)
    below, above = zero + 16, zero - 8
    by_wins, by_losses = (below, above) if higher_is_better else (above, below)
    if wins:
        parts.append(text(f"{count(wins)} better", _LEFT + 6, by_wins, "start", "tick better"))
    if losses:
        parts.append(
            text(f"{count(losses)} worse", WIDTH - _RIGHT - 4, by_losses, "end", "tick worse")
        )
    parts.append(text(label, (across.start + across.end) / 2, HEIGHT - 6, "middle"))
    says = f"{count(wins)} queries better, {count(losses)} worse of {count(len(ordered))}"
    same = len(ordered) - wins - losses
    rows.append(("the same", count(same), difference(0.0, 3), difference(0.0, 3)))
    table = DataTable(("Change", "Queries", "Median difference", "Largest difference"), rows)
    return chart(WIDTH, HEIGHT, parts, says, "win-loss", table)


def sparkline(
    values: Sequence[float], lows: Sequence[float | None], highs: Sequence[float | None]
) -> Markup:
    """A target's score from run to run, with the intervals as a band."""
    ends = [v for v in (*values, *lows, *highs) if v is not None]
    low, high = min(ends), max(ends)
    up = Scale(low, high, 34, 6)
    across = Scale(0, max(1, len(values) - 1), 5, 155)
    parts = []
    if len(values) > 1:
        band = [(x, v) for x, v in enumerate(highs) if v is not None]
        band += [(x, v) for x, v in reversed(list(enumerate(lows))) if v is not None]
        points = " ".join(f"{across(x):.1f},{up(v):.1f}" for x, v in band)
        parts.append(element("polygon", points=points, class_="band"))
        points = " ".join(f"{across(x):.1f},{up(v):.1f}" for x, v in enumerate(values))
        parts.append(element("polyline", points=points, class_="line"))
    last = len(values) - 1
    parts.append(element("circle", cx=across(last), cy=up(values[-1]), r=3, class_="dot"))
    says = f"{counted(len(values), 'run')}: from {figure(values[0])} to {figure(values[-1])}"
    return drawing(160, 40, [tip(says), *parts], says, "sparkline")


def _whisker(low: float, high: float, y: float, half: float) -> list[str]:
    ends = [line(x, y - half, x, y + half, "interval") for x in (low, high)]
    return [line(low, y, high, y, "interval"), *ends]


def _bar(x: float, width: float, up: Scale, number: int, words: str, class_: str) -> str:
    top = up(number)
    height = up(0) - top
    shape = element("rect", x=x, y=top, width=width, height=height, class_=class_)
    return point(shape, words, x=_LEFT + 6, room=WIDTH - 70, few=True) if number else shape


def _seconds(value: float) -> str:
    """A short label of an axis: `2 ms`, `0.5 s`, `90 s`."""
    if 0 < value < 1:
        return f"{value * 1000:g} ms"
    return f"{value:g} s"


def _escaped(words: str) -> str:
    return str(Markup.escape(words))


_MOSAIC_HEIGHT = 280
_MOSAIC_TOP, _SIDE, _GAP = 40, 2, 6
_NARROWEST, _LOWEST = 122, 26
_COLUMNS = {"evidence": "everything needed retrieved", "no_evidence": "something needed missing"}
_MEANINGS = {
    "evidence_right": "as it should be",
    "evidence_wrong": "generation failed",
    "no_evidence_right": "in spite of retrieval",
    "no_evidence_wrong": "evidence was missing",
}


def mosaic(quadrants: Quadrants) -> Markup:
    """Columns for questions with and without the evidence, split into right and wrong answers."""
    columns = {
        "evidence": [quadrants.evidence_right, quadrants.evidence_wrong],
        "no_evidence": [quadrants.no_evidence_right, quadrants.no_evidence_wrong],
    }
    total = sum(map(sum, columns.values()))
    widths = _sizes([sum(each) for each in columns.values()], WIDTH - 2 * _SIDE, _NARROWEST)
    parts: list[str] = []
    x = float(_SIDE)
    for (name, numbers), width in zip(columns.items(), widths, strict=True):
        if width:
            parts += _mosaic_column(name, numbers, x, width, total)
            x += width + _GAP
    says = "; ".join(
        f"{words}: {count(columns[name][0])} right, {count(columns[name][1])} wrong"
        for name, words in _COLUMNS.items()
    )
    rows = [
        (words, count(columns[name][0]), count(columns[name][1]))
        for name, words in _COLUMNS.items()
    ]
    table = DataTable(("Retrieval", "Right", "Wrong"), rows)
    says = f"Retrieval against generation. {says}"
    return chart(WIDTH, _MOSAIC_HEIGHT, parts, says, "mosaic", table)


def point_bars(points: Mapping[str, float]) -> Markup:
    """What correctness would gain, in percentage points, if one half of the agent never failed."""
    shown = {half: value for half, value in points.items() if value}
    across = Scale(0, max(shown.values()), 118, 384)
    parts = []
    for row, (half, value) in enumerate(sorted(shown.items(), key=lambda item: -item[1])):
        y = 8 + row * 34
        width = max(2.0, across(value) - across.start)
        words = f"{half}: {figure(value, 1)} points"
        parts.append(text(half, 108, y + 16, "end"))
        shape = element("rect", x=across.start, y=y, width=width, height=24, rx=3, class_="bar")
        parts.append(point(shape, words, x=across.start, room=0, few=True))
        parts.append(text(figure(value, 1), across.start + width + 6, y + 16, "start", "value"))
    height = 8 + 34 * len(shown)
    parts.append(line(across.start, 2, across.start, height, "axis"))
    says = ", ".join(f"{half} {figure(value, 1)}" for half, value in shown.items())
    rows = [(half, figure(value, 1)) for half, value in shown.items()]
    table = DataTable(("Component", "Percentage points"), rows)
    says = f"Percentage points per component: {says}"
    return chart(WIDTH, height + 4, parts, says, "points", table)


def _mosaic_column(name: str, numbers: list[int], x: float, width: float, total: int) -> list[str]:
    words = _COLUMNS[name].split()
    parts = [
        text(" ".join(words[:-1]), x, 12, "start", "label"),
        text(f"{words[-1]}: {count(sum(numbers))}", x, 28, "start", "label"),
    ]
    heights = _sizes(numbers, _MOSAIC_HEIGHT - _MOSAIC_TOP - _SIDE, _LOWEST)
    y = float(_MOSAIC_TOP)
    for verdict, number, height in zip(("right", "wrong"), numbers, heights, strict=True):
        if height:
            parts += _mosaic_cell(
                f"{name}_{verdict}", verdict, number, (x, y, width, height), total
            )
            y += height + _GAP
    return parts


def _mosaic_cell(
    name: str, verdict: str, number: int, box: tuple[float, float, float, float], total: int
) -> list[str]:
    x, y, width, height = box
    words = f"{counted(number, 'question')} {verdict} ({share(number, total)}): {_MEANINGS[name]}"
    shape = element("rect", x=x, y=y, width=width, height=height, rx=4, class_=f"cell {verdict}")
    parts = [
        point(shape, words, x=x, room=0, few=True),
        text(f"{count(number)} {verdict}", x + 10, y + 18, "start", f"cell-count {verdict}"),
    ]
    if height >= 44 and width >= 130:
        parts.append(text(_MEANINGS[name], x + 10, y + 36, "start", f"cell-words {verdict}"))
    return parts


def _sizes(numbers: list[int], room: float, least: float) -> list[float]:
    """Divide `room` in proportion; no part is too small for its label."""
    used = [number for number in numbers if number]
    if len(used) < 2:
        return [room if number else 0.0 for number in numbers]
    room -= _GAP * (len(used) - 1)
    free = [max(least, room * number / sum(used)) if number else 0.0 for number in numbers]
    over = sum(free) - room
    return [size - over if size == max(free) else size for size in free]

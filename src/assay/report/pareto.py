"""Quality against latency or cost: which systems or runs no other beats in both."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from assay.report.svg import (
    REACHED,
    DataTable,
    Scale,
    axis_below,
    axis_beside,
    chart,
    element,
    place_labels,
    point,
    shortened,
    text,
)
from assay.report.trend_plots import axis_words, figure_title, figure_words

_WIDTH, _HEIGHT = 400, 280
_LEFT, _RIGHT = 54, 14
_DOTS = 150


@dataclass(frozen=True, slots=True)
class ParetoPoint:
    """A system or run: what it takes (`x`) and how good it is (`y`)."""

    x: float
    y: float
    name: str
    words: str
    href: str = ""


def frontier(points: Sequence[ParetoPoint]) -> list[ParetoPoint]:
    """Those that no other beats in one without being beaten in the other, the cheapest first.

    What finds nothing is no trade-off, however quick it is.
    """
    best: list[ParetoPoint] = []
    for each in sorted(points, key=lambda each: (each.x, -each.y)):
        if each.y > (best[-1].y if best else 0):
            best.append(each)
    return best


def pareto_chart(points: Sequence[ParetoPoint], x_figure: str, y_figure: str) -> Markup:
    """Quality against latency or cost, with the line of the best trade-offs."""
    width, height = _WIDTH, _HEIGHT
    xs, ys = [each.x for each in points], [each.y for each in points]
    known = [x for x in xs if x > 0]
    wide = bool(known) and max(known) / min(known) > 20
    low_x, high_x = (min(known) / 1.4, max(known) * 1.4) if wide else (0, max(xs) * 1.12 or 1)
    if wide and min(xs) == 0:  # which no logarithm has: the left edge stands for it
        low_x /= 4
    across = Scale(low_x, high_x, _LEFT, width - _RIGHT, logarithmic=wide)
    spare = max(0.1 * (max(ys) - min(ys)), 0.01)
    up = Scale(max(0.0, min(ys) - spare), max(ys) + spare, height - 44, 22)
    parts = axis_beside(up, _LEFT, width - _RIGHT, axis_words(y_figure))
    parts += axis_below(across, height - 44, axis_words(x_figure), zero=wide and min(xs) == 0)
    best = frontier(points)
    steps = [f"{across(each.x):.1f},{up(each.y):.1f}" for each in best[:1]]
    for before, each in pairwise(best):
        steps.append(f"{across(each.x):.1f},{up(before.y):.1f}")
        steps.append(f"{across(each.x):.1f},{up(each.y):.1f}")
    steps += [f"{across.end:.1f},{up(each.y):.1f}" for each in best[-1:]]
    if steps:
        parts.append(element("polyline", points=" ".join(steps), class_="frontier"))
    others = [each for each in points if each not in best]
    drawn = [*others[-max(0, _DOTS - len(best)) :], *best]
    few = len(drawn) <= REACHED
    for each in drawn:
        good = each in best
        x, y = across(each.x), up(each.y)
        mark = element("circle", cx=x, cy=y, r=5 if good else 4, class_="best" if good else "rest")
        parts.append(point(mark, each.words, x=_LEFT, room=width - 70, few=few, href=each.href))
    parts += place_labels(
        [(across(e.x), up(e.y), shortened(e.name, 130)) for e in [*reversed(best), *others]],
        [(across(each.x), up(each.y)) for each in drawn],
        (_LEFT, width - _RIGHT),
        0,
    )
    parts.append(text(figure_title(x_figure), (_LEFT + width) / 2, height - 6, "middle"))
    parts.append(text(figure_title(y_figure), _LEFT, 12, "start"))
    says = (
        f"{figure_title(y_figure)} against {figure_title(x_figure).lower()}: "
        f"{len(best)} of {len(points)} are not beaten in both"
    )
    rows = [
        (
            each.name,
            figure_words(x_figure, each.x),
            figure_words(y_figure, each.y),
            "yes" if each in best else "",
        )
        for each in sorted(points, key=lambda each: (-each.y, each.x))
    ]
    headings = ("Name", figure_title(x_figure), figure_title(y_figure), "Best trade-off")
    return chart(width, height, parts, says, "pareto", DataTable(headings, rows))

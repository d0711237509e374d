"""The pictures of a diagnosis: retrieval against generation, and what each half is worth."""

from collections.abc import Mapping

from markupsafe import Markup

from assay.report.numbers import count, counted, figure, share
from assay.report.svg import Scale, drawing, element, line, text, tip

_WIDTH, _HEIGHT = 440, 280
_TOP, _SIDE, _GAP = 40, 2, 6
_NARROWEST, _LOWEST = 122, 26
_COLUMNS = {"evidence": "everything needed retrieved", "no_evidence": "something needed missing"}
_MEANINGS = {
    "evidence_right": "as it should be",
    "evidence_wrong": "generation failed",
    "no_evidence_right": "in spite of retrieval",
    "no_evidence_wrong": "evidence was missing",
}


def mosaic(quadrants: Mapping[str, int]) -> Markup:
    """As wide as the evidence was there or not, as high as the answers were right or wrong."""
    columns = {name: [quadrants[f"{name}_right"], quadrants[f"{name}_wrong"]] for name in _COLUMNS}
    total = sum(quadrants.values())
    widths = _sizes([sum(each) for each in columns.values()], _WIDTH - 2 * _SIDE, _NARROWEST)
    parts: list[str] = []
    x = float(_SIDE)
    for (name, numbers), width in zip(columns.items(), widths, strict=True):
        if width:
            parts += _column(name, numbers, x, width, total)
            x += width + _GAP
    says = "; ".join(
        f"{words}: {count(columns[name][0])} right, {count(columns[name][1])} wrong"
        for name, words in _COLUMNS.items()
    )
    return drawing(_WIDTH, _HEIGHT, parts, f"Retrieval against generation. {says}", "mosaic")


def point_bars(points: Mapping[str, float]) -> Markup:
    """What correctness gains, in hundredths of all questions, if one half never failed."""
    shown = {half: value for half, value in points.items() if value}
    across = Scale(0, max(shown.values()), 118, 384)
    parts = []
    for row, (half, value) in enumerate(sorted(shown.items(), key=lambda item: -item[1])):
        y = 8 + row * 34
        width = max(2.0, across(value) - across.start)
        words = f"{half}: {figure(value, 1)} points"
        parts.append(text(half, 108, y + 16, "end"))
        parts.append(
            element(
                "rect", tip(words), x=across.start, y=y, width=width, height=24, rx=3, class_="bar"
            )
        )
        parts.append(text(figure(value, 1), across.start + width + 6, y + 16, "start", "value"))
    height = 8 + 34 * len(shown)
    parts.append(line(across.start, 2, across.start, height, "axis"))
    says = ", ".join(f"{half} {figure(value, 1)}" for half, value in shown.items())
    return drawing(_WIDTH, height + 4, parts, f"Points that each half is worth: {says}", "points")


def _column(name: str, numbers: list[int], x: float, width: float, total: int) -> list[str]:
    words = _COLUMNS[name].split()
    parts = [
        text(" ".join(words[:-1]), x, 12, "start", "label"),
        text(f"{words[-1]}: {count(sum(numbers))}", x, 28, "start", "label"),
    ]
    heights = _sizes(numbers, _HEIGHT - _TOP - _SIDE, _LOWEST)
    y = float(_TOP)
    for verdict, number, height in zip(("right", "wrong"), numbers, heights, strict=True):
        if height:
            parts += _cell(f"{name}_{verdict}", verdict, number, (x, y, width, height), total)
            y += height + _GAP
    return parts


def _cell(
    name: str, verdict: str, number: int, box: tuple[float, float, float, float], total: int
) -> list[str]:
    x, y, width, height = box
    words = f"{counted(number, 'question')} {verdict} ({share(number, total)}): {_MEANINGS[name]}"
    parts = [
        element(
            "rect", tip(words), x=x, y=y, width=width, height=height, rx=4, class_=f"cell {verdict}"
        ),
        text(f"{count(number)} {verdict}", x + 10, y + 18, "start", f"cell-count {verdict}"),
    ]
    if height >= 44 and width >= 130:
        parts.append(text(_MEANINGS[name], x + 10, y + 36, "start", f"cell-words {verdict}"))
    return parts


def _sizes(numbers: list[int], room: float, least: float) -> list[float]:
    """Parts of the room in proportion, none so small that its number has no place."""
    used = [number for number in numbers if number]
    if len(used) < 2:
        return [room if number else 0.0 for number in numbers]
    room -= _GAP * (len(used) - 1)
    free = [max(least, room * number / sum(used)) if number else 0.0 for number in numbers]
    over = sum(free) - room
    return [size - over if size == max(free) else size for size in free]

"""The parts that a plot is made of: elements, a scale, an axis.

Colors come from CSS classes, so that one plot serves light mode, dark mode and paper. A plot never
has a style attribute or a script: the pages forbid both.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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


def drawing(width: float, height: float, parts: Iterable[str], says: str, class_: str) -> Markup:
    """A whole plot; `says` is its text alternative for screen readers."""
    box = f"0 0 {width:g} {height:g}"
    return Markup(
        element("svg", *parts, viewBox=box, role="img", aria_label=says, class_=f"plot {class_}")
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


def axis_below(scale: Scale, y: float, words: Callable[[float], str], most: int = 5) -> list[str]:
    """A horizontal axis with its ticks; `words` labels a value."""
    marks = [line(scale.start, y, scale.end, y, "axis")]
    for value in scale.ticks(most):
        marks.append(text(words(value), scale(value), y + 15, "middle", "tick"))
    return marks


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

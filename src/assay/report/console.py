"""The console that every result is printed on, and tables of facts for it."""

from collections.abc import Iterable, Mapping

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from assay.net.redact import printable
from assay.report.numbers import count

_LABEL_WIDTH = 9


class SafeConsole(Console):
    """Replaces control characters in everything it prints.

    Rich passes escape sequences on as they come; its own colors are styles of a segment, not text.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of a renderable, made harmless."""
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


def facts_table(facts: Iterable[tuple[str, str]]) -> Table:
    """A table of labels and texts; a long text continues below its own beginning."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=_LABEL_WIDTH, style="dim")
    table.add_column(overflow="fold")
    for label, words in facts:
        table.add_row(Text(label), Text(words))
    return table


def figures_table(first: tuple[str, int], *headings: str) -> Table:
    """A table with a column of names, at least so wide, and columns of numbers."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    heading, width = first
    table.add_column(heading, min_width=width or None)
    for each in headings:
        table.add_column(each, justify="right")
    return table


def confusion_table(found: Mapping[str, Mapping[str, int]], by: str = "judge") -> Table:
    """What people say in rows, and what a model says about the same in columns."""
    answers = next(iter(found.values()), {})
    table = figures_table(("people say", 0), *(f"{by}: {each}" for each in answers))
    for label, numbers in found.items():
        table.add_row(label, *map(count, numbers.values()))
    return table


def labeled(label: str, words: str, style: str = "dim", *, width: int = 20) -> Table:
    """A label and its text, which wraps beside the label."""
    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_column(width=width)
    line.add_column(overflow="fold")
    line.add_row(Text(label, style=style), Text(words))
    return line

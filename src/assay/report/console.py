"""The console that every result is printed on, and facts under their labels."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from assay.net.redact import printable


class SafeConsole(Console):
    """Rich passes ESC on as it comes. Its own colours are styles of a segment, not text in it."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text), segment.style)


_LABEL = 9


def labelled(facts: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=_LABEL, style="dim")
    table.add_column(overflow="fold")
    for label, words in facts:
        table.add_row(Text(label), Text(words))
    return table

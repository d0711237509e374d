"""Facts under their labels, for a terminal: what does not fit goes on below its own beginning."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

_LABEL = 9


def labelled(facts: Iterable[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(min_width=_LABEL, style="dim")
    table.add_column(overflow="fold")
    for label, words in facts:
        table.add_row(Text(label), Text(words))
    return table

"""The rows of two runs, query by query: read as they are needed, never all of them in memory."""

from array import array
from collections.abc import Iterable, Iterator
from typing import TypeVar

from assay.run.models import AnswerRow, QueryRow, ReportFigure

SHOWN = 8
"""So many of the largest gains, and of the largest losses, are kept."""
DRAWN = 3000
"""More dots than this hide each other and make the file large."""

_SAME = 1e-12

Row = TypeVar("Row", QueryRow, AnswerRow)
RowPair = tuple[float, Row, Row]
"""What B gains over A on one query, with the rows of both."""


def pair_rows(rows_a: Iterable[Row], rows_b: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """The rows of each query that both runs have, in the order of A.

    Rows of B are read as they are needed: of two runs in the same order, none stays in memory.
    """
    theirs, waiting = iter(rows_b), dict[str, Row]()
    for row in rows_a:
        while row.query_id not in waiting and (other := next(theirs, None)) is not None:
            waiting[other.query_id] = other
        if (found := waiting.pop(row.query_id, None)) is not None:
            yield row, found


def paired_by(
    rows_a: Iterable[Row], rows_b: Iterable[Row], metric: ReportFigure
) -> Iterator[RowPair[Row]]:
    """The queries of both runs that have the figure."""
    for a, b in pair_rows(rows_a, rows_b):
        if a.scores.get(metric.key) is not None and b.scores.get(metric.key) is not None:
            yield score_of(b, metric) - score_of(a, metric), a, b


def score_of(row: QueryRow | AnswerRow, metric: ReportFigure) -> float:
    return float(row.scores[metric.key] or 0.0)


def gains_and_losses(
    pairs: Iterable[RowPair[Row]],
) -> tuple[list[RowPair[Row]], list[RowPair[Row]]]:
    """What got better, the largest gain first, and what got worse, the largest loss first."""
    ordered = sorted(pairs, key=lambda pair: -pair[0])
    gains = [pair for pair in ordered if pair[0] > _SAME]
    losses = [pair for pair in reversed(ordered) if pair[0] < -_SAME]
    return gains, losses


class PairedScores:
    """The scores of each query in both runs; `drawn` are the first ones, with its text."""

    def __init__(self) -> None:
        self.drawn: list[tuple[float, float, str]] = []
        self.differences = array("d")

    def add(self, pair: RowPair[Row], metric: ReportFigure) -> bool:
        """True, to be used in a filter."""
        difference, a, b = pair
        if len(self.drawn) < DRAWN:
            self.drawn.append((score_of(a, metric), score_of(b, metric), a.query_text))
        self.differences.append(difference)
        return True


class LargestChanges:
    """The largest gains and losses of all that were added: a few, and not all rows of two runs."""

    def __init__(self) -> None:
        self._pairs: list[RowPair[QueryRow]] = []

    def add(self, pair: RowPair[QueryRow]) -> bool:
        """True, to be used in a filter."""
        self._pairs.append(pair)
        if len(self._pairs) > 100 * SHOWN:
            gains, losses = self.found()
            self._pairs = [*gains, *reversed(losses)]
        return True

    def found(self) -> tuple[list[RowPair[QueryRow]], list[RowPair[QueryRow]]]:
        """The largest gain first, and the largest loss first."""
        gains, losses = gains_and_losses(self._pairs)
        return gains[:SHOWN], losses[:SHOWN]


class CountedRows:
    """Rows that are read once, and counted."""

    def __init__(self, rows: Iterable[QueryRow]) -> None:
        self._rows, self._count = iter(rows), 0

    def __iter__(self) -> Iterator[QueryRow]:
        for row in self._rows:
            self._count += 1
            yield row

    def all(self) -> int:
        """How many there are: the rest is read for it."""
        return self._count + sum(1 for _ in self._rows)

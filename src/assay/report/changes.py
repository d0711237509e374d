"""What changed between two runs: query by query, and slice by slice.

Slices are corrected for looking at many of them.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from assay.answers.figures import improvement
from assay.data.dataset import Dataset
from assay.metrics.metric import Metric
from assay.metrics.statistics import compare_paired, holm
from assay.report.html_queries import (
    FORM,
    OUTCOMES,
    RELEVANT,
    TAG,
    WORDS,
    ordered_slices,
    slices_of,
)
from assay.report.numbers import counted, figure
from assay.run.models import AnswerRow, QueryRow, ReportFigure

SHOWN = 8
"""So many of the largest gains, and of the largest losses, are kept."""

_DRAWN = 3000
"""More dots than this hide each other and make the file large."""

_SAME = 1e-12
_FEWEST = 5
"""Smaller slices are not compared: nothing could be told about them."""

Row = TypeVar("Row", QueryRow, AnswerRow)

RowPair = tuple[float, Row, Row]
"""B - A on one query, with the rows of both."""


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
    pairs: Iterable[RowPair[Row]], metric: ReportFigure
) -> tuple[list[RowPair[Row]], list[RowPair[Row]]]:
    """What got better, the largest gain first, and what got worse, the largest loss first."""
    ordered = sorted(pairs, key=lambda pair: -improvement(metric, pair[0]))
    gains = [pair for pair in ordered if improvement(metric, pair[0]) > _SAME]
    losses = [pair for pair in reversed(ordered) if improvement(metric, pair[0]) < -_SAME]
    return gains, losses


class PairedScores:
    """The scores of each query in both runs; `drawn` are the first ones, with its text."""

    def __init__(self) -> None:
        self.drawn: list[tuple[float, float, str]] = []
        self.differences = array("d")

    def add(self, pair: RowPair[Row], metric: ReportFigure) -> None:
        """Take one more query into account."""
        difference, a, b = pair
        if len(self.drawn) < _DRAWN:
            self.drawn.append((score_of(a, metric), score_of(b, metric), a.query_text))
        self.differences.append(difference)


class LargestChanges:
    """The largest gains and losses of all that were added: a few, and not all rows of two runs."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._pairs: list[RowPair[QueryRow]] = []

    def add(self, pair: RowPair[QueryRow]) -> None:
        """Take one more query into account."""
        self._pairs.append(pair)
        if len(self._pairs) > 100 * SHOWN:
            gains, losses = self.found()
            self._pairs = [*gains, *reversed(losses)]

    def found(self) -> tuple[list[RowPair[QueryRow]], list[RowPair[QueryRow]]]:
        """The largest gain first, and the largest loss first."""
        gains, losses = gains_and_losses(self._pairs, self._metric)
        return gains[:SHOWN], losses[:SHOWN]


@dataclass(frozen=True, slots=True)
class SliceChange:
    """One slice in two runs: b - a with its 95% interval.

    `p_adjusted` is corrected for the number of slices that were looked at (Holm).
    """

    title: str
    name: str
    n: int
    mean_a: float
    mean_b: float
    difference: float
    low: float | None
    high: float | None
    p_adjusted: float

    @property
    def significant(self) -> bool:
        """Whether the slice changed, at 0.05."""
        return self.p_adjusted < 0.05


def compare_slices(
    pairs: Iterable[tuple[float, QueryRow, QueryRow]], metric: Metric, dataset: Dataset | None
) -> list[SliceChange]:
    """Every slice of at least five queries, under its title.

    Parameters:
        pairs: the difference and the rows of both runs, for each query.
        metric: what is compared.
        dataset: knows the tags of the queries.
    """
    queries = dataset.queries if dataset else {}
    scores: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for _, row, other in pairs:
        tags = queries[row.query_id].tags if row.query_id in queries else ()
        for title, name in slices_of(row, tags):
            # A query that the first run failed can only get better: that is no slice to compare.
            if title not in OUTCOMES:
                scores[title][name].append((row.score(metric), other.score(metric)))
    sizes = {title: {name: len(s) for name, s in each.items()} for title, each in scores.items()}
    kept = [
        (title, name)
        for title, names in ordered_slices(sizes).items()
        if len(names) > 1
        for name in names
        if sizes[title][name] >= _FEWEST
    ]
    compared = []
    for title, name in kept:
        both = np.array(scores[title][name])
        compared.append(compare_paired(both[:, 0], both[:, 1]))
    adjusted = holm([each.p_value for each in compared])
    return [
        SliceChange(
            title, name, each.n, each.mean_a, each.mean_b, each.difference, each.low, each.high, p
        )
        for (title, name), each, p in zip(kept, compared, adjusted, strict=True)
    ]


def where_it_changed(slices: Sequence[SliceChange], metric: str, *, named: bool = False) -> str:
    """A sentence on where b got worse, and where better; empty where there is nothing to say.

    `named` says the metric, for a comparison whose headline is another one.
    """
    if not slices:
        return ""
    changed = [each for each in slices if each.significant]
    # Of slices that changed alike, what came with the data says more than the length of a query.
    changed.sort(key=lambda each: (-round(abs(each.difference), 6), each.title != TAG))
    worse = [each for each in changed if each.difference < 0]
    better = [each for each in changed if each.difference > 0]
    words, by = [], f" in {metric}" if named else ""
    if worse:
        words.append(f"It got worse{by} where {_listed(worse)}.")
    if better:
        words.append(f"It got better{by} where {_listed(better)}.")
    if not words:
        words.append(
            f"In none of {counted(len(slices), 'slice')} did {metric} change significantly."
        )
    return " ".join(words)


def _listed(slices: Sequence[SliceChange]) -> str:
    shown = [
        f"{_phrase(each)} (by {figure(abs(each.difference), 3)}, "
        f"{counted(each.n, 'query', 'queries')})"
        for each in slices[:3]
    ]
    more = f" and in {counted(len(slices) - 3, 'other slice')}" if len(slices) > 3 else ""
    return "; ".join(shown) + more


def _phrase(each: SliceChange) -> str:
    return {
        WORDS: f"a query has {each.name} words",
        RELEVANT: f"{each.name} documents are relevant",
        FORM: f"the query is a {each.name}",
        TAG: f"the tag is {each.name}",
    }[each.title]

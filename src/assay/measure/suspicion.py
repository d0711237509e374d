"""The known ways to compute a wrong mean, each reproducible from a report's own lists."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Judgments
from assay.measure.contradictions import Row
from assay.measure.graded import Floats, GradedLists
from assay.measure.metrics import Metric, nDCG
from assay.measure.violations import Inspector


class Flaw(StrEnum):
    IDEAL_FROM_RETRIEVED = "the ideal ranking was taken from the retrieved documents"
    DUPLICATES_CREDITED = "repeated documents were credited each time"
    EXPONENTIAL_GAIN = "gains are exponential, which is nDCG(gain=exp)"
    FAILED_DROPPED = "failed queries were dropped from the mean"
    EMPTY_DROPPED = "queries with an empty list were dropped from the mean"


Flaws = frozenset[Flaw]
NO_FLAWS: Flaws = frozenset()


@dataclass(frozen=True)
class Recomputation:
    """The lists of a report, to be scored in any way. `missing` queries have no list at all."""

    rows: Sequence[Row]
    judgments: Judgments
    missing: int
    top_k: int | None

    def values(self, metric: Metric, flaws: Flaws = NO_FLAWS) -> Floats:
        """One figure for each row."""
        if Flaw.EXPONENTIAL_GAIN in flaws:
            metric = metric(gain="exp")
        ranked = self._as_sent if Flaw.DUPLICATES_CREDITED in flaws else self._cleaned
        ideal = self._ideal
        if Flaw.IDEAL_FROM_RETRIEVED in flaws:
            ideal = _sorted_by_grade(ranked.top(metric.cutoff))
        return metric.measure(ranked, ideal)

    def mean(self, metric: Metric, flaws: Flaws = NO_FLAWS) -> float:
        values = self.values(metric, flaws)
        empty = np.array([not row.doc_ids for row in self.rows])
        if Flaw.EMPTY_DROPPED in flaws:
            values = values[~(empty | self._failed)]
        elif Flaw.FAILED_DROPPED in flaws:
            values = values[~self._failed]
        else:
            return float(values.sum()) / max(1, values.size + self.missing)
        return float(values.mean()) if values.size else 0.0

    def suspects(self, metric: Metric) -> Iterator[Flaws]:
        """Every combination that could make a difference here, the simplest first."""
        empty = any(not row.doc_ids and not row.failed for row in self.rows)
        failed = self.missing > 0 or bool(self._failed.any())
        choices: list[tuple[Flaw | None, ...]] = [
            (None, *[Flaw.FAILED_DROPPED] * failed, *[Flaw.EMPTY_DROPPED] * empty)
        ]
        if any(len(set(row.doc_ids)) < len(row.doc_ids) for row in self.rows):
            choices.append((None, Flaw.DUPLICATES_CREDITED))
        if metric.name == nDCG.name:
            choices += [(None, Flaw.IDEAL_FROM_RETRIEVED), (None, Flaw.EXPONENTIAL_GAIN)]
        combinations = [frozenset(filter(None, chosen)) for chosen in product(*choices)]
        yield from sorted(combinations, key=lambda flaws: (len(flaws), sorted(flaws)))

    @cached_property
    def _failed(self) -> NDArray[np.bool_]:
        return np.array([row.failed for row in self.rows], dtype=np.bool_)

    @cached_property
    def _cleaned(self) -> GradedLists:
        inspector = Inspector(known=None, top_k=self.top_k)
        return self._graded([inspector.clean(row.query_id, row.doc_ids) for row in self.rows])

    @cached_property
    def _as_sent(self) -> GradedLists:
        return self._graded([row.doc_ids[: self.top_k] for row in self.rows])

    @cached_property
    def _ideal(self) -> GradedLists:
        return GradedLists.ideal(self.judgments[row.query_id] for row in self.rows)

    def _graded(self, lists: Sequence[Sequence[str | None]]) -> GradedLists:
        return GradedLists.ranked(lists, (self.judgments[row.query_id] for row in self.rows))


def _sorted_by_grade(lists: GradedLists) -> GradedLists:
    """The same documents, best first: the best order of what was found, not of what there is."""
    order = np.lexsort((-lists.grade, lists.owner))
    return GradedLists(lists.size, lists.owner, lists.position, lists.grade[order])

"""Audits another evaluator's report: do its figures follow from its own retrieved lists?

Evaluators of this kind are known to take the ideal ranking from the retrieved documents, to
credit repeats and to drop failed queries, each of which raises the mean. So a claim is recomputed
correctly and in each wrong way, and the simplest way that gives the claimed figure is named.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Judgments
from assay.errors import DataError
from assay.metrics.foreign_report import ForeignReport, ReportedQuery, read_report
from assay.metrics.graded import Floats, GradedLists, has_relevant
from assay.metrics.metric import Metric, nDCG
from assay.metrics.violations import Inspector
from assay.net.json import JsonObject

_TOLERANCE = 5e-4  # reports that round to three digits are not accused
_EXACT = 1e-6


class Flaw(StrEnum):
    """A known way to compute a wrong mean, which a report's own lists can reproduce."""

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

    rows: Sequence[ReportedQuery]
    judgments: Judgments
    missing: int
    top_k: int | None

    def values(self, metric: Metric, flaws: Flaws = NO_FLAWS) -> Floats:
        """One figure for each row."""
        if Flaw.EXPONENTIAL_GAIN in flaws:
            metric = metric(gain="exp")
        # Lists as they were sent credit a document each time it is repeated.
        ranked = self._as_sent if Flaw.DUPLICATES_CREDITED in flaws else self._cleaned
        ideal = self._ideal
        if Flaw.IDEAL_FROM_RETRIEVED in flaws:
            ideal = _sorted_by_grade(ranked.top(metric.cutoff))
        return metric.measure(ranked, ideal)

    def mean(self, metric: Metric, flaws: Flaws = NO_FLAWS) -> float:
        """The mean over all queries, or over those that the flaws leave."""
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


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One query whose figure in the report does not follow from its list."""

    query_id: str
    claimed: float
    recomputed: float


@dataclass(frozen=True, slots=True)
class ClaimAudit:
    """`flaws` reproduce the claim: none of them if it is right, None if nothing reproduces it.

    `own_mean` is the mean of the report's own per-query figures, if it has them.
    """

    metric: Metric
    claimed: float
    recomputed: float
    flaws: tuple[Flaw, ...] | None
    disagreements: tuple[Disagreement, ...]
    own_mean: float | None

    @property
    def correct(self) -> bool:
        """Whether the mean and every figure of a single query are right."""
        return self.flaws == () and not self.disagreements


@dataclass(frozen=True, slots=True)
class AuditResult:
    """`failed` counts the queries that failed or have no row; they are among `queries`.

    `unjudged` are queries of the report without a relevant document; they are not counted.
    `contradictions` are between parts of the report, independent of the judgments.
    """

    claims: tuple[ClaimAudit, ...]
    queries: int
    failed: int
    unjudged: tuple[str, ...]
    contradictions: tuple[str, ...] = ()

    @property
    def correct(self) -> bool:
        """Whether every claim is right and the report agrees with itself."""
        return all(claim.correct for claim in self.claims) and not self.contradictions


def audit_report(report: JsonObject, judgments: Judgments) -> AuditResult:
    """Recompute every figure of the report that is a metric of rankings.

    Parameters:
        report: The report as parsed JSON.
        judgments: The judgments of the data set and split that it was made on.
    """
    foreign = read_report(report)
    rows = [row for row in foreign.rows if has_relevant(judgments.get(row.query_id, {}))]
    judged = {row.query_id for row in rows}
    if not rows:
        raise DataError(
            f"none of the report's queries (the first is {foreign.rows[0].query_id!r}) has a "
            "relevant document in these judgments: is this the right data set and split?"
        )
    lists = Recomputation(rows, judgments, foreign.missing, foreign.top_k)
    return AuditResult(
        claims=tuple(_audit_claim(foreign, lists, metric) for metric in foreign.claims),
        queries=len(rows) + foreign.missing,
        failed=sum(row.failed for row in rows) + foreign.missing,
        unjudged=tuple(r.query_id for r in foreign.rows if r.query_id not in judged),
        contradictions=foreign.contradictions,
    )


def _audit_claim(foreign: ForeignReport, lists: Recomputation, metric: Metric) -> ClaimAudit:
    claimed = foreign.claims[metric]
    printed = foreign.precision(metric)
    own = [row.claimed[metric.key] for row in lists.rows if metric.key in row.claimed]
    return ClaimAudit(
        metric=metric,
        claimed=claimed,
        recomputed=lists.mean(metric),
        flaws=_explanation(lists, metric, claimed, printed),
        disagreements=_disagreements(lists, metric, max(_TOLERANCE, printed)),
        own_mean=sum(own) / len(own) if own else None,
    )


def _explanation(
    lists: Recomputation, metric: Metric, claimed: float, printed: float
) -> tuple[Flaw, ...] | None:
    """The simplest way to the claim: exactly, else as the report prints, else within tolerance."""
    means = {flaws: lists.mean(metric, flaws) for flaws in lists.suspects(metric)}
    # The exact pass tells apart ways that differ little, such as one failed query in thousands.
    for tolerance in (_EXACT, printed, _TOLERANCE):
        fitting = [flaws for flaws, mean in means.items() if abs(mean - claimed) <= tolerance]
        if fitting:
            # Of several ways to one mean, the one that also gives the report's per-query figures.
            misfits = [
                len(_disagreements(lists, metric, max(_TOLERANCE, tolerance), flaws))
                for flaws in fitting
            ]
            return tuple(sorted(fitting[misfits.index(min(misfits))]))
    return None


def _disagreements(
    lists: Recomputation, metric: Metric, tolerance: float, flaws: Flaws = NO_FLAWS
) -> tuple[Disagreement, ...]:
    return tuple(
        Disagreement(row.query_id, row.claimed[metric.key], value)
        for row, value in zip(lists.rows, lists.values(metric, flaws).tolist(), strict=True)
        if metric.key in row.claimed and abs(row.claimed[metric.key] - value) > tolerance
    )


def _sorted_by_grade(lists: GradedLists) -> GradedLists:
    """The same documents, best first: the best order of what was found, not of what there is."""
    order = np.lexsort((-lists.grade, lists.owner))
    return GradedLists(lists.size, lists.owner, lists.position, lists.grade[order])

"""Whether the figures of somebody else's report follow from its own retrieved lists.

Evaluators of this kind are known to take the ideal ranking from the retrieved documents, to
credit repeats and to drop failed queries, each of which raises the mean. So a claim is recomputed
in the right way and in each wrong one, and the simplest way that gives the claimed figure is named.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assay.data.dataset import Judgments
from assay.errors import DataError
from assay.measure.contradictions import Row
from assay.measure.foreign_report import ForeignReport, read_report
from assay.measure.metrics import Metric
from assay.measure.suspicion import NO_FLAWS, Flaw, Flaws, Recomputation

_TOLERANCE = 5e-4
_EXACT = 1e-6


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One query whose own figure in the report is not what its list is worth."""

    query_id: str
    claimed: float
    recomputed: float


@dataclass(frozen=True, slots=True)
class ClaimAudit:
    """`flaws` reproduce the claim: none of them if it is right, None if nothing reproduces it.

    `own_mean` is the mean of the report's own per-query figures, where it has them.
    """

    metric: Metric
    claimed: float
    recomputed: float
    flaws: tuple[Flaw, ...] | None
    disagreements: tuple[Disagreement, ...]
    own_mean: float | None

    @property
    def correct(self) -> bool:
        return self.flaws == () and not self.disagreements


@dataclass(frozen=True, slots=True)
class AuditResult:
    """`failed` counts the queries that failed or have no row; they are among `queries`.

    `unjudged` are queries of the report that no judgment speaks about; they count nowhere.
    `contradictions` are between parts of the report, whatever the judgments say.
    """

    claims: tuple[ClaimAudit, ...]
    queries: int
    failed: int
    unjudged: tuple[str, ...]
    contradictions: tuple[str, ...] = ()

    @property
    def correct(self) -> bool:
        return all(claim.correct for claim in self.claims) and not self.contradictions


def audit(report: Mapping[str, Any], judgments: Judgments) -> AuditResult:
    """Recompute every figure that the report claims and that Assay knows."""
    foreign = read_report(report)
    rows = [row for row in foreign.rows if _is_judged(row, judgments)]
    if not rows:
        raise DataError(
            f"none of the report's queries (the first is {foreign.rows[0].query_id!r}) has a "
            "relevant document in these judgments: is it another data set or split?"
        )
    lists = Recomputation(rows, judgments, foreign.missing, foreign.top_k)
    return AuditResult(
        claims=tuple(_audit_claim(foreign, lists, metric) for metric in foreign.claims),
        queries=len(rows) + foreign.missing,
        failed=sum(row.failed for row in rows) + foreign.missing,
        unjudged=tuple(r.query_id for r in foreign.rows if not _is_judged(r, judgments)),
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
    """The simplest way to the claim: exactly, else as the report prints, else within tolerance.

    The exact pass tells apart ways that differ little, such as one failed query in thousands.
    """
    means = {flaws: lists.mean(metric, flaws) for flaws in lists.suspects(metric)}
    for tolerance in (_EXACT, printed, _TOLERANCE):
        fitting = [flaws for flaws, mean in means.items() if abs(mean - claimed) <= tolerance]
        if fitting:
            misfits = [_misfits(lists, metric, flaws, tolerance) for flaws in fitting]
            return tuple(sorted(fitting[misfits.index(min(misfits))]))
    return None


def _misfits(lists: Recomputation, metric: Metric, flaws: Flaws, tolerance: float) -> int:
    """How many of the report's own per-query figures this way does not give."""
    return len(_disagreements(lists, metric, max(_TOLERANCE, tolerance), flaws))


def _disagreements(
    lists: Recomputation, metric: Metric, tolerance: float, flaws: Flaws = NO_FLAWS
) -> tuple[Disagreement, ...]:
    return tuple(
        Disagreement(row.query_id, row.claimed[metric.key], value)
        for row, value in zip(lists.rows, lists.values(metric, flaws).tolist(), strict=True)
        if metric.key in row.claimed and abs(row.claimed[metric.key] - value) > tolerance
    )


def _is_judged(row: Row, judgments: Judgments) -> bool:
    return any(grade > 0 for grade in judgments.get(row.query_id, {}).values())

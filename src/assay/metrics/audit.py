"""Audits another evaluator's report: do its figures follow from its own retrieved lists?

A claim is recomputed correctly and in each known wrong way; the simplest that gives it is named.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import product
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Judgments
from assay.errors import DataError, UsageError
from assay.metrics.formulas import Floats, GradedLists, has_relevant
from assay.metrics.metric import Metric, nDCG, parse_metric
from assay.metrics.scoring import Inspector
from assay.net.json import LARGEST, JsonObject

_TOLERANCE = 5e-4  # reports that round to three digits are not accused
# Sums of floats differ by their order, and by no more.
_EXACT = 1e-6


class Flaw(StrEnum):
    """A known way to compute a wrong mean, which a report's own lists can reproduce."""

    IDEAL_FROM_RETRIEVED = "the ideal ranking was taken from the retrieved documents"
    DUPLICATES_CREDITED = "repeated documents were credited each time"
    EXPONENTIAL_GAIN = "gains are exponential, which is nDCG(gain=exp)"
    FAILED_DROPPED = "failed queries were dropped from the mean"
    EMPTY_DROPPED = "queries with an empty list were dropped from the mean"


Flaws = frozenset[Flaw]
_NO_FLAWS: Flaws = frozenset()


@dataclass(frozen=True, slots=True)
class ReportedQuery:
    """One query of a report, without documents if it failed; `claimed` are its own figures."""

    query_id: str
    doc_ids: tuple[str, ...]
    failed: bool
    claimed: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ForeignReport:
    """What a report claims, and its lists; `missing` queries were asked and have no row."""

    claims: Mapping[Metric, float]
    rows: Sequence[ReportedQuery]
    missing: int
    top_k: int | None
    dataset: str | None
    split: str | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One query whose figure in the report does not follow from its list."""

    query_id: str
    claimed: float
    recomputed: float


@dataclass(frozen=True, slots=True)
class ClaimAudit:
    """`flaws` reproduce the claim: () if it is right, None if nothing does. `own_mean` is that of
    the report's own per-query figures, if it has them.
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
    """`failed` counts the queries that failed or have no row; they are among `queries`. `unjudged`
    have no relevant document and are not counted.
    """

    claims: tuple[ClaimAudit, ...]
    queries: int
    failed: int
    unjudged: tuple[str, ...]

    @property
    def correct(self) -> bool:
        """Whether every claim is right."""
        return all(claim.correct for claim in self.claims)


def read_report(value: Any) -> ForeignReport:
    """From parsed JSON: the report itself, or the results of a platform that hold one."""
    report = next(_reports(value), None)
    if report is None:
        raise DataError(
            "is not an evaluation report: it needs 'per_query_results' with 'query_id' and "
            "'retrieved_docs' for each query"
        )
    rows: dict[str, ReportedQuery] = {}
    for number, fields in enumerate(report["per_query_results"], 1):
        row = _row(number, fields)
        if rows.setdefault(row.query_id, row) is not row:
            raise DataError(f"query {row.query_id!r} has two rows; delete one")
    claims = _claims(report)
    if not claims:
        raise DataError("has no figure that can be recomputed, such as summary.mean_ndcg_at_5")
    total = _positive(_object_in(report, "summary").get("total_queries"))
    made_on, config = _object_in(report, "dataset"), _object_in(report, "config")
    named = config.get("dataset") or made_on.get("name"), made_on.get("split"), config.get("split")
    dataset, *splits = (name if isinstance(name, str) and name else None for name in named)
    return ForeignReport(
        claims,
        tuple(rows.values()),
        max(0, (total or 0) - len(rows)),
        _positive(config.get("top_k")),
        dataset,
        splits[0] or splits[1],
    )


def audit_report(report: ForeignReport, judgments: Judgments) -> AuditResult:
    """Recompute every figure of a report; `judgments` are of the split that it was made on."""
    rows = [row for row in report.rows if has_relevant(judgments.get(row.query_id, {}))]
    if not rows:
        raise DataError(
            f"none of the report's queries (the first is {report.rows[0].query_id!r}) has a "
            "relevant document in these judgments: is this the right data set and split?"
        )
    lists = _Lists(report, rows, judgments)
    judged = {row.query_id for row in rows}
    return AuditResult(
        claims=tuple(lists.audit(metric, claimed) for metric, claimed in report.claims.items()),
        queries=len(rows) + report.missing,
        failed=sum(row.failed for row in rows) + report.missing,
        unjudged=tuple(r.query_id for r in report.rows if r.query_id not in judged),
    )


@dataclass(frozen=True)
class _Lists:
    """The judged lists of a report, to be scored in any way."""

    report: ForeignReport
    rows: Sequence[ReportedQuery]
    judgments: Judgments

    def audit(self, metric: Metric, claimed: float) -> ClaimAudit:
        """The simplest way to the claim: exactly, else as it is printed, else within tolerance."""
        own = [row.claimed[metric.key] for row in self.rows if metric.key in row.claimed]
        # Half a unit of the last digit that the report prints: of many figures, and two digits at
        # least, because JSON drops trailing zeros, so that 1.0 may well have been 1.0000.
        written = (f"{value:.12f}".rstrip("0") for value in (*self.report.claims.values(), *own))
        printed = 0.5 * 10.0 ** -max(2, *(len(one.partition(".")[2]) for one in written))
        means = {flaws: self.mean(metric, flaws) for flaws in self.suspects(metric)}
        found: tuple[Flaw, ...] | None = None
        # The exact pass tells apart ways that differ little: one failed query in thousands.
        for tolerance in (_EXACT, printed, _TOLERANCE):
            fitting = [flaws for flaws, mean in means.items() if abs(mean - claimed) <= tolerance]
            if fitting:
                # Of several ways to one mean, the one that also gives the per-query figures.
                allowed = max(_TOLERANCE, tolerance)
                misfits = [len(self.disagreements(metric, allowed, flaws)) for flaws in fitting]
                found = tuple(sorted(fitting[misfits.index(min(misfits))]))
                break
        return ClaimAudit(
            metric=metric,
            claimed=claimed,
            recomputed=self.mean(metric),
            flaws=found,
            disagreements=self.disagreements(metric, max(_TOLERANCE, printed)),
            own_mean=sum(own) / len(own) if own else None,
        )

    def values(self, metric: Metric, flaws: Flaws = _NO_FLAWS) -> Floats:
        """One figure for each row."""
        if Flaw.EXPONENTIAL_GAIN in flaws:
            metric = metric(gain="exp")
        # Lists as they were sent credit a document each time it is repeated.
        ranked = self._as_sent if Flaw.DUPLICATES_CREDITED in flaws else self._cleaned
        if Flaw.IDEAL_FROM_RETRIEVED not in flaws:
            return metric.measure(ranked, self._ideal)
        # The best order of what was found, not of what there is.
        found = ranked.top(metric.cutoff)
        order = np.lexsort((-found.grade, found.owner))
        ideal = GradedLists(found.size, found.owner, found.position, found.grade[order])
        return metric.measure(ranked, ideal)

    def mean(self, metric: Metric, flaws: Flaws = _NO_FLAWS) -> float:
        """The mean over all queries, or over those that the flaws leave."""
        values = self.values(metric, flaws)
        empty = np.array([not row.doc_ids for row in self.rows])
        if Flaw.EMPTY_DROPPED in flaws:
            values = values[~(empty | self._failed)]
        elif Flaw.FAILED_DROPPED in flaws:
            values = values[~self._failed]
        else:
            return float(values.sum()) / max(1, values.size + self.report.missing)
        return float(values.mean()) if values.size else 0.0

    def suspects(self, metric: Metric) -> list[Flaws]:
        """Every combination that could make a difference here, the simplest first."""
        empty = any(not row.doc_ids and not row.failed for row in self.rows)
        failed = self.report.missing > 0 or bool(self._failed.any())
        # Not both: who drops empty lists has dropped failed queries too, since theirs are empty.
        choices: list[tuple[Flaw | None, ...]] = [
            (None, *[Flaw.FAILED_DROPPED] * failed, *[Flaw.EMPTY_DROPPED] * empty)
        ]
        if any(len(set(row.doc_ids)) < len(row.doc_ids) for row in self.rows):
            choices.append((None, Flaw.DUPLICATES_CREDITED))
        if metric.name == nDCG.name:
            choices += [(None, Flaw.IDEAL_FROM_RETRIEVED), (None, Flaw.EXPONENTIAL_GAIN)]
        combinations = [frozenset(filter(None, chosen)) for chosen in product(*choices)]
        return sorted(combinations, key=lambda flaws: (len(flaws), sorted(flaws)))

    def disagreements(
        self, metric: Metric, tolerance: float, flaws: Flaws = _NO_FLAWS
    ) -> tuple[Disagreement, ...]:
        """The queries whose claimed figure differs by more than the tolerance."""
        return tuple(
            Disagreement(row.query_id, row.claimed[metric.key], value)
            for row, value in zip(self.rows, self.values(metric, flaws).tolist(), strict=True)
            if metric.key in row.claimed and abs(row.claimed[metric.key] - value) > tolerance
        )

    @cached_property
    def _failed(self) -> NDArray[np.bool_]:
        return np.array([row.failed for row in self.rows], dtype=np.bool_)

    @cached_property
    def _cleaned(self) -> GradedLists:
        inspector = Inspector(known=None, top_k=self.report.top_k)
        return self._graded([inspector.clean(row.query_id, row.doc_ids) for row in self.rows])

    @cached_property
    def _as_sent(self) -> GradedLists:
        return self._graded([row.doc_ids[: self.report.top_k] for row in self.rows])

    @cached_property
    def _ideal(self) -> GradedLists:
        return GradedLists.ideal(self.judgments[row.query_id] for row in self.rows)

    def _graded(self, lists: Sequence[Sequence[str | None]]) -> GradedLists:
        return GradedLists.ranked(lists, (self.judgments[row.query_id] for row in self.rows))


def _reports(value: Any) -> Iterator[JsonObject]:
    if isinstance(value, list):
        for item in value:
            yield from _reports(item)
    elif isinstance(value, dict):
        if isinstance(value.get("per_query_results"), list) and value["per_query_results"]:
            yield value
        yield from _reports(value.get("results"))


def _row(number: int, row: Any) -> ReportedQuery:
    fields: JsonObject = row if isinstance(row, dict) else {}
    query_id: Any = fields.get("query_id")
    doc_ids = fields.get("retrieved_docs", fields.get("doc_ids")) or []
    ids = doc_ids if isinstance(doc_ids, list) else [None]
    if not all(isinstance(each, str) for each in (query_id, *ids)):
        raise DataError(
            f"per_query_results: entry {number} needs a query_id string and a list of document "
            "ids, retrieved_docs"
        )
    claimed = {key: float(value) for key, value in row.items() if _is_figure(value)}
    error = row.get("error") or row.get("failure") or row.get("success") is False
    failed = bool(error) or row.get("status") in ("failed", "error", "timeout")
    return ReportedQuery(query_id, () if failed else tuple(doc_ids), failed, claimed)


def _claims(report: JsonObject) -> dict[Metric, float]:
    # `summary` wins over `metrics` if both name a metric: it is what people quote.
    written = dict(_object_in(report, "metrics"))
    for key, value in _object_in(report, "summary").items():
        if key.startswith("mean_"):
            written[key.removeprefix("mean_")] = value
    claims: dict[Metric, float] = {}
    for name, value in written.items():
        try:
            metric = parse_metric(name)
        except UsageError:  # something else, such as a mean latency
            continue
        if _is_figure(value):
            claims[metric] = float(value)
    return claims


def _object_in(report: JsonObject, name: str) -> JsonObject:
    value = report.get(name)
    return value if isinstance(value, dict) else {}


def _is_figure(value: Any) -> TypeGuard[float]:
    """Not for NaN, infinity and what no computation can hold."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and -LARGEST <= value <= LARGEST


def _positive(value: Any) -> int | None:
    """A count; data parts of A2A turn 5 into 5.0."""
    return int(value) if _is_figure(value) and value >= 1 else None

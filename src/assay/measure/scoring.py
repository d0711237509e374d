"""Scores of ranked lists against judgments, query by query."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from assay.data.dataset import Judgments
from assay.errors import UsageError
from assay.measure.graded import Floats, GradedLists
from assay.measure.metrics import Metric
from assay.measure.violations import Inspector, Violations


@dataclass(frozen=True, eq=False)
class Scores:
    """`values` and `ceilings` hold one figure for each of `query_ids`, in that order."""

    query_ids: list[str]
    values: dict[Metric, Floats]
    ceilings: dict[Metric, Floats]
    violations: Violations

    @property
    def metrics(self) -> list[Metric]:
        return list(self.values)

    def mean(self, metric: Metric) -> float:
        """0 for no queries: nothing was found, and a report must stay valid JSON."""
        values = self.values[metric]
        return float(values.mean()) if values.size else 0.0

    def mean_ceiling(self, metric: Metric) -> float:
        ceilings = self.ceilings[metric]
        return float(ceilings.mean()) if ceilings.size else 0.0

    @staticmethod
    def joined(parts: Sequence["Scores"]) -> "Scores":
        """Batches of one run, end to end: a long run is scored a few thousand queries at a time."""
        if not parts:
            raise UsageError("there are no scores to join")
        if any(part.metrics != parts[0].metrics for part in parts):
            raise UsageError("only scores of the same metrics can be joined")
        return Scores(
            [query_id for part in parts for query_id in part.query_ids],
            {m: np.concatenate([part.values[m] for part in parts]) for m in parts[0].metrics},
            {m: np.concatenate([part.ceilings[m] for part in parts]) for m in parts[0].metrics},
            Violations.joined([part.violations for part in parts]),
        )


def score(
    rankings: Mapping[str, Sequence[str]],
    judgments: Judgments,
    metrics: Sequence[Metric],
    *,
    known: Container[str] | None = None,
    top_k: int | None = None,
    returned: Mapping[str, int] | None = None,
) -> Scores:
    """Score every query of `judgments` that has a relevant document.

    A query without a ranking, because it failed or was never asked, scores 0: dropped from the
    mean it would reward an agent for failing on hard queries. Rankings of other queries are
    ignored. `known` are the ids that exist; `top_k` is how many the agent was asked for;
    `returned` how many it sent, where not all of them were kept.
    """
    for metric in metrics:
        metric.require_cutoff()
    query_ids = [query_id for query_id, grades in judgments.items() if _has_relevant(grades)]
    grades = [judgments[query_id] for query_id in query_ids]
    inspector = Inspector(known, top_k)
    depth = _depth(metrics)
    sent = returned or {}
    places = (
        inspector.clean(each, rankings.get(each) or (), sent.get(each, 0))[:depth]
        for each in query_ids
    )
    ranked = GradedLists.ranked(places, grades)
    ideal = GradedLists.ideal(grades)
    reachable = _existing(grades, known, ideal).top(top_k)
    return Scores(
        query_ids,
        {metric: metric.measure(ranked, ideal) for metric in metrics},
        {metric: metric.measure(reachable, ideal) for metric in metrics},
        inspector.violations(),
    )


def _existing(
    grades: Sequence[Mapping[str, int]], known: Container[str] | None, ideal: GradedLists
) -> GradedLists:
    """What a system could find: judged documents that are missing from the corpus it cannot."""
    if known is None or all(doc_id in known for each in grades for doc_id in each):
        return ideal
    return GradedLists.ideal(
        {doc_id: grade for doc_id, grade in each.items() if doc_id in known} for each in grades
    )


def _has_relevant(grades: Mapping[str, int]) -> bool:
    return any(grade > 0 for grade in grades.values())


def _depth(metrics: Sequence[Metric]) -> int | None:
    """How far into the lists the metrics look; None where one looks to the end."""
    cutoffs = [metric.cutoff for metric in metrics]
    return None if None in cutoffs else max((c for c in cutoffs if c is not None), default=0)

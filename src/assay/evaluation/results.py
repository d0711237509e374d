"""From the calls of a run to its figures: while it goes on, and at its end.

At the end they are computed in batches, always in the order of the plan. What stays in memory is a
few figures for each query, and the distinct ids that were judged or returned; no ranking does.

The order matters: a float sum depends on it, and the same run must give the same digits however
its calls happened to finish.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Dataset, Query
from assay.errors import FailureKind
from assay.evaluation.plan import judgments_of
from assay.metrics.describe import similar_pairs
from assay.metrics.metric import (
    AP,
    MRR,
    CappedRecall,
    Hit,
    Judged,
    Metric,
    Precision,
    Recall,
    nDCG,
)
from assay.metrics.scoring import Scores, score_rankings
from assay.run.calls import Call, CallLog, with_quote
from assay.run.config import RunConfig
from assay.run.run_record import LabelCoverage

NOT_ASKED = "not asked"

_BATCH = 2000
_INTERVAL = 0.2
_USUAL_CUTS = (5, 10)


@dataclass(frozen=True, slots=True)
class Batch:
    """A part of the plan with its calls and scores, for writing the rows."""

    queries: Sequence[Query]
    calls: Sequence[Call | None]
    scores: Scores


@dataclass(frozen=True)
class Results:
    """`latencies` holds one figure for each query that was answered or timed out, NaN for others.

    A query that timed out took its time limit at least, also if it was answered when it was asked
    again: left out, an agent would look fast by not answering. What failed otherwise says nothing
    of how long an answer takes.
    """

    scores: Scores
    latencies: NDArray[np.float64]
    failures: Counter[str]
    attempts: int
    examples: dict[str, str]
    """For each kind of failure the first one: its query and what was said."""
    asked_again: int = 0
    answered_again: int = 0
    coverage: LabelCoverage | None = None
    returned_ids: frozenset[str] = frozenset()

    @property
    def total(self) -> int:
        return len(self.latencies)

    @property
    def answered(self) -> int:
        return self.total - self.failures.total()

    @property
    def headline(self) -> Metric:
        return self.scores.metrics[0]


def unseen_places(queries: Sequence[Query], dataset: Dataset, split: str) -> list[int] | None:
    """Positions of the queries that are not near-duplicates of a train query.

    A system that learned from the train judgments must generalize there: it cannot have memorized
    them. None if there is nothing to have learned from.
    """
    if split == "train" or "train" not in dataset.judgments:
        return None
    seen = {query_id for query_id, _ in similar_pairs(queries, dataset.queries_in("train"))}
    return [place for place, query in enumerate(queries) if query.id not in seen]


def metrics_for(top_k: int, extra: Sequence[Metric] = ()) -> list[Metric]:
    """The headline first: nDCG at the depth that the agent was asked for."""
    metrics = [nDCG @ top_k, *(nDCG @ cut for cut in _USUAL_CUTS if cut < top_k)]
    metrics += [kind @ top_k for kind in (Recall, CappedRecall, Precision, MRR, Hit, AP, Judged)]
    metrics += [nDCG(gain="exp") @ top_k]
    return metrics + [metric for metric in extra if metric not in metrics]


def collect_results(
    log: CallLog,
    queries: Sequence[Query],
    dataset: Dataset,
    config: RunConfig,
    metrics: Sequence[Metric],
    on_batch: Callable[[Batch], None] = lambda _batch: None,
) -> Results:
    """Score a run. A query without an answer scores 0 and is counted as a failure."""
    known = dataset.corpus_ids
    judged: set[str] = set()
    returned: set[str] = set()
    parts: list[Scores] = []
    latencies = np.full(len(queries), np.nan)
    failures: Counter[str] = Counter()
    examples: dict[str, str] = {}
    attempts = asked_again = answered_again = 0
    for start in range(0, len(queries), _BATCH):
        drawn = queries[start : start + _BATCH]
        calls = list(log.read([query.id for query in drawn]))
        rankings = {call.query_id: call.doc_ids for call in calls if call is not None}
        judgments = judgments_of(dataset, config, drawn)
        sent = {call.query_id: call.returned for call in calls if call is not None}
        scores = score_rankings(
            rankings, judgments, metrics, known=known, top_k=config.top_k, returned=sent
        )
        parts.append(scores)
        judged.update(*judgments.values())
        returned.update(*rankings.values())
        for place, call in enumerate(calls, start):
            attempts += 0 if call is None else call.attempts
            if call is not None and call.asked_again:
                asked_again += 1
                answered_again += call.failure is None
            if call is not None and call.failure is None:
                # Among others it took longer than its limit: asked alone, it says nothing of that.
                late = 1000 * config.timeout if call.asked_again else 0.0
                latencies[place] = max(call.latency_ms, late)
            else:
                if call is not None and call.failure is FailureKind.TIMEOUT:
                    latencies[place] = max(call.latency_ms, 1000 * config.timeout)
                kind = NOT_ASKED if call is None else str(call.failure)
                failures[kind] += 1
                if call is not None:
                    examples.setdefault(
                        kind, f"{call.query_id}: {with_quote(call.message, call.said)}"
                    )
        on_batch(Batch(drawn, calls, scores))
    return Results(
        Scores.joined(parts),
        latencies,
        failures,
        attempts,
        examples,
        asked_again,
        answered_again,
        _coverage(judged, returned, known),
        frozenset(returned),
    )


def _coverage(judged: Set[str], returned: Set[str], known: Set[str] | None) -> LabelCoverage:
    return LabelCoverage(
        judged=len(judged),
        in_corpus=None if known is None else len(judged & known),
        returned=len(judged & returned),
    )


@dataclass(frozen=True, slots=True)
class Tick:
    """How far a run is, for a progress bar."""

    target: str
    done: int
    total: int
    failed: int
    metric: str
    mean: float


class LiveFigures:
    """Figures while a run goes on, computed a few times a second instead of once per call."""

    def __init__(
        self, config: RunConfig, dataset: Dataset, total: int, tell: Callable[[Tick], None]
    ) -> None:
        self._target = config.target
        self._metric = nDCG @ config.top_k
        self._top_k = config.top_k
        self._judgments = dataset.judgments_in(config.split)
        self._known = dataset.corpus_ids
        self._total = total
        self._tell = tell
        self._done = self._scored = self._failed = 0
        self._sum = 0.0
        self._waiting: list[Call] = []
        self._next = 0.0

    def catch_up(self, earlier: Iterable[Call]) -> None:
        """Count the calls of an interrupted run, in batches, before it continues."""
        for call in earlier:
            self._waiting.append(call)
            if len(self._waiting) == 1000:
                self._score_waiting()
        self.publish()

    def add(self, call: Call) -> None:
        """Count one more call."""
        self._waiting.append(call)
        if time.monotonic() >= self._next:
            self.publish()

    @asynccontextmanager
    async def publishing_periodically(self) -> AsyncIterator[None]:
        """Report finished calls periodically, even while the next calls take long."""
        telling = asyncio.create_task(self._publish_periodically())
        try:
            yield
        finally:
            telling.cancel()

    async def _publish_periodically(self) -> None:
        while True:
            await asyncio.sleep(_INTERVAL)
            if self._waiting:
                self.publish()

    def publish(self) -> None:
        """Report what was not reported yet."""
        self._score_waiting()
        self._next = time.monotonic() + _INTERVAL
        mean = self._sum / self._scored if self._scored else 0.0
        self._tell(
            Tick(self._target, self._done, self._total, self._failed, str(self._metric), mean)
        )

    def _score_waiting(self) -> None:
        calls, self._waiting = self._waiting, []
        if not calls:
            return
        rankings = {
            call.query_id: call.doc_ids for call in calls if call.query_id in self._judgments
        }
        judgments = {query_id: self._judgments[query_id] for query_id in rankings}
        if judgments:
            scores = score_rankings(
                rankings, judgments, [self._metric], known=self._known, top_k=self._top_k
            )
            self._sum += float(scores.values[self._metric].sum())
        self._done += len(calls)
        self._scored += len(judgments)
        self._failed += sum(call.failure is not None for call in calls)

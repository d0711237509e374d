"""From the calls of a run to its figures: while it goes on, and at its end.

At the end they are computed in batches, always in the order of the plan. What stays in memory is a
few figures for each query, and the distinct ids that were judged or returned; no ranking does.

The order matters: a float sum depends on it, and the same run must give the same digits however
its calls happened to finish.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

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
from assay.metrics.searches import list_agreement
from assay.run.calls import Call, CallLog, with_quote
from assay.run.config import RunConfig
from assay.run.models import LabelCoverage

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
    headline: NDArray[np.float64]  # the first metric of each query in each trial


@dataclass
class Results:
    """The scores of a run's questions, and how its calls went.

    `latencies` has one figure for each call that was answered or timed out. A timeout counts as the
    time limit, even if a retry was answered: otherwise an agent looks fast by not answering. Other
    failures say nothing about latency.
    """

    scores: Scores = field(init=False)
    timeout: float
    latencies: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    # For each kind of failure the first one: its query, and what was said
    examples: dict[str, str] = field(default_factory=dict)
    returned_ids: set[str] = field(default_factory=set)
    answered: int = 0  # questions that were answered in every trial
    calls: int = 0
    attempts: int = 0
    asked_again: int = 0
    answered_again: int = 0
    coverage: LabelCoverage | None = None
    # With several trials, the headline of each question (row) in each trial (column), and how alike
    # the lists of a question are.
    headlines: NDArray[np.float64] | None = None
    agreement: float = 1.0

    @property
    def total(self) -> int:
        return len(self.scores.query_ids)

    @property
    def answered_calls(self) -> int:
        return self.calls - self.failures.total()

    def add(self, calls: Iterable[Call | None]) -> None:
        """Count calls, failures and latencies."""
        for call in calls:
            self.calls += 1
            if call is None:
                self.failures[NOT_ASKED] += 1
                continue
            self.attempts += call.attempts
            self.returned_ids.update(call.doc_ids)
            self.asked_again += call.asked_again
            timed_out = call.failure is FailureKind.TIMEOUT
            if timed_out or call.failure is None:
                # Among others it took longer than its limit: asked alone, it says nothing of that.
                late = 1000 * self.timeout if timed_out or call.asked_again else 0.0
                self.latencies.append(max(call.latency_ms, late))
            if call.failure is None:
                self.answered_again += call.asked_again
                continue
            self.failures[str(call.failure)] += 1
            said = f"{call.query_id}: {with_quote(call.message, call.said)}"
            self.examples.setdefault(str(call.failure), said)


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
    """Score a run. A query without an answer scores 0 and is counted as a failure.

    With several trials, a question has the mean of its scores over them: an interval over
    questions then has the scatter of the trials in it.
    """
    found, known = Results(config.timeout), dataset.corpus_ids
    judged: set[str] = set()
    parts: list[Scores] = []
    headlines: list[NDArray[np.float64]] = []
    agreement: list[float] = []
    for start in range(0, len(queries), _BATCH):
        drawn = queries[start : start + _BATCH]
        judgments = judgments_of(dataset, config, drawn)
        judged.update(*judgments.values())
        trials, rounds = [], []
        for trial in config.trials:
            calls = list(log.read(replace(query, trial=trial) for query in drawn))
            found.add(calls)
            rankings = {call.query_id: call.doc_ids for call in calls if call is not None}
            sent = {call.query_id: call.returned for call in calls if call is not None}
            score = partial(score_rankings, rankings, judgments, metrics, known=known)
            trials.append(score(top_k=config.top_k, returned=sent))
            rounds.append(calls)
        parts.append(Scores.averaged(trials))
        for of_query in zip(*rounds, strict=True):
            found.answered += all(call is not None and call.failure is None for call in of_query)
            agreement.append(list_agreement([call.doc_ids if call else () for call in of_query]))
        headlines.append(np.column_stack([trial.values[metrics[0]] for trial in trials]))
        on_batch(Batch(drawn, rounds[0], parts[-1], headlines[-1]))
    found.scores = Scores.joined(parts)
    found.coverage = LabelCoverage(
        judged=len(judged),
        in_corpus=None if known is None else len(judged & known),
        returned=len(judged & found.returned_ids),
    )
    if config.repeat > 1:
        found.headlines, found.agreement = np.concatenate(headlines), float(np.mean(agreement))
    return found


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
        self._target, self._total, self._tell = config.target, total, tell
        self._metric, self._top_k = nDCG @ config.top_k, config.top_k
        self._judgments = dataset.judgments_in(config.split)
        self._known = dataset.corpus_ids
        self._done = self._scored = self._failed = 0
        self._sum = 0.0
        self._waiting: list[Call] = []
        self._timer: asyncio.TimerHandle | None = None

    def catch_up(self, earlier: Iterable[Call]) -> None:
        """Count the calls of an interrupted run, in batches, before it continues."""
        for call in earlier:
            self._waiting.append(call)
            if len(self._waiting) == _BATCH:
                self._score_waiting()
        self.publish()

    def add(self, call: Call) -> None:
        """Count one more call, and report it soon, even if the next calls take long."""
        self._waiting.append(call)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self.publish)

    def publish(self) -> None:
        """Report what was not reported yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._score_waiting()
        mean = self._sum / self._scored if self._scored else 0.0
        self._tell(
            Tick(self._target, self._done, self._total, self._failed, str(self._metric), mean)
        )

    def _score_waiting(self) -> None:
        calls, self._waiting = self._waiting, []
        rankings = {
            call.query_id: call.doc_ids for call in calls if call.query_id in self._judgments
        }
        if rankings:
            judgments = {query_id: self._judgments[query_id] for query_id in rankings}
            scores = score_rankings(
                rankings, judgments, [self._metric], known=self._known, top_k=self._top_k
            )
            self._sum += float(scores.values[self._metric].sum())
        self._done += len(calls)
        self._scored += len(rankings)
        self._failed += sum(call.failure is not None for call in calls)

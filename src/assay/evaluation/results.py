"""What a run measures, and its figures while it goes on."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from assay.data.dataset import Dataset
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
from assay.metrics.scoring import score_rankings
from assay.run.calls import Call
from assay.run.config import RunConfig

_BATCH = 2000
_INTERVAL = 0.2
_USUAL_CUTS = (5, 10)


def metrics_for(top_k: int, extra: Sequence[Metric] = ()) -> list[Metric]:
    """The headline first: nDCG at the depth that the agent was asked for."""
    metrics = [nDCG @ top_k, *(nDCG @ cut for cut in _USUAL_CUTS if cut < top_k)]
    metrics += [kind @ top_k for kind in (Recall, CappedRecall, Precision, MRR, Hit, AP, Judged)]
    metrics += [nDCG(gain="exp") @ top_k]
    return metrics + [metric for metric in extra if metric not in metrics]


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

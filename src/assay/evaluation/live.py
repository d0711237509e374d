"""Live figures for a progress bar, computed a few times a second instead of once per call."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from assay.data.dataset import Dataset
from assay.measure.metrics import nDCG
from assay.measure.scoring import score_rankings
from assay.run.calls import Call
from assay.run.config import RunConfig

_INTERVAL = 0.2


@dataclass(frozen=True, slots=True)
class Tick:
    done: int
    total: int
    failed: int
    metric: str
    mean: float


class LiveFigures:
    def __init__(
        self, config: RunConfig, dataset: Dataset, total: int, tell: Callable[[Tick], None]
    ) -> None:
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
        self._publish()

    def add(self, call: Call) -> None:
        self._waiting.append(call)
        if time.monotonic() >= self._next:
            self._publish()

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
                self._publish()

    def finish(self) -> None:
        self._publish()

    def _publish(self) -> None:
        self._score_waiting()
        self._next = time.monotonic() + _INTERVAL
        mean = self._sum / self._scored if self._scored else 0.0
        self._tell(Tick(self._done, self._total, self._failed, str(self._metric), mean))

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

"""Questions of a run that are asked once more: with other documents, or with planted ones.

The calls of each purpose are in a file of their own in the run folder, so that an interrupted one
is continued and not started over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.agents.protocol import AgentAnswer
from assay.data.dataset import Dataset, Query
from assay.evaluation.calling import OUTAGES, ConcurrencyLimit, retry_policy, run_calls
from assay.net.retry import CircuitBreaker
from assay.progress import Progress
from assay.run.calls import Call, CallLog, CallWriter, PrivateTexts
from assay.run.config import RunConfig


class TargetLost(Exception):
    """The target became unreachable while questions were asked again."""


@dataclass(frozen=True)
class AskingAgain:
    """Asks questions again with the pace and the limits of the run.

    Parameters:
        dataset: the data of the run.
        config: its settings.
        stop: set to end early.
        progress: called after each call.
        known: ids beyond those of the data set that a private run may write.
        breaker: makes the circuit breaker of one round of calls.
    """

    dataset: Dataset
    config: RunConfig
    stop: asyncio.Event
    progress: Progress
    known: Collection[str] = ()
    breaker: Callable[[], CircuitBreaker] = CircuitBreaker

    def is_done(self, path: Path, queries: Sequence[Query]) -> bool:
        """Whether `path` holds a call of each query, so that nothing will be asked."""
        log = CallLog(path)
        return not self.config.private and all(query.id in log for query in queries)

    async def run(
        self,
        path: Path,
        ask: Callable[[Query], Awaitable[AgentAnswer]],
        queries: Sequence[Query],
        what: str,
    ) -> dict[str, Call]:
        """The calls by query id, failed ones included; those that `path` holds are not repeated.

        Raises `TargetLost` if the target became unreachable.
        """
        private = PrivateTexts.of(self.dataset, self.known) if self.config.private else None
        with CallWriter(path, private) as writer:
            log = CallLog(path)
            todo = [query for query in queries if private or query.id not in log]
            done = len(queries) - len(todo)
            outage: list[str] = []
            breaker = self.breaker()

            def on_call(call: Call) -> None:
                nonlocal done
                writer.append(call)
                if call.failure in OUTAGES:
                    outage.append(call.query_id)
                else:
                    outage.clear()
                done += 1
                self.progress(what, done, len(queries))

            await run_calls(
                ask,
                todo,
                concurrency=ConcurrencyLimit(self.config.concurrency),
                policy=retry_policy(self.config.timeout, self.config.retries),
                breaker=breaker,
                on_call=on_call,
                stop=self.stop,
            )
            if breaker.lost:  # these failed because the target was gone, not because of a question
                for query_id in outage:
                    writer.withdraw(query_id)
                raise TargetLost
        calls = CallLog(path, private).read([query.id for query in queries])
        return {call.query_id: call for call in calls if call is not None}

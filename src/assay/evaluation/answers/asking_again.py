"""Asks the questions of a run again: with chosen contexts, or with planted documents.

The calls of each purpose are in a file of their own in the run folder, so that an interrupted one
is continued and not started over. Chosen contexts show which half of an agent is at fault:
`gold` holds the documents that the reference rests on and nothing else, `none` holds nothing, and
`distractors` holds the gold ones among those that look most like the question and do not help.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from assay.answers.case import AnswerCase
from assay.data.dataset import Dataset, Query
from assay.evaluation.calling import ConcurrencyLimit, OutageCalls, retry_policy, run_calls
from assay.llm.passages import Passage
from assay.net.retry import CircuitBreaker
from assay.progress import Progress
from assay.run.calls import Call, CallLog, CallWriter, PrivateTexts
from assay.run.config import RunConfig
from assay.search.bm25_index import Bm25Index, open_bm25
from assay.targets.chunks import ChunkResolver
from assay.targets.protocol import Agent, AgentAnswer, context_taker


class TargetLost(Exception):
    """The target became unreachable while questions were asked again."""


@dataclass(frozen=True)
class CounterfactualRunner:
    """Asks questions again with the pace and the limits of the run.

    Parameters:
        dataset: the data of the run.
        config: its settings.
        stop: set to end early.
        progress: called after each call.
        agent: the target, which is open; None if answers were logged and nobody can be asked.
        folder: the run folder, for the calls.
        known: ids beyond those of the data set that a private run may write.
        breaker: makes the circuit breaker of one round of calls.
    """

    dataset: Dataset
    config: RunConfig
    stop: asyncio.Event
    progress: Progress
    agent: Agent | None = None
    folder: Path = Path()
    known: Collection[str] = ()
    breaker: Callable[[], CircuitBreaker] = CircuitBreaker

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
            todo = [query for query in queries if private or query not in log]
            done = len(queries) - len(todo)
            outage = OutageCalls()
            breaker = self.breaker()

            def on_call(call: Call) -> None:
                nonlocal done
                writer.append(call)
                outage.add(call)
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
                outage.withdraw(writer)
                raise TargetLost
        calls = CallLog(path, private).read(queries)
        return {call.query_id: call for call in calls if call is not None}


class Context(StrEnum):
    """Which documents an agent has to answer from."""

    GOLD = "gold"
    NONE = "none"
    DISTRACTORS = "distractors"


class ContextBuilder:
    """Chooses documents for a context. `size` is how many the agent usually sees: its top_k."""

    def __init__(self, dataset: Dataset, size: int) -> None:
        self._dataset = dataset
        self._size = size
        self._index: Bm25Index | None = None

    def passages(self, case: AnswerCase, context: Context) -> list[Passage]:
        """The documents to answer `case` from; the same for the same case."""
        if context is Context.NONE:
            return []
        gold = self._gold(case)
        if context is Context.GOLD:
            return self._passages(gold)
        mixed = [*gold, *self._distractors(case, max(self._size - len(gold), 1))]
        # Shuffled, or the rank would give the gold ones away; seeded by the id, to be repeatable.
        random.Random(case.query_id).shuffle(mixed)
        return self._passages(mixed)

    def _gold(self, case: AnswerCase) -> list[str]:
        """Where the reference names no documents: the judged ones, best grades first."""
        if case.reference.documents:
            return [each for each in case.reference.documents if each in self._dataset.documents]
        known = [each for each in case.relevant_ids if each in self._dataset.documents]
        return sorted(known, key=lambda each: (-case.relevant[each], each))[: self._size]

    def _distractors(self, case: AnswerCase, wanted: int) -> list[str]:
        if self._index is None:
            self._index = open_bm25(self._dataset)
        helpful = case.relevant_ids | case.needed
        found = self._index.search(case.question, wanted + len(helpful))
        return [doc_id for doc_id, _ in found if doc_id not in helpful][:wanted]

    def _passages(self, doc_ids: Sequence[str]) -> list[Passage]:
        documents = [self._dataset.documents[doc_id] for doc_id in doc_ids]
        return [Passage(each.id, each.title, each.text) for each in documents]


def select_cases(
    cases: Sequence[AnswerCase], correct: Mapping[str, bool | None], context: Context
) -> list[AnswerCase]:
    """The cases to ask again in `context`.

    Wrong answers are asked again with other documents. Without documents correct ones are asked as
    well: an answer that the model knows from memory says nothing about retrieval.
    """
    askable = [
        case
        for case in cases
        if case.answerable and case.answer is not None and correct.get(case.query_id) is not None
    ]
    if context is Context.NONE:
        return askable
    return [case for case in askable if not correct[case.query_id] and case.needed]


async def run_counterfactual(
    cases: Sequence[AnswerCase], context: Context, asker: CounterfactualRunner
) -> dict[str, Call]:
    """Ask the cases again in `context`; the calls that succeeded, by query id.

    Raises `TargetLost` if the target became unreachable.
    """
    config, dataset = asker.config, asker.dataset
    taker = context_taker(asker.agent) if asker.agent else None
    assert taker is not None, "only agents that take a context are asked again"
    builder = ContextBuilder(dataset, config.top_k)
    passages = {case.query_id: builder.passages(case, context) for case in cases}
    queries = [dataset.queries[case.query_id] for case in cases]
    resolver = ChunkResolver(config.chunk_separator, dataset.documents)

    async def ask(query: Query) -> AgentAnswer:
        return resolver.resolve(await taker.answer_from(query.text, passages[query.id]))

    path = asker.folder / f"calls-{context}.jsonl"
    calls = await asker.run(path, ask, queries, f"asking again, context: {context}")
    return {query_id: call for query_id, call in calls.items() if call.failure is None}

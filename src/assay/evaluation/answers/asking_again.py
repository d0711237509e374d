"""Asks the questions of a run again: with chosen contexts, or with planted documents.

The calls of each purpose are in a file of their own in the run folder, so that an interrupted one
is continued and not started over. Chosen contexts show which half of an agent is at fault:
`gold` holds the documents that the reference rests on and nothing else, `none` holds nothing, and
`distractors` holds the gold ones among those that look most like the question and do not help.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from assay.answers.case import AnswerCase
from assay.data.dataset import Dataset, Query
from assay.evaluation.calling import retry_policy, run_calls
from assay.llm.passages import Passage
from assay.net.retry import CircuitBreaker
from assay.progress import Progress
from assay.run.calls import Call, CallLog, CallWriter, PrivateTexts
from assay.run.config import RunConfig
from assay.search.bm25 import Bm25Index
from assay.targets.chunks import ChunkResolver
from assay.targets.protocol import Agent, AgentAnswer, context_taker


class TargetLost(Exception):
    """The target became unreachable while questions were asked again."""


@dataclass(frozen=True)
class CounterfactualRunner:
    """Asks questions again with the data, the settings and the pace of a run.

    `agent` is open, and None if answers were logged and nobody can be asked. `known` are ids beyond
    those of the data set that a private run may write; `breaker` makes the circuit breaker of one
    round of calls.
    """

    dataset: Dataset
    config: RunConfig
    stop: asyncio.Event
    progress: Progress
    agent: Agent | None = None
    folder: Path = Path()
    known: Collection[str] = ()
    breaker: Callable[[], CircuitBreaker] = CircuitBreaker

    async def answer_from(
        self, file: str, passages: Mapping[str, Sequence[Passage]], what: str
    ) -> dict[str, Call]:
        """Ask questions from `passages` by query id; the calls by query id, failed ones included.

        Those that `file` of the run folder holds are not repeated. Raises `TargetLost` if the
        target became unreachable.
        """
        config, path = self.config, self.folder / file
        taker = context_taker(self.agent) if self.agent else None
        assert taker is not None, "only agents that take a context are asked again"
        resolver = ChunkResolver(config.chunk_separator, self.dataset.documents)
        queries = [self.dataset.queries[query_id] for query_id in passages]
        private = PrivateTexts.of(self.dataset, self.known) if config.private else None

        async def ask(query: Query) -> AgentAnswer:
            return resolver.resolve(await taker.answer_from(query.text, passages[query.id]))

        with CallWriter(path, private) as writer:
            log = CallLog(path)
            todo = [query for query in queries if private or query not in log]
            done = len(queries) - len(todo)
            breaker = self.breaker()

            def on_call(call: Call) -> None:
                nonlocal done
                writer.append(call)
                done += 1
                self.progress(what, done, len(queries))

            gone = await run_calls(
                ask,
                todo,
                concurrency=config.concurrency,
                policy=retry_policy(config.timeout, config.retries),
                breaker=breaker,
                on_call=on_call,
                stop=self.stop,
            )
            if breaker.lost:  # these failed because the target was gone, not because of a question
                for key in gone:
                    writer.withdraw(key)
                raise TargetLost
        calls = CallLog(path, private).read(queries)
        return {call.query_id: call for call in calls if call is not None}


class Context(StrEnum):
    """Which documents an agent has to answer from."""

    GOLD = "gold"
    NONE = "none"
    DISTRACTORS = "distractors"


def select_cases(
    cases: Sequence[AnswerCase], correct: Mapping[str, bool | None], context: Context
) -> list[AnswerCase]:
    """The cases to ask again in `context`: those with a wrong answer; without documents all."""
    askable = [
        case
        for case in cases
        if case.answerable and case.answer is not None and correct.get(case.query_id) is not None
    ]
    if context is Context.NONE:  # what the model knows from memory says nothing about retrieval
        return askable
    return [case for case in askable if not correct[case.query_id] and case.needed]


def chosen_context(
    case: AnswerCase, context: Context, dataset: Dataset, size: int, index: Bm25Index | None = None
) -> list[Passage]:
    """The documents to answer `case` from, the same for the same case; `size` is the top_k that
    the agent usually sees, and distractors are what `index` finds.
    """
    if context is Context.NONE:
        return []
    # If the reference names no documents: the judged ones, best grades first.
    gold = [each for each in case.reference.documents if each in dataset.documents]
    if not case.reference.documents:
        known = [each for each in case.relevant_ids if each in dataset.documents]
        gold = sorted(known, key=lambda each: (-case.relevant[each], each))[:size]
    if index is not None:
        helpful, wanted = case.relevant_ids | case.needed, max(size - len(gold), 1)
        found = index.search(case.question, wanted + len(helpful))
        gold = [*gold, *[doc_id for doc_id, _ in found if doc_id not in helpful][:wanted]]
        # Shuffled, or the rank would give the gold ones away; seeded by the id, to be repeatable.
        random.Random(case.query_id).shuffle(gold)
    documents = [dataset.documents[doc_id] for doc_id in gold]
    return [Passage(each.id, each.title, each.text) for each in documents]

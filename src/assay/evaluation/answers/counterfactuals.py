"""The same questions in contexts of our choice, to find out which component is at fault.

`gold` holds the documents that the reference rests on and nothing else, `none` holds nothing, and
`distractors` holds the gold ones among those that look most like the question and do not help.
Each context keeps its calls in a file of its own in the run folder, so that an interrupted one is
continued and not started over.
"""

import random
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from assay.agents.chunks import ChunkResolver
from assay.agents.protocol import AgentAnswer, TakesContext
from assay.answer.passages import Passage
from assay.data.dataset import Dataset, Query
from assay.evaluation.answers.asking_again import AskingAgain
from assay.measure.answers.answer_metrics import AnswerCase
from assay.run.calls import Call
from assay.search.bm25_index import Bm25Index, open_bm25


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
    agent: TakesContext,
    cases: Sequence[AnswerCase],
    context: Context,
    folder: Path,
    asking: AskingAgain,
) -> dict[str, Call]:
    """Ask the cases again in `context`; the calls that succeeded, by query id.

    Raises `TargetLost` if the target became unreachable.
    """
    path = folder / f"calls-{context}.jsonl"
    config, dataset = asking.config, asking.dataset
    builder = ContextBuilder(dataset, config.top_k)
    passages = {case.query_id: builder.passages(case, context) for case in cases}
    queries = [dataset.queries[case.query_id] for case in cases]
    resolver = ChunkResolver(config.chunk_separator, dataset.documents)

    async def ask(query: Query) -> AgentAnswer:
        return resolver.resolve(await agent.answer_from(query.text, passages[query.id]))

    calls = await asking.run(path, ask, queries, f"asking again, context: {context}")
    return {query_id: call for query_id, call in calls.items() if call.failure is None}

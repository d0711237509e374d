"""The other contexts in which a question is put again, to tell whose fault a wrong answer is.

`gold` holds the documents that the reference rests on and nothing else, `none` holds nothing, and
`distractors` holds the gold ones among those that look most like the question and do not help.
"""

import random
from collections.abc import Sequence
from enum import StrEnum

from assay.answer.passages import Passage
from assay.data.dataset import Dataset
from assay.measure.answers.case import AnswerCase
from assay.search.lexical import LexicalIndex


class Context(StrEnum):
    GOLD = "gold"
    NONE = "none"
    DISTRACTORS = "distractors"


class Contexts:
    """`size` is how many documents the agent is used to see: its top_k."""

    def __init__(self, dataset: Dataset, size: int) -> None:
        self._dataset = dataset
        self._size = size
        self._index: LexicalIndex | None = None

    def passages(self, case: AnswerCase, context: Context) -> list[Passage]:
        if context is Context.NONE:
            return []
        gold = self._gold(case)
        if context is Context.GOLD:
            return self._passages(gold)
        mixed = [*gold, *self._distractors(case, max(self._size - len(gold), 1))]
        # Shuffled, or the place would give the gold ones away; by the id, so that it stays so.
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
            self._index = LexicalIndex(self._dataset.documents.values())
        helpful = case.relevant_ids | case.needed
        found = self._index.search(case.question, wanted + len(helpful))
        return [doc_id for doc_id, _ in found if doc_id not in helpful][:wanted]

    def _passages(self, doc_ids: Sequence[str]) -> list[Passage]:
        documents = [self._dataset.documents[doc_id] for doc_id in doc_ids]
        return [Passage(each.id, each.title, each.text) for each in documents]

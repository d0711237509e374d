"""Drafts from documents in a seeded order, each through the sieve, until there are enough."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.answer.ground_truth.questions.draft import Draft, Drop
from assay.answer.ground_truth.questions.sieve import Sieve, States
from assay.answer.ground_truth.questions.writers import QuestionWriter
from assay.data.dataset import Document
from assay.errors import UsageError
from assay.net.gather import gather
from assay.progress import Progress, silent

# A model that writes nothing of use must not be paid for a whole corpus.
DRAFTS_FOR_EACH = 5
_SHORTEST = 40
"""Characters below which a document says too little for a question."""


@dataclass(frozen=True, slots=True)
class QuestionSet:
    """`from_memory_checked` is False where there is no model that could have known."""

    questions: list[Draft]
    drafted: int
    dropped: Mapping[Drop, int]
    from_memory_checked: bool


async def make_questions(
    documents: Mapping[str, Document],
    writer: QuestionWriter,
    number: int,
    *,
    states: States,
    seed: int = 42,
    taken: Sequence[str] = (),
    progress: Progress = silent,
) -> QuestionSet:
    """At most one question a document; `taken` are questions that are there already."""
    if number < 1:
        raise UsageError(f"the number of questions must be >= 1, got {number!r}")
    bench = _Bench(Sieve(documents, states, taken), writer, seed)
    order = _order(documents, seed)[: number * DRAFTS_FOR_EACH]
    while order and len(bench.kept) < number:
        wave = number - len(bench.kept)
        await bench.examine(order[:wave])
        order = order[wave:]
        progress("writing questions", len(bench.kept), number)
    dropped = {drop: bench.dropped[drop] for drop in Drop if bench.dropped[drop]}
    return QuestionSet(bench.kept, bench.drafted, dropped, bench.from_memory_checked)


def _order(documents: Mapping[str, Document], seed: int) -> list[Document]:
    usable = [each for each in documents.values() if len(each.text) >= _SHORTEST]
    if not usable:
        raise UsageError(
            f"none of the {len(documents)} documents has {_SHORTEST} characters of text, so there "
            "is nothing to ask about"
        )
    usable.sort(key=lambda document: document.id)  # the same draw, however the files were listed
    random.Random(seed).shuffle(usable)
    return usable


class _Bench:
    def __init__(self, sieve: Sieve, writer: QuestionWriter, seed: int) -> None:
        self.kept: list[Draft] = []
        self.dropped: Counter[Drop] = Counter()
        self.drafted = 0
        self.from_memory_checked = False
        self._sieve = sieve
        self._writer = writer
        self._seed = seed

    async def examine(self, documents: Sequence[Document]) -> None:
        """Drafts and checks at once, decisions in order: the result hangs on no race."""
        drafts = await gather([self._writer.draft(each, self._seed) for each in documents])
        self.drafted += len(drafts)
        hopeful = [
            (sound, document)
            for draft, document in zip(drafts, documents, strict=True)
            if (sound := self._sieved(draft)) is not None
        ]
        flaws = await gather([self._tried(*each) for each in hopeful])
        for (sound, _), flaw in zip(hopeful, flaws, strict=True):
            # Only what was let through is taken: a draft that fell stands in nobody's way.
            if flaw is None and self._sieve.is_taken(sound):
                flaw = Drop.DUPLICATE
            if flaw is None:
                self._sieve.take(sound)
                self.kept.append(sound)
            else:
                self.dropped[flaw] += 1

    def _sieved(self, draft: Draft | Drop) -> Draft | None:
        if isinstance(draft, Drop):
            self.dropped[draft] += 1
            return None
        if (flaw := self._sieve.flaw(draft)) is not None:
            self.dropped[flaw] += 1
            return None
        return draft

    async def _tried(self, draft: Draft, document: Document) -> Drop | None:
        """By the writer itself: with the document it must find the facts, without it must not."""
        answer = await self._writer.answer_from(draft.question, document)
        if not self._sieve.states_all(answer, draft):
            return Drop.UNANSWERED
        remembered = await self._writer.answer_alone(draft.question)
        self.from_memory_checked |= remembered is not None
        known = remembered and self._sieve.states_all(remembered, draft)
        return Drop.FROM_MEMORY if known else None

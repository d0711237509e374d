"""Generates questions of the requested kinds, from templates, gaps or a model, and checks each."""

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.data.dataset import Document, Fact
from assay.errors import UsageError
from assay.labels.questions.made_questions import (
    MadeQuestion,
    MadeQuestions,
    QuestionCandidate,
    QuestionKind,
    Quote,
    Rejection,
)
from assay.labels.questions.source_documents import mentions_unit, quoted_in
from assay.labels.questions.templates import TemplateQuestions
from assay.labels.questions.writers import (
    QuestionWriter,
    SeenQuestions,
    documents_with_quotes,
)
from assay.net.gather import gather
from assay.progress import Progress, silent
from assay.search.bm25_index import Bm25Index
from assay.text import stems

States = Callable[[str, Fact], bool]
"""Whether a text states a fact: `assay.answers.lexical.states`, a layer above this one."""

FOUND_WITHIN = 20
"""The rank up to which lexical search has to find the document. Generous, because a question that
only the best search finds is worth having; below it are mostly questions about nothing."""

CANDIDATES_PER_QUESTION = 5
"""Bounds what a model that writes nothing useful can cost."""
MOST_QUESTIONS = 100_000

_MIN_CHARACTERS = 40
"""A shorter document says too little for a question."""
_TRIES = 50
"""Candidates of a template for each question that is wanted."""
_LOOKED_AT = 20
_AS_HIGH = 0.99
_OF_TEMPLATES = set(stems("Fill the gap: How many does the document state?"))
_WRITTEN = (QuestionKind.SINGLE_HOP, QuestionKind.PARAPHRASED)
_THING = (
    r"(?:document|text|passage|article|excerpt|abstract|paper|authors?|study|studies|note|file)"
)
_NAMES_DOCUMENT = re.compile(
    rf"\b(?:the|this|that|these|given|provided|following|above)\s+(?:\w+\s+)?{_THING}\b"
    r"|\baccording to (?:the|this|it)\b|\bmentioned (?:above|here|in)\b",
    re.IGNORECASE,
)


class QuestionChecks:
    """Checks candidates and questions against the documents and against each other.

    Parameters:
        documents: all documents, by id.
        index: BM25 over the same documents.
        states: whether a text states a fact.
        taken: questions that exist already.
    """

    def __init__(
        self,
        documents: Mapping[str, Document],
        index: Bm25Index,
        states: States,
        taken: Sequence[str] = (),
    ) -> None:
        self.documents = documents
        self._index = index
        self._states = states
        self.accepted = SeenQuestions(taken)

    def candidate_rejection(self, candidate: QuestionCandidate) -> Rejection | None:
        """The first check that a candidate fails, cheap checks first; None if it passes."""
        document = self.documents[candidate.document_id]
        if not all(quoted_in(quote, document) for quote in candidate.quotes):
            return Rejection.FALSE_QUOTE
        if not self.states_all(candidate.answer, candidate):
            return Rejection.UNSTATED
        if _NAMES_DOCUMENT.search(candidate.question):
            return Rejection.NAMES_DOCUMENT
        if self.accepted.has(candidate.question):
            return Rejection.DUPLICATE
        hits = dict(self._index.search(candidate.question, FOUND_WITHIN))
        return None if candidate.document_id in hits else Rejection.NOT_FOUND

    def states_all(self, answer: str, claimed: QuestionCandidate | MadeQuestion) -> bool:
        """Whether the answer states all facts of a candidate or a question."""
        return all(self._states(answer, fact) for fact in claimed.facts)

    def rejection(self, question: MadeQuestion) -> Rejection | None:
        """Why a question is rejected; None for one that passes, which is then taken."""
        if not self._is_proven(question):
            return Rejection.UNPROVEN
        if any(self._states(question.text, fact) for fact in question.facts):
            return Rejection.GIVEN_AWAY
        if question.kind is QuestionKind.UNANSWERABLE and self._is_answered(question):
            return Rejection.ANSWERED
        if self.accepted.has(question.text):
            return Rejection.DUPLICATE
        self.accepted.add(question.text)
        return None

    def flagged(self, question: MadeQuestion) -> MadeQuestion:
        """The question, marked where BM25 ranks another document as high as those expected.

        A keyword search then finds the one or the other by chance. Of several expected documents
        the best counts: the others of a multi-hop question are not to be found by its words.
        """
        if not question.documents:
            return question
        hits = dict(self._index.search(question.text, _LOOKED_AT))
        expected = [hits.get(each, 0.0) for each in question.documents]
        others = [score for doc_id, score in hits.items() if doc_id not in question.documents]
        best = max(expected)
        ambiguous = best == 0.0 or max(others, default=0.0) >= _AS_HIGH * best
        return replace(question, ambiguous=ambiguous)

    def _is_proven(self, question: MadeQuestion) -> bool:
        for quote in question.quotes:
            if not quoted_in(quote.text, self.documents[quote.document_id]):
                return False
        texts = [each.text for each in question.quotes]
        stated = all(any(self._states(text, fact) for text in texts) for fact in question.facts)
        return stated and self.states_all(question.answer or "", question)

    def _is_answered(self, question: MadeQuestion) -> bool:
        """Whether a document has the new name, or the unit, with all other words of it."""
        replaced, _, name = question.changed.partition(" -> ")
        wanted = set(stems(question.text)) - _OF_TEMPLATES
        for doc_id, _ in self._index.search(question.text, _LOOKED_AT):
            document = self.documents[doc_id]
            has = name in document.full_text if replaced else mentions_unit(document, name)
            known = set(stems(document.full_text)) | (set() if replaced else set(stems(name)))
            if has and wanted <= known:
                return True
        return False


@dataclass
class WrittenQuestions:
    """The questions that a writer proposed and that passed all checks, and why others did not.

    `from_memory_checked` is False if there is no model that could know the answers.
    """

    writer: QuestionWriter
    seed: int
    checks: QuestionChecks
    questions: list[QuestionCandidate] = field(default_factory=list)
    candidates: int = 0
    rejected: Counter[Rejection] = field(default_factory=Counter)
    from_memory_checked: bool = False

    async def extend(self, documents: Sequence[Document]) -> None:
        """Proposals and checks run concurrently, decisions in order: the result is repeatable."""
        proposals = await gather([self.writer.propose(each, self.seed) for each in documents])
        self.candidates += len(proposals)
        passed = []
        for proposal, document in zip(proposals, documents, strict=True):
            if isinstance(proposal, Rejection):
                self.rejected[proposal] += 1
            elif (failed := self.checks.candidate_rejection(proposal)) is not None:
                self.rejected[failed] += 1
            else:
                passed.append((proposal, document))
        reasons = await gather([self._tried(*each) for each in passed])
        for (candidate, _), reason in zip(passed, reasons, strict=True):
            # Only accepted questions count as duplicates: a rejected one blocks no other.
            if reason is None and self.checks.accepted.has(candidate.question):
                reason = Rejection.DUPLICATE
            if reason is None:
                self.checks.accepted.add(candidate.question)
                self.questions.append(candidate)
            else:
                self.rejected[reason] += 1

    async def _tried(self, candidate: QuestionCandidate, document: Document) -> Rejection | None:
        """The writer has to find the facts with the document, and must not know them without."""
        answer = await self.writer.answer_from(candidate.question, document)
        if not self.checks.states_all(answer, candidate):
            return Rejection.UNANSWERED
        remembered = await self.writer.answer_from_memory(candidate.question)
        self.from_memory_checked |= remembered is not None
        known = remembered and self.checks.states_all(remembered, candidate)
        return Rejection.FROM_MEMORY if known else None


async def generate_questions(
    checks: QuestionChecks,
    writer: QuestionWriter,
    number: int,
    *,
    seed: int = 42,
    progress: Progress = silent,
) -> WrittenQuestions:
    """Up to `number` questions, at most one about each document.

    Parameters:
        checks: what the questions must pass; its documents are asked about.
        writer: who proposes questions.
        number: how many questions are wanted.
        seed: decides the order of the documents.
        progress: called as questions are written.
    """
    made = WrittenQuestions(writer, seed, checks)
    order = _order(checks.documents, seed)[: number * CANDIDATES_PER_QUESTION]
    while order and len(made.questions) < number:
        wave = number - len(made.questions)
        await made.extend(order[:wave])
        order = order[wave:]
        progress("writing questions", len(made.questions), number)
    return made


def _order(documents: Mapping[str, Document], seed: int) -> list[Document]:
    usable = [each for each in documents.values() if len(each.text) >= _MIN_CHARACTERS]
    if not usable:
        raise UsageError(
            f"none of the {len(documents)} documents has {_MIN_CHARACTERS} characters of text, so "
            "there is nothing to ask about"
        )
    usable.sort(key=lambda document: document.id)  # the same sample in any order of the files
    random.Random(seed).shuffle(usable)
    return usable


async def make_questions(
    documents: Mapping[str, Document],
    kinds: Sequence[QuestionKind],
    number: int,
    *,
    writers: Mapping[QuestionKind, QuestionWriter],
    states: States,
    seed: int = 42,
    taken: Sequence[str] = (),
    progress: Progress = silent,
) -> MadeQuestions:
    """Up to `number` questions, as many of each kind as the documents allow.

    Parameters:
        documents: what to ask about, by id.
        kinds: what to ask.
        number: how many questions in all; kinds take turns.
        writers: who writes the kinds that no template makes.
        states: whether a text states a fact.
        seed: decides documents and sentences.
        taken: questions that exist already.
        progress: called as questions are made.
    """
    if not 1 <= number <= MOST_QUESTIONS:
        raise UsageError(
            f"the number of questions must be between 1 and {MOST_QUESTIONS:,}, got {number}"
        )
    if not documents:
        raise UsageError("there are no documents, so there is nothing to ask about")
    index = Bm25Index(documents.values())
    checks = QuestionChecks(documents, index, states, taken)
    made = MadeQuestions()
    for kind in (each for each in kinds if each in _WRITTEN):
        share = _share(number, kinds, kind)
        if not share:
            continue
        texts = [*taken, *(each.text for each in made.questions)]
        own = QuestionChecks(documents, index, states, texts)
        try:
            found = await generate_questions(
                own, writers[kind], share, seed=seed, progress=progress
            )
        except UsageError:  # no document is long enough; a title can still be asked for
            if len(kinds) == 1:
                raise
            continue
        _take_written(made, found, kind, documents, checks)
    templates = TemplateQuestions(documents, index, seed)
    streams = {each: templates.of_kind(each) for each in kinds if each not in _WRITTEN}
    _fill(made, streams, number, checks, progress)
    order = {kind: place for place, kind in enumerate(kinds)}
    made.questions.sort(key=lambda each: order[each.kind])
    return made


def _share(number: int, kinds: Sequence[QuestionKind], kind: QuestionKind) -> int:
    whole, rest = divmod(number, len(kinds))
    return whole + (list(kinds).index(kind) < rest)


def _take_written(
    made: MadeQuestions,
    found: WrittenQuestions,
    kind: QuestionKind,
    documents: Mapping[str, Document],
    checks: QuestionChecks,
) -> None:
    made.drafted += found.candidates
    made.rejected.update({each: found.rejected[each] for each in Rejection if found.rejected[each]})
    made.from_memory_checked |= found.from_memory_checked
    model = found.writer.origin.get("model", "")
    how = "cloze" if model in ("", "none") else f"written by a model: {model}"
    for candidate in found.questions:
        question = _question(candidate, kind, how, documents)
        reason = checks.rejection(question)
        if reason is None:
            made.questions.append(checks.flagged(question))
        else:
            made.rejected[reason] += 1


def _question(
    candidate: QuestionCandidate, kind: QuestionKind, how: str, documents: Mapping[str, Document]
) -> MadeQuestion:
    return MadeQuestion(
        kind,
        candidate.question,
        tuple(documents_with_quotes(candidate, documents)),
        tuple(Quote(candidate.document_id, each) for each in candidate.quotes),
        candidate.answer,
        candidate.facts,
        how=how,
    )


def _fill(
    made: MadeQuestions,
    streams: dict[QuestionKind, Iterator[MadeQuestion]],
    number: int,
    checks: QuestionChecks,
    progress: Progress,
) -> None:
    """Kinds take turns, those with fewest questions first; one that has no more drops out."""
    tries = dict.fromkeys(streams, _TRIES * number)
    while streams and len(made.questions) < number:
        kind = min(streams, key=made.count)
        candidate = next(streams[kind], None)
        tries[kind] -= 1
        if candidate is None or tries[kind] <= 0:
            del streams[kind]
            continue
        made.drafted += 1
        reason = checks.rejection(candidate)
        if reason is None:
            made.questions.append(checks.flagged(candidate))
            progress("making questions", len(made.questions), number)
        else:
            made.rejected[reason] += 1

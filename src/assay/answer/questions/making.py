"""Makes questions of the kinds that are wanted: by templates, gaps or a model, checked."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from assay.answer.ground_truth.candidates import (
    QuestionCandidate,
    Rejection,
    States,
    documents_with_quotes,
    quoted_in,
)
from assay.answer.ground_truth.question_set import QuestionSet, generate_questions
from assay.answer.ground_truth.writers import QuestionWriter
from assay.answer.questions.kinds import MadeQuestion, QuestionKind, Quote
from assay.answer.questions.statements import mentions_unit
from assay.answer.questions.templates import TemplateQuestions
from assay.data.dataset import Document
from assay.errors import UsageError
from assay.progress import Progress, silent
from assay.search.bm25_index import Bm25Index
from assay.text import stems

_SAME = 0.75
_LOOKED_AT = 20
_AS_HIGH = 0.99
_OF_TEMPLATES = set(stems("Fill the gap: How many does the document state?"))


class QuestionChecks:
    """Checks made questions against the documents and against each other.

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
        self._documents = documents
        self._index = index
        self._states = states
        self._seen = SeenQuestions(taken)

    def rejection(self, question: MadeQuestion) -> Rejection | None:
        """Why a question is rejected; None for one that passes, which is then taken."""
        if not self._is_proven(question):
            return Rejection.UNPROVEN
        if any(self._states(question.text, fact) for fact in question.facts):
            return Rejection.GIVEN_AWAY
        if question.kind is QuestionKind.UNANSWERABLE and self._is_answered(question):
            return Rejection.ANSWERED
        return None if self._seen.add(question.text) else Rejection.DUPLICATE

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
            if not quoted_in(quote.text, self._documents[quote.document_id]):
                return False
        texts = [each.text for each in question.quotes]
        stated = all(any(self._states(text, fact) for text in texts) for fact in question.facts)
        answer = question.answer or ""
        return stated and all(self._states(answer, fact) for fact in question.facts)

    def _is_answered(self, question: MadeQuestion) -> bool:
        """Whether a document has the new name, or the unit, with all other words of it."""
        replaced, _, name = question.changed.partition(" -> ")
        wanted = set(stems(question.text)) - _OF_TEMPLATES
        for doc_id, _ in self._index.search(question.text, _LOOKED_AT):
            document = self._documents[doc_id]
            has = name in document.full_text if replaced else mentions_unit(document, name)
            known = set(stems(document.full_text)) | (set() if replaced else set(stems(name)))
            if has and wanted <= known:
                return True
        return False


class SeenQuestions:
    """Finds questions that share three quarters of their words, among any number.

    Two sets that share so much share one of the first words of their order, so only questions with
    one of these are compared.
    """

    def __init__(self, taken: Sequence[str] = ()) -> None:
        self._by_word: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
        for question in taken:
            self.add(question)

    def add(self, question: str) -> bool:
        """Take the question; False, and nothing is taken, if there is one nearly like it."""
        said = frozenset(stems(question))
        first = sorted(said)[: len(said) - int(_SAME * len(said)) + 1]
        near = (old for word in first for old in self._by_word[word])
        if any(len(said & old) >= _SAME * len(said | old) for old in near):
            return False
        for word in first:
            self._by_word[word].append(said)
        return True


_WRITTEN = (QuestionKind.SINGLE_HOP, QuestionKind.PARAPHRASED)
_TRIES = 50
"""Candidates of a template for each question that is wanted."""

MOST_QUESTIONS = 100_000


@dataclass
class MadeQuestions:
    """The questions of a set, and what was not made.

    `from_memory_checked` is False if there was no model that could know the answers.
    """

    questions: list[MadeQuestion] = field(default_factory=list)
    drafted: int = 0
    rejected: Counter[Rejection] = field(default_factory=Counter)
    from_memory_checked: bool = False

    def count(self, kind: QuestionKind) -> int:
        """How many questions of a kind there are."""
        return sum(each.kind is kind for each in self.questions)


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

    Args:
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
        writer = writers[kind]
        try:
            found = await generate_questions(
                documents, writer, share, states=states, seed=seed, taken=texts, progress=progress
            )
        except UsageError:  # no document is long enough; a title can still be asked for
            if len(kinds) == 1:
                raise
            continue
        _take_written(made, found, kind, writer, documents, checks)
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
    found: QuestionSet,
    kind: QuestionKind,
    writer: QuestionWriter,
    documents: Mapping[str, Document],
    checks: QuestionChecks,
) -> None:
    made.drafted += found.candidates
    made.rejected.update(found.rejected)
    made.from_memory_checked |= found.from_memory_checked
    model = writer.origin.get("model", "")
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

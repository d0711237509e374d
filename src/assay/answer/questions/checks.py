"""What a made question has to pass: its answer is in the documents, or is not, and it is new."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.answer.ground_truth.candidates import Rejection, States, quoted_in
from assay.answer.questions.kinds import MadeQuestion, QuestionKind
from assay.data.dataset import Document
from assay.search.bm25_index import Bm25Index
from assay.text import stems

_SAME = 0.75
_LOOKED_AT = 20
_AS_HIGH = 0.99


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
        """Whether a document has the new name with nearly all other words of the question."""
        _, _, name = question.changed.partition(" -> ")
        wanted = set(stems(question.text)) - set(stems("Fill the gap"))
        for doc_id, _ in self._index.search(question.text, _LOOKED_AT):
            text = self._documents[doc_id].full_text
            if name in text and wanted <= set(stems(text)):
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

"""Question candidates, and the filters that they have to pass. None of them asks a model."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from assay.data.dataset import Document, Fact
from assay.net.json import parse_json
from assay.search.bm25_index import Bm25Index
from assay.text import stems

States = Callable[[str, Fact], bool]
"""Whether a text states a fact: `assay.measure.answers.facts.states`, a layer above this one."""

FOUND_WITHIN = 20
"""The rank up to which lexical search has to find the document. Generous, because a question that
only the best search finds is worth having; below it are mostly questions about nothing."""

_DUPLICATE_OVERLAP = 0.75
_QUOTED = str.maketrans("’‘“”–—", "''\"\"--")
_THING = (
    r"(?:document|text|passage|article|excerpt|abstract|paper|authors?|study|studies|note|file)"
)
_NAMES_DOCUMENT = re.compile(
    rf"\b(?:the|this|that|these|given|provided|following|above)\s+(?:\w+\s+)?{_THING}\b"
    r"|\baccording to (?:the|this|it)\b|\bmentioned (?:above|here|in)\b",
    re.IGNORECASE,
)


class Rejection(StrEnum):
    """Why a candidate was rejected, in the order of the checks."""

    NOTHING_TO_ASK = "the document has nothing to ask about"
    REFUSED = "the model refused"
    UNREADABLE = "the reply was not the JSON that was asked for"
    FALSE_QUOTE = "a quote is not in the document"
    UNSTATED = "the answer does not state its own facts"
    NAMES_DOCUMENT = "the question names the document"
    DUPLICATE = "nearly the same question exists"
    NOT_FOUND = "search does not find the document"
    UNANSWERED = "the document alone does not answer it"
    FROM_MEMORY = "the model answers it without any document"
    NOT_REWORDED = "the paraphrase has the words of the question"
    UNPROVEN = "its answer is not in the documents"
    ANSWERED = "a document may answer it after all"
    GIVEN_AWAY = "the question states its own answer"


@dataclass(frozen=True, slots=True)
class QuestionCandidate:
    """A question about a document. `quotes` from the document support the facts, one for each."""

    document_id: str
    question: str
    answer: str
    facts: tuple[Fact, ...]
    quotes: tuple[str, ...]


def parse_candidate(reply: str, document_id: str) -> QuestionCandidate | None:
    """The candidate in a model's reply; None if that is not the JSON which was asked for."""
    try:
        fields = parse_json(reply[reply.index("{") : reply.rindex("}") + 1])
        facts = [_fact(each) for each in fields["facts"]]
        candidate = QuestionCandidate(
            document_id,
            _text(fields["question"]),
            _text(fields["answer"]),
            tuple(fact for fact, _ in facts),
            tuple(quote for _, quote in facts),
        )
    except (ValueError, KeyError, TypeError):  # also what orjson raises
        return None
    return candidate if candidate.facts else None


def _fact(fields: Any) -> tuple[Fact, str]:
    text = _text(fields["text"])
    accept = tuple(_text(each) for each in fields.get("accept") or [text])
    return Fact(text, accept), _text(fields["quote"])


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("must be a non-empty string")
    return " ".join(value.split())


class CandidateFilter:
    """Checks candidates against the documents and the questions that were accepted so far.

    Args:
        documents: all documents, by id.
        states: whether a text states a fact.
        taken: questions that exist already.
    """

    def __init__(
        self, documents: Mapping[str, Document], states: States, taken: Sequence[str] = ()
    ) -> None:
        self._documents = documents
        self._states = states
        self._index = Bm25Index(documents.values())
        self._taken = [_words(question) for question in taken]

    def rejection(self, candidate: QuestionCandidate) -> Rejection | None:
        """The first check that the candidate fails, cheap checks first; None if it passes."""
        document = self._documents[candidate.document_id]
        if not all(quoted_in(quote, document) for quote in candidate.quotes):
            return Rejection.FALSE_QUOTE
        if not self.states_all(candidate.answer, candidate):
            return Rejection.UNSTATED
        if _NAMES_DOCUMENT.search(candidate.question):
            return Rejection.NAMES_DOCUMENT
        if self.is_duplicate(candidate):
            return Rejection.DUPLICATE
        hits = self._index.search(candidate.question, FOUND_WITHIN)
        return (
            None if candidate.document_id in {doc_id for doc_id, _ in hits} else Rejection.NOT_FOUND
        )

    def accept(self, candidate: QuestionCandidate) -> None:
        """Record the question, so that later similar ones are duplicates."""
        self._taken.append(_words(candidate.question))

    def states_all(self, answer: str, candidate: QuestionCandidate) -> bool:
        """Whether the answer states all facts of the candidate."""
        return all(self._states(answer, fact) for fact in candidate.facts)

    def is_duplicate(self, candidate: QuestionCandidate) -> bool:
        """Whether nearly the same question was accepted already."""
        words = _words(candidate.question)
        return any(len(words & old) >= _DUPLICATE_OVERLAP * len(words | old) for old in self._taken)


def documents_with_quotes(
    candidate: QuestionCandidate, documents: Mapping[str, Document]
) -> list[str]:
    """The candidate's document, and any other that contains all its quotes.

    Copies exist, and a system that finds one is right.
    """
    copies = [
        each.id
        for each in documents.values()
        if each.id != candidate.document_id
        and all(quoted_in(quote, each) for quote in candidate.quotes)
    ]
    return [candidate.document_id, *copies]


def _words(text: str) -> frozenset[str]:
    return frozenset(stems(text))


def quoted_in(quote: str, document: Document) -> bool:
    """Word for word: only white space, case and the style of quotation marks may differ."""
    return _plain(quote) in _plain(f"{document.title}\n{document.text}")


def _plain(text: str) -> str:
    return " ".join(text.translate(_QUOTED).casefold().split())

"""What a draft must withstand before anybody is asked about it: rules that cost nothing."""

import re
from collections.abc import Callable, Mapping, Sequence

from assay.answer.ground_truth.questions.draft import Draft, Drop
from assay.data.dataset import Document, Fact
from assay.search.bm25 import Bm25Index
from assay.text import stems

States = Callable[[str, Fact], bool]
"""Whether a text states a fact: `assay.measure.answers.facts.states`, a layer above this one."""

FOUND_WITHIN = 20
"""How far down a search by words may find the document. Generous, since a question that only the
best search finds is worth having; what is not even here is mostly a question about nothing."""

_ALIKE = 0.75
_QUOTED = str.maketrans("’‘“”–—", "''\"\"--")
_THING = (
    r"(?:document|text|passage|article|excerpt|abstract|paper|authors?|study|studies|note|file)"
)
_NAMES_DOCUMENT = re.compile(
    rf"\b(?:the|this|that|these|given|provided|following|above)\s+(?:\w+\s+)?{_THING}\b"
    r"|\baccording to (?:the|this|it)\b|\bmentioned (?:above|here|in)\b",
    re.IGNORECASE,
)


class Sieve:
    """Knows all documents and every question that was let through so far."""

    def __init__(
        self, documents: Mapping[str, Document], states: States, taken: Sequence[str] = ()
    ) -> None:
        self._documents = documents
        self._states = states
        self._index = Bm25Index(documents.values())
        self._taken = [_words(question) for question in taken]

    def flaw(self, draft: Draft) -> Drop | None:
        """The first rule that the draft breaks; the dear ones come after the cheap ones."""
        document = self._documents[draft.document_id]
        if not all(_stands_in(quote, document) for quote in draft.quotes):
            return Drop.FALSE_QUOTE
        if not self.states_all(draft.answer, draft):
            return Drop.UNSTATED
        if _NAMES_DOCUMENT.search(draft.question):
            return Drop.NAMES_DOCUMENT
        if self.is_taken(draft):
            return Drop.DUPLICATE
        hits = self._index.search(draft.question, FOUND_WITHIN)
        return None if draft.document_id in {doc_id for doc_id, _ in hits} else Drop.NOT_FOUND

    def take(self, draft: Draft) -> None:
        self._taken.append(_words(draft.question))

    def states_all(self, answer: str, draft: Draft) -> bool:
        return all(self._states(answer, fact) for fact in draft.facts)

    def is_taken(self, draft: Draft) -> bool:
        words = _words(draft.question)
        return any(len(words & old) >= _ALIKE * len(words | old) for old in self._taken)


def holders(draft: Draft, documents: Mapping[str, Document]) -> list[str]:
    """The document itself, and any other that holds all the quotes word for word: copies exist, and
    a system that finds one is right.
    """
    copies = [
        each.id
        for each in documents.values()
        if each.id != draft.document_id and all(_stands_in(quote, each) for quote in draft.quotes)
    ]
    return [draft.document_id, *copies]


def _words(text: str) -> frozenset[str]:
    return frozenset(stems(text))


def _stands_in(quote: str, document: Document) -> bool:
    """Word for word: only white space, case and the make of quotation marks may differ."""
    return _plain(quote) in _plain(f"{document.title}\n{document.text}")


def _plain(text: str) -> str:
    return " ".join(text.translate(_QUOTED).casefold().split())

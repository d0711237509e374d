"""Documents and answers as pages show them: grades, titles, texts, citations, what was lost."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from assay.data.dataset import Dataset, Document
from assay.metrics.figures import CRITERION_PREFIX
from assay.run.models import AnswerRow
from assay.text import is_stop, stem, words

EXCERPT = 200
"""Characters of a document in a file; on the server, panels show whole texts."""

MAX_ANSWER = 4000
"""Characters of an answer: nobody reads more, and an agent may send a book."""

RIGHT, WRONG, UNDECIDED = "right", "wrong", "not decided"


class Mark(NamedTuple):
    """The grade of a document or what is wrong with its id; `tone` is the CSS class."""

    text: str
    tone: str
    meaning: str


@dataclass(frozen=True, slots=True)
class JudgedDocuments:
    """Grades, titles and texts from the data set; without a data set there are only ids."""

    top_k: int
    split: str
    dataset: Dataset | None
    excerpt: int | None = EXCERPT

    def grades(self, query_id: str) -> Mapping[str, int]:
        """The judgments of a query, as far as they are known."""
        if self.dataset is None or self.split not in self.dataset.judgments:
            return {}
        return self.dataset.judgments[self.split].get(query_id, {})

    def relevant(self, query_id: str) -> list[str]:
        """The relevant documents of a query, best first."""
        grades = self.grades(query_id)
        return sorted((d for d, grade in grades.items() if grade > 0), key=lambda d: -grades[d])

    def tags(self, query_id: str) -> Sequence[str]:
        """The tags that the data set gives a query."""
        query = self.dataset.queries.get(query_id) if self.dataset else None
        return query.tags if query else ()

    def title(self, doc_id: str) -> str:
        """The title of a document, or the start of its text; empty if neither is known."""
        document = self._document(doc_id)
        return (document.title or " ".join(document.text[:60].split())) if document else ""

    def text(self, doc_id: str) -> str:
        """The text of a document, cut to an excerpt in a file."""
        document = self._document(doc_id)
        text = document.text if document else ""
        is_whole = self.excerpt is None or len(text) <= self.excerpt
        return text if is_whole else f"{text[: self.excerpt]}…"

    def _document(self, doc_id: str) -> Document | None:
        return self.dataset.documents.get(doc_id) if self.dataset else None

    def exists(self, doc_id: str) -> bool:
        """Whether the data set has a document of this id; True if nobody knows."""
        known = None if self.dataset is None else self.dataset.corpus_ids
        return known is None or doc_id in known

    def mark(self, query_id: str, doc_id: str, before: Sequence[str] = ()) -> Mark:
        """The grade of a document that comes after others in a ranking."""
        if self.dataset is None:
            return Mark("", "unjudged", "")
        if doc_id in before:
            return Mark("×2", "fault", "duplicate: scores nothing")
        if not self.exists(doc_id):
            return Mark("?", "fault", "no document has this id")
        if len(before) >= self.top_k:
            return Mark("+", "fault", "beyond top_k: scores nothing")
        grade = self.grades(query_id).get(doc_id)
        if grade is None:
            return Mark("–", "unjudged", "not judged for this query")
        tone = "irrelevant" if grade <= 0 else "relevant" if grade == 1 else "highly"
        return Mark(str(grade), tone, f"grade {grade}")

    def lost(
        self, query_id: str, query: str, before: Sequence[str], after: Sequence[str]
    ) -> list[tuple[str, int, list[str]]]:
        """Relevant documents that one ranking has and another has not.

        Each with the rank that it had and the words of the query that it contains.
        """
        grades, kept = self.grades(query_id), set(after[: self.top_k])
        return [
            (doc_id, rank, self.matched(query, doc_id))
            for rank, doc_id in enumerate(before[: self.top_k], start=1)
            if grades.get(doc_id, 0) > 0 and doc_id not in kept
        ]

    def matched(self, query: str, doc_id: str) -> list[str]:
        """The words of a query that a document has, by their stems."""
        document = self._document(doc_id)
        if document is None:
            return []
        has = {stem(word) for word in words(f"{document.title} {document.text}")}
        asked = dict.fromkeys(word for word in words(query) if not is_stop(word))
        return [word for word in asked if stem(word) in has]

    def facts(self, row: AnswerRow) -> list[tuple[str, bool | None]]:
        """The key facts of an answer, and whether it states each; None if nobody knows."""
        from assay.answers.outcome import stated_facts  # only pages of answers need it

        reference = self.dataset.answers.get(row.query_id) if self.dataset else None
        facts = reference.facts if reference else ()
        stated = {fact.text for fact in stated_facts(row.answer or "", facts)}
        known = {fact.text for fact in facts}
        return [(text, text in stated if text in known else None) for text in row.facts]


# Text in brackets on one line; markdown and code have many that cite nothing.
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\]")
_SEPARATOR = re.compile(r"(\s?[,;]\s?)")


def split_citations(row: AnswerRow) -> list[tuple[str, str]]:
    """The text of an answer in parts, each with the document that it cites; empty if none.

    A mark in brackets that names no document of the citations or of the ranking stays plain text.
    """
    answer = (row.answer or "")[:MAX_ANSWER]
    ids = {doc_id: doc_id for doc_id in (*row.retrieved_docs, *row.citations)}
    known = {**_numbered(answer, row.citations, row.retrieved_docs), **ids}
    pieces: list[tuple[str, str]] = []
    end = 0
    for found in _BRACKETS.finditer(answer):
        parts = _SEPARATOR.split(found[1])
        if not all(part.strip() in known for part in parts[::2]):
            continue
        pieces.append((f"{answer[end : found.start()]}[", ""))
        pieces += [(part, known.get(part.strip(), "")) for part in parts]
        pieces.append(("]", ""))
        end = found.end()
    return [piece for piece in (*pieces, (answer[end:], "")) if piece[0]]


def _numbered(answer: str, citations: Sequence[str], retrieved: Sequence[str]) -> dict[str, str]:
    """Agents number either what they retrieved or what they cite.

    The first reading is taken only if every number then names a document that is cited.
    """
    used = {
        int(part)
        for found in _BRACKETS.finditer(answer)
        for part in map(str.strip, _SEPARATOR.split(found[1])[::2])
        if part.isdecimal()
    }
    for documents in (retrieved, citations):
        places = dict(enumerate(documents, start=1))
        if all(places.get(number) in citations for number in used):
            return {str(number): places[number] for number in used}
    return {}


def anchor(query_id: str) -> str:
    """An id as part of the address of a place on the page."""
    return re.sub(r"[^\w-]", lambda found: f".{ord(found[0]):x}", query_id)


def verdict_word(row: AnswerRow) -> str:
    """`right`, `wrong` or `not decided`."""
    return UNDECIDED if row.correct is None else RIGHT if row.correct else WRONG


def kind_of(row: AnswerRow) -> str:
    """What failed, else the verdict."""
    return row.diagnosis.failure if row.diagnosis else verdict_word(row)


def ratings(row: AnswerRow) -> list[tuple[str, float, str]]:
    """How an answer was rated by criteria of the user's own: name, value, reason."""
    return [
        (name.removeprefix(CRITERION_PREFIX), value or 0.0, row.reasons.get(name, ""))
        for name, value in row.scores.items()
        if name.startswith(CRITERION_PREFIX)
    ]

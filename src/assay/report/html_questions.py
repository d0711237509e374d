"""View models of a question and its answer: citations, documents, key facts, verdict."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote

from assay.data.dataset import Dataset
from assay.measure.answers.lexical import states
from assay.report.html_queries import LISTED, QueryPainter, Remark, ShownDocument

# Whatever stands between brackets on one line; markdown and code have many that cite nothing.
_BRACKETS = re.compile(r"\[([^\[\]\n]{1,200})\]")
_SEPARATOR = re.compile(r"(\s?[,;]\s?)")


@dataclass(frozen=True, slots=True)
class Piece:
    """`doc_id` is the document that this part of the text cites; empty for words."""

    words: str
    doc_id: str = ""


def cited_pieces(
    answer: str, citations: Sequence[str], retrieved: Sequence[str]
) -> tuple[Piece, ...]:
    """The whole text in order. A mark that names no document known here stays plain words."""
    known = _known(answer, citations, retrieved)
    pieces: list[Piece] = []
    end = 0
    for found in _BRACKETS.finditer(answer):
        parts = _SEPARATOR.split(found[1])
        if not all(part.strip() in known for part in parts[::2]):
            continue
        pieces.append(Piece(answer[end : found.start()] + "["))
        pieces += [Piece(part, known.get(part.strip(), "")) for part in parts]
        pieces.append(Piece("]"))
        end = found.end()
    return tuple(piece for piece in (*pieces, Piece(answer[end:])) if piece.words)


def _known(answer: str, citations: Sequence[str], retrieved: Sequence[str]) -> Mapping[str, str]:
    """What a mark can be, and the document that it stands for."""
    ids = {doc_id: doc_id for doc_id in (*retrieved, *citations)}
    return {**_numbers(answer, citations, retrieved), **ids}


def _numbers(answer: str, citations: Sequence[str], retrieved: Sequence[str]) -> Mapping[str, str]:
    """Agents count either what they retrieved or what they cite. The first is believed only where
    every number then stands for a document that is cited.
    """
    used = {
        int(part)
        for found in _BRACKETS.finditer(answer)
        for part in map(str.strip, _SEPARATOR.split(found[1])[::2])
        if part.isdecimal()
    }
    for documents, wanted in ((retrieved, set(citations)), (citations, set(citations))):
        places = dict(enumerate(documents, start=1))
        if all(places.get(number) in wanted for number in used):
            return {str(number): places[number] for number in used}
    return {}


_CITED = Remark("cited")
_NEEDED = Remark("needed", "good")
_RETRIEVED = Remark("retrieved", "good")
_MISSED = Remark("not retrieved", "bad")
_INVENTED = Remark("does not exist", "bad")


@dataclass(frozen=True)
class QuestionDocuments:
    """`anchor` begins the address of each document on the page; ids are those of documents."""

    painter: QueryPainter
    query_id: str
    anchor: str
    retrieved: Sequence[str]
    cited: Sequence[str]
    needed: Sequence[str]

    def shown_retrieved(self) -> list[ShownDocument]:
        shown = self.painter.retrieved(self.query_id, self.retrieved)
        first = [each.doc_id not in self.retrieved[:place] for place, each in enumerate(shown)]
        return [
            replace(each, anchor=self._anchor(each.doc_id), remarks=self._uses(each.doc_id))
            if is_first
            else each
            for each, is_first in zip(shown, first, strict=True)
        ]

    def shown_needed(self) -> list[ShownDocument]:
        had = set(self.retrieved)
        return [
            replace(each, remarks=(_RETRIEVED if each.doc_id in had else _MISSED,))
            for each in self.painter.documents(self.query_id, self.needed)
        ]

    def shown_others(self) -> list[ShownDocument]:
        """What is cited and does not stand in the list of what was retrieved."""
        return [
            replace(
                each,
                anchor=self._anchor(each.doc_id),
                remarks=(_INVENTED,) if self.invented(each.doc_id) else (),
            )
            for each in self.painter.documents(self.query_id, self._others)
        ]

    def invented(self, doc_id: str) -> bool:
        """Cannot be told without the data set."""
        dataset = self.painter.dataset
        return dataset is not None and doc_id not in dataset.documents

    def href(self, doc_id: str) -> str:
        """Empty where the document is not on the page."""
        return f"#{self._anchor(doc_id)}" if doc_id in self._places else ""

    @cached_property
    def _others(self) -> list[str]:
        listed = set(self.retrieved[:LISTED])
        return [each for each in dict.fromkeys(self.cited) if each not in listed]

    @cached_property
    def _places(self) -> dict[str, int]:
        listed = dict.fromkeys((*self.retrieved[:LISTED], *self._others[:LISTED]))
        return {doc_id: place for place, doc_id in enumerate(listed, start=1)}

    def _anchor(self, doc_id: str) -> str:
        return f"{self.anchor}-{self._places[doc_id]}"

    def _uses(self, doc_id: str) -> tuple[Remark, ...]:
        uses = ((_NEEDED, self.needed), (_CITED, self.cited))
        return tuple(remark for remark, ids in uses if doc_id in ids)


RIGHT, WRONG, UNDECIDED = "right", "wrong", "not decided"
TRIED = {
    "gold": "the right documents alone",
    "no_context": "no document",
    "distractors": "the right documents among misleading ones",
}
_TONES = {RIGHT: "good", WRONG: "bad", UNDECIDED: "plain"}
_LONGEST = 4000
"""Characters of an answer: nobody reads more, and an agent may send a book."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ShownFact:
    """`stated` is None where the accepted wordings are not at hand."""

    text: str
    stated: bool | None


@dataclass(frozen=True, slots=True)
class Citation:
    """`href` leads to the document on the same page; `invented` means that there is none."""

    doc_id: str
    href: str
    invented: bool


@dataclass(frozen=True, slots=True)
class ShownQuestion:
    """`others` are documents that were cited and not retrieved; `tried` the other contexts."""

    query_id: str
    anchor: str
    text: str
    verdict: str
    tone: str
    diagnosis: Mapping[str, Any] | None
    answer: Sequence[tuple[Piece, str]]
    cut: int
    answered: bool
    answerable: bool
    reference: str
    facts: Sequence[ShownFact]
    citations: Sequence[Citation]
    retrieved: Sequence[ShownDocument]
    more_retrieved: int
    needed: Sequence[ShownDocument]
    more_needed: int
    others: Sequence[ShownDocument]
    votes: Sequence[str]
    tried: Sequence[tuple[str, bool]]
    tags: Sequence[str]


@dataclass(frozen=True, slots=True)
class QuestionPainter:
    """Without a data set there are ids alone. `place` begins every address on the page."""

    top_k: int
    split: str
    dataset: Dataset | None
    place: str = "question"

    def paint(self, row: Row) -> ShownQuestion:
        documents = self._documents(row)
        answer, verdict = str(row["answer"] or ""), verdict_of(row)
        query = self.dataset.queries.get(documents.query_id) if self.dataset else None
        pieces = cited_pieces(answer[:_LONGEST], documents.cited, documents.retrieved)
        tried = row.get("counterfactuals", {})
        return ShownQuestion(
            query_id=documents.query_id,
            anchor=documents.anchor,
            text=str(row["query_text"]),
            verdict=verdict,
            tone=_TONES[verdict],
            diagnosis=row.get("diagnosis"),
            answer=[(piece, documents.href(piece.doc_id)) for piece in pieces],
            cut=max(0, len(answer) - _LONGEST),
            answered=row["answer"] is not None,
            answerable=bool(row["answerable"]),
            reference=str(row["reference_answer"] or ""),
            facts=self._facts(documents.query_id, row),
            citations=[
                Citation(each, documents.href(each), documents.invented(each))
                for each in dict.fromkeys(documents.cited)
            ],
            retrieved=documents.shown_retrieved(),
            more_retrieved=max(0, len(documents.retrieved) - LISTED),
            needed=documents.shown_needed(),
            more_needed=max(0, len(documents.needed) - LISTED),
            others=documents.shown_others(),
            votes=row.get("votes", ()),
            tried=[(words, tried[name]) for name, words in TRIED.items() if name in tried],
            tags=query.tags if query else (),
        )

    def _documents(self, row: Row) -> QuestionDocuments:
        query_id = str(row["query_id"])
        columns = ("retrieved_docs", "citations", "needed_docs")
        return QuestionDocuments(
            QueryPainter("", self.top_k, self.split, self.dataset),
            query_id,
            f"{self.place}-{quote(query_id, safe='')}",
            *([str(doc_id) for doc_id in row[column]] for column in columns),
        )

    def _facts(self, query_id: str, row: Row) -> list[ShownFact]:
        """The row has their texts. How they may be worded stands in the data set, where that still
        has the same facts.
        """
        reference = self.dataset.answers.get(query_id) if self.dataset else None
        known = {fact.text: fact for fact in reference.facts} if reference else {}
        answer = str(row["answer"] or "")
        return [
            ShownFact(text, states(answer, known[text]) if text in known else None)
            for text in map(str, row["facts"])
        ]


def verdict_of(row: Row) -> str:
    correct = row.get("correct")
    return UNDECIDED if correct is None else RIGHT if correct else WRONG

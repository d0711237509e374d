"""One question and its answer as the report shows them, with the evidence for the verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from assay.data.dataset import Dataset
from assay.measure.answers.lexical import states
from assay.report.cited_text import Piece, cited_pieces
from assay.report.html_queries import LISTED, QueryPainter, ShownDocument
from assay.report.question_documents import QuestionDocuments

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

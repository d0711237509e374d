"""One query as the report shows it: what was retrieved beside what would have been ideal."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assay.data.dataset import Dataset, Document
from assay.measure.violations import KINDS, Kind

LISTED = 10
"""Documents shown of each list: beyond that, neither people nor most metrics look."""

_EXCERPT = 700

WORDS: Mapping[Kind, str] = {
    "duplicate": "repeated",
    "unknown": "unknown id",
    "surplus": "beyond top_k",
}


@dataclass(frozen=True, slots=True)
class Remark:
    """A word beside a document, in the class that colours it."""

    words: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class ShownDocument:
    """`mark` is the grade, or what is wrong with the id; `tone` the class that colours it.

    `anchor` is what links lead to, where something on the page refers to the document.
    """

    doc_id: str
    title: str
    text: str
    mark: str
    tone: str
    meaning: str
    also_retrieved: bool = False
    remarks: tuple[Remark, ...] = ()
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class ShownQuery:
    query_id: str
    text: str
    score: float
    failure: str
    message: str
    found: int
    relevant: int
    latency_ms: float | None
    tags: Sequence[str]
    retrieved: Sequence[ShownDocument]
    more_retrieved: int
    ideal: Sequence[ShownDocument]
    more_ideal: int


@dataclass(frozen=True, slots=True)
class QueryPainter:
    """Without a data set there are no grades and no texts, and only ids are shown."""

    key: str
    top_k: int
    split: str
    dataset: Dataset | None

    def paint(self, row: Mapping[str, Any]) -> ShownQuery:
        query_id = str(row["query_id"])
        grades = self._grades(query_id)
        retrieved = [str(doc_id) for doc_id in row["retrieved_docs"]]
        ideal = sorted(
            (doc_id for doc_id, grade in grades.items() if grade > 0),
            key=lambda doc_id: -grades[doc_id],
        )
        query = self.dataset.queries.get(query_id) if self.dataset else None
        return ShownQuery(
            query_id=query_id,
            text=str(row["query_text"]),
            score=float(row[self.key]),
            failure=str(row.get("failure", "")),
            message=str(row.get("message", "")),
            found=int(row["relevant_docs_retrieved"]),
            relevant=int(row["total_relevant_docs"]),
            latency_ms=row.get("latency_ms"),
            tags=query.tags if query else (),
            retrieved=self._retrieved(retrieved, grades),
            more_retrieved=max(0, len(retrieved) - LISTED),
            ideal=self._ideal(ideal, grades, set(retrieved[: self.top_k])),
            more_ideal=max(0, len(ideal) - LISTED),
        )

    def _retrieved(self, ids: Sequence[str], grades: Mapping[str, int]) -> list[ShownDocument]:
        listed = ids[:LISTED]
        return [
            self._document(doc_id, *self._judged(doc_id, grades, listed[:place]))
            for place, doc_id in enumerate(listed)
        ]

    def documents(self, query_id: str, ids: Sequence[str]) -> list[ShownDocument]:
        """Each with its grade, as if it stood alone: for lists that are no ranking."""
        grades = self._grades(query_id)
        return [self._document(each, *self._judged(each, grades, ())) for each in ids[:LISTED]]

    def retrieved(self, query_id: str, ids: Sequence[str]) -> list[ShownDocument]:
        return self._retrieved(ids, self._grades(query_id))

    def _ideal(
        self, ids: Sequence[str], grades: Mapping[str, int], retrieved: Collection[str]
    ) -> list[ShownDocument]:
        return [
            replace(
                self._document(doc_id, *_graded(grades[doc_id])),
                also_retrieved=doc_id in retrieved,
            )
            for doc_id in ids[:LISTED]
        ]

    def _document(self, doc_id: str, mark: str, tone: str, meaning: str) -> ShownDocument:
        document = self.dataset.documents.get(doc_id) if self.dataset else None
        title, text = _words(document)
        return ShownDocument(doc_id, title, text, mark, tone, meaning)

    def _judged(
        self, doc_id: str, grades: Mapping[str, int], before: Sequence[str]
    ) -> tuple[str, str, str]:
        if self.dataset is None:
            return "", "unjudged", ""
        if doc_id in before:
            return "×2", "fault", "named before: earns nothing"
        if doc_id not in self.dataset.documents:
            return "?", "fault", "no document has this id"
        if len(before) >= self.top_k:
            return "+", "fault", "beyond top_k: earns nothing"
        if doc_id not in grades:
            return "–", "unjudged", "nobody judged this document for this query"
        return _graded(grades[doc_id])

    def _grades(self, query_id: str) -> Mapping[str, int]:
        if self.dataset is None or self.split not in self.dataset.judgments:
            return {}
        return self.dataset.judgments[self.split].get(query_id, {})


def violation_lines(violations: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The kinds that occurred, with words for them."""
    return [
        {"words": WORDS[kind], **violations[kind]}
        for kind in KINDS
        if kind in violations and violations[kind]["ids"]
    ]


def _graded(grade: int) -> tuple[str, str, str]:
    tone = "irrelevant" if grade <= 0 else "relevant" if grade == 1 else "highly"
    return str(grade), tone, f"grade {grade}"


def _words(document: Document | None) -> tuple[str, str]:
    if document is None:
        return "", ""
    text = document.text if len(document.text) <= _EXCERPT else document.text[:_EXCERPT] + "…"
    return document.title, text

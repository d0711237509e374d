"""View models of a query: what was retrieved beside what would have been ideal."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.data.dataset import Dataset, Document
from assay.measure.metrics import Metric
from assay.measure.violations import KINDS, Kind
from assay.run.calls import with_quote
from assay.run.config import RunConfig
from assay.run.models import QueryRow, ViolationCount, ViolationExample

LISTED = 10
"""Documents shown of each list: beyond that, neither people nor most metrics look."""

_EXCERPT = 700

_VIOLATION_LABELS: Mapping[Kind, str] = {
    "duplicate": "repeated",
    "unknown": "unknown id",
    "surplus": "beyond top_k",
}


@dataclass(frozen=True, slots=True)
class Remark:
    """A word beside a document; `tone` is the CSS class that colors it."""

    words: str
    tone: str = "plain"


@dataclass(frozen=True, slots=True)
class DocumentView:
    """One document of a list.

    `mark` is the grade, or what is wrong with the id, `tone` the CSS class that colors it and
    `meaning` what it says in words. `anchor` is set where something on the page links here.
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
class QueryView:
    """A query with its score, its ranking and the ideal one; `latency_ms` is None if untimed."""

    query_id: str
    text: str
    score: float
    failure: str
    message: str
    found: int
    relevant: int
    latency_ms: float | None
    tags: Sequence[str]
    retrieved: Sequence[DocumentView]
    more_retrieved: int
    ideal: Sequence[DocumentView]
    more_ideal: int


@dataclass(frozen=True, slots=True)
class ViolationLine:
    """One kind of rule violation that occurred, with the first examples."""

    label: str
    ids: int
    queries: int
    examples: Sequence[ViolationExample]
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class JudgedDocuments:
    """Makes views of documents, with grades, titles and texts from the data set.

    Without a data set only ids are shown.
    """

    top_k: int
    split: str
    dataset: Dataset | None

    @classmethod
    def of(cls, config: RunConfig, dataset: Dataset | None) -> "JudgedDocuments":
        """For the rankings of a run with these settings."""
        return cls(config.top_k, config.split, dataset)

    def ranking(self, query_id: str, ids: Sequence[str]) -> list[DocumentView]:
        """The first documents of a ranking: repeated and surplus ones are marked."""
        grades, listed = self.grades(query_id), ids[:LISTED]
        return [
            self._document(doc_id, *self._judged(doc_id, grades, listed[:place]))
            for place, doc_id in enumerate(listed)
        ]

    def documents(self, query_id: str, ids: Sequence[str]) -> list[DocumentView]:
        """Each with its grade, regardless of position: for lists that are not rankings."""
        grades = self.grades(query_id)
        return [self._document(each, *self._judged(each, grades, ())) for each in ids[:LISTED]]

    def ideal(self, query_id: str, retrieved: Collection[str]) -> tuple[list[DocumentView], int]:
        """The best documents for a query, best first, and how many relevant ones there are."""
        grades = self.grades(query_id)
        relevant = sorted(
            (doc_id for doc_id, grade in grades.items() if grade > 0),
            key=lambda doc_id: -grades[doc_id],
        )
        views = [
            replace(
                self._document(doc_id, *_graded(grades[doc_id])),
                also_retrieved=doc_id in retrieved,
            )
            for doc_id in relevant[:LISTED]
        ]
        return views, len(relevant)

    def grades(self, query_id: str) -> Mapping[str, int]:
        """The judgments of a query, as far as they are known."""
        if self.dataset is None or self.split not in self.dataset.judgments:
            return {}
        return self.dataset.judgments[self.split].get(query_id, {})

    def tags(self, query_id: str) -> Sequence[str]:
        """The tags that the data set gives a query."""
        query = self.dataset.queries.get(query_id) if self.dataset else None
        return query.tags if query else ()

    def _document(self, doc_id: str, mark: str, tone: str, meaning: str) -> DocumentView:
        document = self.dataset.documents.get(doc_id) if self.dataset else None
        title, text = _excerpt(document)
        return DocumentView(doc_id, title, text, mark, tone, meaning)

    def _judged(
        self, doc_id: str, grades: Mapping[str, int], before: Sequence[str]
    ) -> tuple[str, str, str]:
        if self.dataset is None:
            return "", "unjudged", ""
        if doc_id in before:
            return "×2", "fault", "duplicate: scores nothing"
        if (known := self.dataset.corpus_ids) is not None and doc_id not in known:
            return "?", "fault", "no document has this id"
        if len(before) >= self.top_k:
            return "+", "fault", "beyond top_k: scores nothing"
        if doc_id not in grades:
            return "–", "unjudged", "not judged for this query"
        return _graded(grades[doc_id])


def query_view(row: QueryRow, metric: Metric, judged: JudgedDocuments) -> QueryView:
    """A row of the report as pages show it; its score is the one in `metric`."""
    ideal, relevant = judged.ideal(row.query_id, set(row.retrieved_docs[: judged.top_k]))
    return QueryView(
        query_id=row.query_id,
        text=row.query_text,
        score=row.score(metric),
        failure=row.failure,
        message=with_quote(row.message, row.said),
        found=row.relevant_docs_retrieved,
        relevant=row.total_relevant_docs,
        latency_ms=timed_latency(row),
        tags=judged.tags(row.query_id),
        retrieved=judged.ranking(row.query_id, row.retrieved_docs),
        more_retrieved=max(0, len(row.retrieved_docs) - LISTED),
        ideal=ideal,
        more_ideal=max(0, relevant - LISTED),
    )


def timed_latency(row: QueryRow) -> float | None:
    """Milliseconds of the last attempt; None for a query that was never sent."""
    return row.latency_ms if "latency_ms" in row.model_fields_set else None


def violation_lines(violations: Mapping[Kind, ViolationCount]) -> list[ViolationLine]:
    """The kinds of violations that occurred."""
    found = [(kind, violations[kind]) for kind in KINDS if kind in violations]
    return [
        ViolationLine(_VIOLATION_LABELS[kind], each.ids, each.queries, each.examples, each.hint)
        for kind, each in found
        if each.ids
    ]


def _graded(grade: int) -> tuple[str, str, str]:
    tone = "irrelevant" if grade <= 0 else "relevant" if grade == 1 else "highly"
    return str(grade), tone, f"grade {grade}"


def _excerpt(document: Document | None) -> tuple[str, str]:
    if document is None:
        return "", ""
    text = document.text if len(document.text) <= _EXCERPT else document.text[:_EXCERPT] + "…"
    return document.title, text

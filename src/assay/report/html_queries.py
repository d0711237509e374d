"""View models of queries: each with what was retrieved beside what would have been ideal, and in
slices by length, form, tags and relevant documents.

Which slice a query falls in depends on the query and its judgments alone, so two runs can be
compared slice by slice: see `assay.report.changes`.
"""

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.data.dataset import Dataset, Document
from assay.metrics.metric import Metric
from assay.metrics.statistics import student_t
from assay.metrics.violations import KINDS, Kind
from assay.run.calls import with_quote
from assay.run.config import RunConfig
from assay.run.models import QueryRow, ViolationCount

LISTED = 10
"""Documents shown of each list: beyond that, neither people nor most metrics look."""

_EXCERPT = 700
WORDS, RELEVANT, FORM, TAG = (
    "Words in the query",
    "Relevant documents",
    "Form of the query",
    "Tag of the query",
)
RETRIEVED, FAILURE, DOC_TYPE = OUTCOMES = (
    "Relevant documents retrieved",
    "Kind of failure",
    "Type of the first document",
)
"""Slices of what became of a query in one run."""
_TAGS = 14
_WORD_STEPS = (1, 2, 3, 5, 8, 12)
_RELEVANT_STEPS = (1, 2, 4, 8, 16, 32, 64)
_FORMS = ("one word", "phrase", "question")
_QUESTION = re.compile(
    r"\?\s*$|^(how|what|which|who|whose|when|where|why|is|are|was|were|do|does|did|can|could|should|"
    r"will|would|has|have)\b",
    re.IGNORECASE,
)

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


def violation_lines(
    violations: Mapping[Kind, ViolationCount],
) -> list[tuple[str, ViolationCount]]:
    """The kinds of violations that occurred, each with what it is called."""
    found = [(_VIOLATION_LABELS[kind], violations[kind]) for kind in KINDS if kind in violations]
    return [(label, count) for label, count in found if count.ids]


def _graded(grade: int) -> tuple[str, str, str]:
    tone = "irrelevant" if grade <= 0 else "relevant" if grade == 1 else "highly"
    return str(grade), tone, f"grade {grade}"


def _excerpt(document: Document | None) -> tuple[str, str]:
    if document is None:
        return "", ""
    text = document.text if len(document.text) <= _EXCERPT else document.text[:_EXCERPT] + "…"
    return document.title, text


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Queries that have something in common, and their mean score with its 95% interval."""

    name: str
    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(slots=True)
class RunningMean:
    """Count, mean and squared deviations of scores, updated one at a time (Welford 1962)."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, score: float) -> None:
        """Take one more score into account."""
        self.n += 1
        before = score - self.mean
        self.mean += before / self.n
        self.squares += before * (score - self.mean)

    def group(self, name: str) -> QueryGroup:
        """The mean with the interval of the t distribution: a bootstrap of each would be slow."""
        if self.n < 2:
            return QueryGroup(name, self.n, self.mean, None, None)
        deviation = math.sqrt(max(0.0, self.squares) / (self.n - 1))
        half = student_t(self.n - 1, 0.025) * deviation / math.sqrt(self.n)
        low, high = max(0.0, self.mean - half), min(1.0, self.mean + half)
        return QueryGroup(name, self.n, self.mean, low, high)


class QueryGroups:
    """Collects scores by slice, one query at a time."""

    def __init__(self) -> None:
        self._means: dict[str, dict[str, RunningMean]] = defaultdict(
            lambda: defaultdict(RunningMean)
        )

    def add(self, row: QueryRow, score: float, tags: Iterable[str] = ()) -> None:
        """Take the score of one more query into account."""
        for title, name in slices_of(row, tags):
            if title != FAILURE:  # these have a table of their own, and score 0
                self._means[title][name].add(score)

    def by_title(self) -> dict[str, list[QueryGroup]]:
        """The groups under their titles.

        A title with one group is left out: that group is the headline again.
        """
        sizes = {
            title: {name: m.n for name, m in each.items()} for title, each in self._means.items()
        }
        return {
            title: [self._means[title][name].group(name) for name in names]
            for title, names in ordered_slices(sizes).items()
            if len(names) > 1
        }


def slice_key(title: str, name: str) -> str:
    """What names a slice in an address."""
    return f"{title}: {name}"


def slices_of(row: QueryRow, tags: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """The slices that a query belongs to, those of OUTCOMES among them: title and name of each."""
    yield WORDS, _step_name(len(row.query_text.split()), _WORD_STEPS)
    yield RELEVANT, _step_name(row.total_relevant_docs, _RELEVANT_STEPS)
    yield FORM, form_of(row.query_text)
    for tag in tags:
        yield TAG, tag
    if row.failure:
        yield FAILURE, row.failure
    elif row.total_relevant_docs:
        some = "all" if row.relevant_docs_retrieved >= row.total_relevant_docs else "some"
        yield RETRIEVED, some if row.relevant_docs_retrieved else "nothing"
    if row.doc_types:
        yield DOC_TYPE, row.doc_types[0]


def ordered_slices(sizes: Mapping[str, Mapping[str, int]]) -> dict[str, list[str]]:
    """The names under each title, in the order to show them; of tags the most frequent ones."""
    steps = {
        WORDS: [_step_name(start, _WORD_STEPS) for start in _WORD_STEPS],
        RELEVANT: [_step_name(start, _RELEVANT_STEPS) for start in _RELEVANT_STEPS],
        FORM: list(_FORMS),
        RETRIEVED: ["nothing", "some", "all"],
    }
    found = {}
    for title in (WORDS, RELEVANT, FORM, TAG, *OUTCOMES):
        known = sizes.get(title, {})
        frequent = sorted(known, key=lambda name: (-known[name], name))[:_TAGS]
        found[title] = [name for name in steps.get(title, frequent) if name in known]
    return found


def form_of(query: str) -> str:
    """`one word`, `phrase` or `question`."""
    if _QUESTION.search(query.strip()):
        return "question"
    return "one word" if len(query.split()) <= 1 else "phrase"


def _step_name(value: int, steps: Sequence[int]) -> str:
    """The step that a value falls in, `3 to 4`; the last step has no end."""
    place = bisect_right(steps, value)
    if place == 0:
        return f"below {steps[0]}"
    start = steps[place - 1]
    if place == len(steps):
        return f"{start} or more"
    return str(start) if steps[place] == start + 1 else f"{start} to {steps[place] - 1}"

"""A pool of passages that a model or people grade: how it is chosen, its table, and agreement.

A table with an empty column `label` is what people fill in.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from assay.data.dataset import Dataset, Document, Judgments
from assay.data.qrels import parse_grade, wrong_grade
from assay.data.table import cell_text, csv_row, read_table, text_cell
from assay.data.text_file import Record, write_file
from assay.errors import DataError, UsageError
from assay.metrics.statistics import Estimate, cohen_kappa, estimate_mean, weighted_kappa

GRADES = (0, 1, 2, 3)
"""Irrelevant, related, relevant in part, and the answer."""
MAX_PASSAGE = 8_000
"""Characters of a passage that are shown; spreadsheets cut cells at 32,767."""
POOL_COLUMNS = ("query_id", "query", "doc_id", "title", "passage", "label")
MIN_GRADED = 30
"""Below this many labels a kappa says little."""
_NO_TEXT = Document("", "", "")
_SEED = 42
_COLUMN_NAMES: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid"),
    "query": ("query", "question", "query_text"),
    "doc_id": ("doc_id", "document_id", "docid", "id"),
    "passage": ("passage", "text", "content", "document"),
    "label": ("label", "grade", "relevance"),
    "title": ("title",),
}
PairName = tuple[str, str]
"""Query id and document id."""
PairLabels = Mapping[PairName, int]


class PassagePair(NamedTuple):
    """A query and a passage that was retrieved for it; `title` is shown to people."""

    query_id: str
    query: str
    doc_id: str
    passage: str
    title: str = ""

    @property
    def name(self) -> PairName:
        """What tells it from the other pairs of a pool."""
        return self.query_id, self.doc_id


@dataclass(frozen=True)
class GradingPool:
    """What is to be graded, each pair once, and people's labels of some of them."""

    pairs: Sequence[PassagePair]
    labels: PairLabels = field(default_factory=dict)


def choose_pairs(
    rankings: Sequence[Mapping[str, Sequence[str]]],
    dataset: Dataset,
    judgments: Judgments,
    *,
    depth: int = 10,
    check: int = 50,
    texts: bool = True,
) -> GradingPool:
    """The unjudged documents that systems returned, and judged ones to check the model by.

    Parameters:
        rankings: for each system its ranking of each query.
        dataset: has the texts of queries and documents.
        judgments: what people have judged.
        depth: how many documents of each ranking are taken.
        check: how many judged pairs are drawn, as many of each grade if there are enough.
        texts: False if people look documents up by their ids: passages may then be empty.
    """
    if texts:
        dataset.require_documents("grading passages by a model")
    documents = dataset.documents
    wanted: dict[PairName, None] = {}
    judged: dict[PairName, int] = {}
    for query_id in dict.fromkeys(query_id for each in rankings for query_id in each):
        if query_id not in dataset.queries:
            continue
        known = judgments.get(query_id, {})
        judged |= {(query_id, doc_id): grade for doc_id, grade in known.items() if check}
        found = (doc_id for each in rankings for doc_id in each.get(query_id, ())[:depth])
        wanted |= {(query_id, doc_id): None for doc_id in found if doc_id not in known}
    if documents:
        wanted = {name: None for name in wanted if name[1] in documents}
        judged = {name: grade for name, grade in judged.items() if name[1] in documents}
    labels = _drawn(judged, check)
    pairs = []
    for query_id, doc_id in [*wanted, *labels]:
        document = documents.get(doc_id, _NO_TEXT)
        asked = dataset.queries[query_id].text
        pairs.append(PassagePair(query_id, asked, doc_id, document.full_text, document.title))
    return GradingPool(pairs, labels)


def _drawn(judged: Mapping[PairName, int], number: int) -> dict[PairName, int]:
    """As many of each grade as there are, at most `number` in all."""
    chooser = random.Random(_SEED)
    by_grade: dict[int, list[PairName]] = {}
    for name in sorted(judged):
        by_grade.setdefault(judged[name], []).append(name)
    for names in by_grade.values():
        chooser.shuffle(names)
    drawn: dict[PairName, int] = {}
    while len(drawn) < number and any(by_grade.values()):
        for grade, names in by_grade.items():
            if names and len(drawn) < number:
                drawn[names.pop()] = grade
    return drawn


def good_row(row: Record | DataError) -> Record:
    """The row, or the error that was found in its place, which is raised."""
    if isinstance(row, DataError):
        raise row
    return row


def grade_in(row: Record, text: str) -> int:
    """The grade in a cell of a row. Raises `DataError` for any other text."""
    grade = parse_grade(text.strip())
    if grade is None:
        raise row.refusal(wrong_grade(text))
    return grade


def read_pool(path: Path, *, texts: bool = True) -> tuple[list[PassagePair], dict[PairName, int]]:
    """The pairs of a table with query, doc_id and passage, and people's labels of some of them.

    Without `texts` a passage may be missing. Raises `DataError` for a row that is wrong, or a pair
    that is there twice with different texts.
    """
    pairs: dict[PairName, PassagePair] = {}
    labels: dict[PairName, int] = {}
    for each in read_table(path):
        row = good_row(each)
        found = {}
        for key, columns in _COLUMN_NAMES.items():
            given = (row.fields[name] for name in columns if row.fields.get(name) is not None)
            found[key] = cell_text(str(next(given, "")))
        for key in ("query", "doc_id", *(("passage",) if texts else ())):
            if not found[key].strip():
                names = ", ".join(_COLUMN_NAMES[key])
                raise row.refusal(f"has no {key} (a column {names}), which a pool needs")
        query_id, title = found["query_id"] or found["query"], found["title"].strip()
        pair = PassagePair(query_id, found["query"], found["doc_id"], found["passage"], title)
        if pairs.setdefault(pair.name, pair) != pair:
            raise row.refusal(
                f"document {pair.doc_id!r} has another text or query for {pair.query_id!r} before; "
                "rename one of the two"
            )
        if found["label"].strip():
            labels[pair.name] = grade_in(row, found["label"])
    if not pairs:
        raise DataError("has no passages to grade", file=path)
    return list(pairs.values()), labels


def write_pool(path: Path, pairs: Iterable[PassagePair]) -> None:
    """Write the table with an empty column `label`, query by query."""
    write_file(path, pool_table(sorted(pairs, key=lambda pair: pair.query_id)))


def pool_table(pairs: Iterable[PassagePair], labels: PairLabels | None = None) -> bytes:
    """The table that a person fills in, with the labels that there are, as CSV."""
    # A document is found for many queries: its cells, most of the table, are written out once.
    cells: dict[tuple[str, ...], str] = {}
    lines = [csv_row(POOL_COLUMNS)]
    for pair in pairs:
        query, document = pair[:2], pair[2:]
        if query not in cells:
            cells[query] = csv_row(map(text_cell, query))
        if document not in cells:
            shown = (pair.doc_id, pair.title, pair.passage[:MAX_PASSAGE])
            cells[document] = csv_row(map(text_cell, shown))
        label = (labels or {}).get(pair.name, "")
        lines.append(f"{cells[query]},{cells[document]},{label}")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def combine_labels(graders: Sequence[PairLabels]) -> dict[PairName, int]:
    """One grade for each document: the median, the lower one of two in the middle."""
    grades: dict[PairName, list[int]] = {}
    for each in graders:
        for name, grade in each.items():
            grades.setdefault(name, []).append(grade)
    return {name: sorted(found)[(len(found) - 1) // 2] for name, found in grades.items()}


def label_rows(labels: PairLabels) -> Iterator[tuple[str, str, str, int]]:
    """Labels of people as rows of qrels."""
    return ((query_id, "0", doc_id, grade) for (query_id, doc_id), grade in labels.items())


@dataclass(frozen=True, slots=True)
class GradeAgreement:
    """How a model's grades agree with people's.

    Attributes:
        labelled: pairs with both a label and a grade.
        agreement: the share of pairs that both call relevant, or both not.
        kappa: the same beyond chance (Cohen 1960); None if both always say the same one thing.
        weighted_kappa: of the grades themselves, with quadratic weights (Cohen 1968); None if
            labels are on another scale than 0 to 3.
        confusion: counts by label, then by grade.
    """

    labelled: int
    agreement: Estimate
    kappa: float | None
    weighted_kappa: float | None
    confusion: Mapping[str, Mapping[str, int]]


def grade_agreement(
    labels: Sequence[int], grades: Sequence[int], relevant_from: int = 2
) -> GradeAgreement:
    """Compare grades with labels of the same pairs.

    Parameters:
        labels: what people say, in their own scale: above 0 is relevant.
        grades: what the model says, 0 to 3.
        relevant_from: the lowest grade that counts as relevant.
    """
    if len(labels) != len(grades):
        raise UsageError(f"every label needs its grade, got {len(labels)} and {len(grades)}")
    if not labels:
        raise UsageError("no passage has both a label and a grade, so nothing can be compared")
    ours = [label > 0 for label in labels]
    theirs = [grade >= relevant_from for grade in grades]
    on_scale = all(0 <= label <= 3 for label in labels) and max(labels) == 3
    pairs = Counter(zip(labels, grades, strict=True))
    return GradeAgreement(
        labelled=len(labels),
        agreement=estimate_mean([a is b for a, b in zip(ours, theirs, strict=True)]),
        kappa=cohen_kappa(ours, theirs),
        weighted_kappa=weighted_kappa(labels, grades) if on_scale else None,
        confusion={
            str(label): {str(grade): pairs[label, grade] for grade in range(4)}
            for label in sorted(set(labels))
        },
    )


@dataclass(frozen=True, slots=True)
class GraderAgreement:
    """Two graders on the documents that both graded.

    `kappa` is about relevant or not, `weighted_kappa` about the grades; None if both always give
    the same one.
    """

    both: int
    same: float | None
    kappa: float | None
    weighted_kappa: float | None


def grader_agreement(a: Mapping[PairName, int], b: Mapping[PairName, int]) -> GraderAgreement:
    """How far two graders agree."""
    both = [name for name in a if name in b]
    if not both:
        return GraderAgreement(0, None, None, None)
    first, second = [a[name] for name in both], [b[name] for name in both]
    same = sum(x == y for x, y in zip(first, second, strict=True)) / len(both)
    relevant = [grade > 0 for grade in first], [grade > 0 for grade in second]
    return GraderAgreement(len(both), same, cohen_kappa(*relevant), weighted_kappa(first, second))

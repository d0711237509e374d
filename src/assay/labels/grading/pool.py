"""A pool of passages that a model or people grade: how it is chosen, and its table.

A table with an empty column `label` is what people fill in; `human_grades` and `model_grades` have
what is done with a pool.
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay.data.dataset import Dataset, Document, Judgments
from assay.data.qrels import parse_grade, wrong_grade
from assay.data.table import cell_text, csv_row, read_table, text_cell
from assay.data.text_file import Record, write_file
from assay.errors import DataError
from assay.labels.grading.grader import MAX_PASSAGE, PairName, PassagePair

_NO_TEXT = Document("", "", "")
_SEED = 42
_POOL: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid"),
    "query": ("query", "question", "query_text"),
    "doc_id": ("doc_id", "document_id", "docid", "id"),
    "passage": ("passage", "text", "content", "document"),
    "label": ("label", "grade", "relevance"),
    "title": ("title",),
}
PairLabels = Mapping[PairName, int]
"""Grades by query id and document id."""

POOL_COLUMNS = ("query_id", "query", "doc_id", "title", "passage", "label")
"""A text is cut at `MAX_PASSAGE` characters; spreadsheets cut cells at 32,767."""


@dataclass(frozen=True)
class GradingPool:
    """What is to be graded.

    Attributes:
        pairs: queries with passages, each pair once.
        labels: people's labels of some of them, and of no others.
    """

    pairs: Sequence[PassagePair]
    labels: Mapping[PairName, int] = field(default_factory=dict)


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
        check: how many judged pairs are drawn, as many of each grade where there are enough.
        texts: whether texts are needed. People can look documents up by their ids: without it,
            those of a data set that has no documents are taken, and their passages are empty.
    """
    if texts:
        dataset.require_documents("grading passages by a model")
    documents, has_texts = dataset.documents, bool(dataset.documents)
    wanted: dict[PairName, None] = {}
    judged: dict[PairName, int] = {}
    asked = dict.fromkeys(query_id for each in rankings for query_id in each)
    for query_id in asked:
        if query_id not in dataset.queries:
            continue
        known = judgments.get(query_id, {})
        for doc_id, grade in known.items() if check else ():
            if not has_texts or doc_id in documents:
                judged[query_id, doc_id] = grade
        found = dict.fromkeys(
            doc_id for each in rankings for doc_id in each.get(query_id, ())[:depth]
        )
        for doc_id in found:
            if doc_id not in known and (not has_texts or doc_id in documents):
                wanted[query_id, doc_id] = None
    labels = _drawn(judged, check)
    pairs = []
    texts_of: dict[str, tuple[str, str]] = {}
    for query_id, doc_id in [*wanted, *labels]:
        if doc_id not in texts_of:
            document = documents.get(doc_id, _NO_TEXT)
            texts_of[doc_id] = document.full_text, document.title
        pairs.append(
            PassagePair(query_id, dataset.queries[query_id].text, doc_id, *texts_of[doc_id])
        )
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

    Without `texts` a passage may be missing: people look the document up by its id.

    Raises:
        DataError: a row is wrong, or a pair is there twice with different texts.
    """
    pairs: dict[PairName, PassagePair] = {}
    labels: dict[PairName, int] = {}
    for each in read_table(path):
        row = good_row(each)
        found = {}
        for key, columns in _POOL.items():
            given = (row.fields[name] for name in columns if row.fields.get(name) is not None)
            found[key] = cell_text(str(next(given, "")))
        for key in ("query", "doc_id", *(("passage",) if texts else ())):
            if not found[key].strip():
                names = ", ".join(_POOL[key])
                raise row.refusal(f"has no {key} (a column {names}), which a pool needs")
        query_id = found["query_id"] or found["query"]
        pair = PassagePair(
            query_id, found["query"], found["doc_id"], found["passage"], found["title"].strip()
        )
        if pairs.setdefault(pair.name, pair) != pair:
            raise row.refusal(
                f"document {pair.doc_id!r} has another text or query for {pair.query_id!r} before; "
                "ids must be unique: rename one of the two"
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

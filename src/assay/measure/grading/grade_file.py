"""Grades on disk: a table with provenance, qrels that name the model, pools that people grade."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from assay.data.qrels import MODEL_MADE, parse_grade, wrong_grade
from assay.data.table import cell_text, csv_row, csv_table, read_table, text_cell
from assay.data.text_file import Record, write_file
from assay.errors import DataError, UsageError
from assay.measure.answers.calibration import cohen_kappa
from assay.measure.grading.grader import MAX_PASSAGE, PassageGrade, PassagePair, RelevanceGrader
from assay.measure.statistics import weighted_kappa
from assay.net.json import JsonObject
from assay.text import text_hash

COLUMNS = (
    *("query_id", "query", "doc_id", "grade", "model_grade", "judged_by", "prompt", "votes"),
    *("passage_sha256", "created", "label"),
)
_POOL: Mapping[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid"),
    "query": ("query", "question", "query_text"),
    "doc_id": ("doc_id", "document_id", "docid", "id"),
    "passage": ("passage", "text", "content", "document"),
    "label": ("label", "grade", "relevance"),
    "title": ("title",),
}


@dataclass(frozen=True, slots=True)
class GradeRecord:
    """A grade with its provenance; `label` is a person's, where there is one.

    `model_grade` is what the model said, `grade` what metrics use: 0 below the grade from which a
    passage counts as relevant.
    """

    query_id: str
    query: str
    doc_id: str
    grade: int
    model_grade: int
    judged_by: str
    prompt: str
    votes: tuple[int, ...]
    passage_sha256: str
    created: str
    label: int | None = None

    def is_of(self, pair: PassagePair, grader: RelevanceGrader) -> bool:
        """Whether asking the grader about the pair would be asking the same again."""
        ours = (self.judged_by, self.prompt, len(self.votes))
        same = ours == (grader.name, grader.prompt, grader.votes)
        return same and self.passage_sha256 == text_hash(pair.passage)

    def to_json(self) -> JsonObject:
        """A line of the journal, or a row of the table."""
        fields = {name: getattr(self, name) for name in COLUMNS}
        label = "" if self.label is None else self.label
        return {**fields, "votes": " ".join(map(str, self.votes)), "label": label}


def grade_record(
    found: PassageGrade,
    grader: RelevanceGrader,
    created: str,
    label: int | None = None,
    relevant_from: int = 2,
) -> GradeRecord | None:
    """What a model said about a pair; None where it could not be read."""
    pair, grade = found.pair, found.grade
    if grade is None:
        return None
    return GradeRecord(
        query_id=pair.query_id,
        query=pair.query,
        doc_id=pair.doc_id,
        grade=effective_grade(grade, relevant_from),
        model_grade=grade,
        judged_by=grader.name,
        prompt=grader.prompt,
        votes=tuple(vote for vote in found.votes if vote is not None),
        passage_sha256=text_hash(pair.passage),
        created=created,
        label=label,
    )


def effective_grade(grade: int, relevant_from: int) -> int:
    """The grade that metrics use: every grade above 0 counts as relevant there."""
    return grade if grade >= relevant_from else 0


def record_of_row(row: Record) -> GradeRecord:
    """A grade as `GradeRecord.to_json` wrote it."""
    missing = [name for name in COLUMNS if name not in row.fields]
    if missing:
        raise row.refusal(f"has no {missing[0]!r}: this is no table of grades")
    fields = {name: str(row.fields[name]) for name in COLUMNS}
    return GradeRecord(
        query_id=fields["query_id"],
        query=fields["query"],
        doc_id=fields["doc_id"],
        grade=_number(row, fields["grade"]),
        model_grade=_number(row, fields["model_grade"]),
        judged_by=fields["judged_by"],
        prompt=fields["prompt"],
        votes=tuple(_number(row, each) for each in fields["votes"].split()),
        passage_sha256=fields["passage_sha256"],
        created=fields["created"],
        label=_number(row, fields["label"]) if fields["label"].strip() else None,
    )


def _number(row: Record, text: str) -> int:
    grade = parse_grade(text.strip())
    if grade is None:
        raise row.refusal(wrong_grade(text))
    return grade


def read_grade_records(path: Path) -> list[GradeRecord]:
    """The grades of a table that `write_grades` wrote."""
    return [record_of_row(_good(row)) for row in read_table(path)]


def _good(row: Record | DataError) -> Record:
    if isinstance(row, DataError):
        raise row
    return row


def write_grades(path: Path, records: Iterable[GradeRecord]) -> None:
    """Write the table, all or nothing."""
    rows = (each.to_json() for each in records)
    write_file(path, csv_table(COLUMNS, ([row[name] for name in COLUMNS] for row in rows)))


def write_qrels(path: Path, records: Iterable[GradeRecord]) -> None:
    """TREC's four columns; the second, which trec_eval ignores, is `model:KIND:NAME`."""
    lines = []
    for each in records:
        fields = (each.query_id, f"{MODEL_MADE}{each.judged_by}", each.doc_id)
        if any(len(field.split()) != 1 for field in fields):
            raise DataError(
                f"qrels cannot hold ids with white space, got {each.query_id!r} {each.doc_id!r}; "
                "use the table of grades",
                file=path,
            )
        lines.append(f"{' '.join(fields)} {each.grade}\n")
    write_file(path, "".join(lines).encode())


def read_pool(
    path: Path, *, texts: bool = True
) -> tuple[list[PassagePair], dict[tuple[str, str], int]]:
    """The pairs of a table with query, doc_id and passage, and people's labels of some of them.

    Without `texts` a passage may be missing: people look the document up by its id.

    Raises:
        DataError: a row is wrong, or a pair is there twice with different texts.
    """
    pairs: dict[tuple[str, str], PassagePair] = {}
    labels: dict[tuple[str, str], int] = {}
    for each in read_table(path):
        row = _good(each)
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
        name = (pair.query_id, pair.doc_id)
        if pairs.setdefault(name, pair) != pair:
            raise row.refusal(
                f"document {pair.doc_id!r} has another text or query for {pair.query_id!r} before; "
                "ids must be unique: rename one of the two"
            )
        if found["label"].strip():
            labels[name] = _number(row, found["label"])
    if not pairs:
        raise DataError("has no passages to grade", file=path)
    return list(pairs.values()), labels


PairLabels = Mapping[tuple[str, str], int]
"""Grades by query id and document id."""

POOL_COLUMNS = ("query_id", "query", "doc_id", "title", "passage", "label")
"""A text is cut at `MAX_PASSAGE` characters; spreadsheets cut cells at 32,767."""


@dataclass(frozen=True, slots=True)
class GraderAgreement:
    """Two graders on the documents that both graded.

    `kappa` is about relevant or not, `weighted_kappa` about the grades; None where both always give
    the same one.
    """

    both: int
    same: float | None
    kappa: float | None
    weighted_kappa: float | None


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
        label = (labels or {}).get((pair.query_id, pair.doc_id), "")
        lines.append(f"{cells[query]},{cells[document]},{label}")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def combine_labels(graders: Sequence[PairLabels]) -> dict[tuple[str, str], int]:
    """One grade for each document: the median, the lower one of two in the middle."""
    grades: dict[tuple[str, str], list[int]] = {}
    for each in graders:
        for name, grade in each.items():
            grades.setdefault(name, []).append(grade)
    return {name: sorted(found)[(len(found) - 1) // 2] for name, found in grades.items()}


def grader_agreement(a: PairLabels, b: PairLabels) -> GraderAgreement:
    """How far two graders agree."""
    both = [name for name in a if name in b]
    if not both:
        return GraderAgreement(0, None, None, None)
    first, second = [a[name] for name in both], [b[name] for name in both]
    same = sum(x == y for x, y in zip(first, second, strict=True)) / len(both)
    relevant = [grade > 0 for grade in first], [grade > 0 for grade in second]
    return GraderAgreement(len(both), same, cohen_kappa(*relevant), weighted_kappa(first, second))


def write_label_qrels(path: Path, labels: PairLabels) -> None:
    """TREC's four columns."""
    try:
        write_file(path, label_qrels(labels))
    except UsageError as error:
        raise DataError(f"{error}; use --dataset-out instead", file=path) from None


def label_qrels(labels: PairLabels) -> bytes:
    """TREC's four columns as text. Raises `UsageError` for ids that these cannot hold."""
    lines = []
    for (query_id, doc_id), grade in labels.items():
        if any(len(each.split()) != 1 for each in (query_id, doc_id)):
            raise UsageError(f"qrels cannot hold ids with white space, got {query_id!r} {doc_id!r}")
        lines.append(f"{query_id} 0 {doc_id} {grade}\n")
    return "".join(lines).encode()

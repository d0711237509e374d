"""Data sets from tables: one row a question with its expected ids, or one row a judgment.

No documents are needed: a service that owns its documents is measured with questions and ids alone.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isnan
from pathlib import Path
from sys import intern

from assay.data.dataset import UNANSWERABLE, Dataset, Query, ReferenceAnswer
from assay.data.qrels import describe_model_judgments, parse_grade, wrong_grade
from assay.data.table import cell_list, read_table, table_suffix
from assay.data.text_file import Findings, Record, short_repr
from assay.errors import DataError, UsageError, did_you_mean

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "question", "query_text", "user_input", "input", "text"),
    "ids": (
        *("doc_ids", "ids", "document_ids", "relevant", "relevant_ids", "relevant_docs"),
        "expected_ids",
    ),
    "doc_id": ("doc_id", "document_id", "docid", "corpus_id"),
    "grades": ("grades",),
    "grade": ("grade", "relevance", "score"),
    "query_id": ("query_id", "qid", "id", "_id"),
    "answer": ("answer", "reference", "reference_answer", "ground_truth", "expected_output"),
    "tags": ("tags",),
}
"""What a row may hold, and the column names that are known for it, first match first.

Upper case, spaces and hyphens in a file's names make no difference.
"""

_JUDGED_BY = "judged_by"
# The column of a model's name in tables of grades, whose other columns are provenance and no tags.
_POOL = {"passage", "label"}
# Columns of a table of `assay judge pool`: people write their grades into `label`.

SPLIT = "test"
"""The split that a table's judgments are."""

_SEPARATORS = "\n;|,"
_SEPARATED = re.compile(r"[;|,]\s+\S")
# Ids have digits, titles that serve as ids rarely have one in every word.
_SEVERAL_IDS = re.compile(r"\s*\S*\d\S*(?:\s+\S*\d\S*)+\s*")
# What people and spreadsheets write into a cell that has no value; #NV is German for #N/A.
_NO_VALUE = re.compile(r"#[A-ZÄÖÜ/]+[!?]?|n/?a|nan|null|none|nil|[-–—?]+", re.IGNORECASE)
_MAX_TAG_VALUES = 100
_MAX_TAG_LENGTH = 100
_USUAL_GRADES: Mapping[str, int] = {str(grade): grade for grade in range(4)}
_MISSING = ("NAType", "NaTType")  # of pandas


def read_questions(
    path: Path, columns: Mapping[str, str] | None = None, findings: Findings | None = None
) -> Dataset:
    """The data set in a CSV, TSV, JSON lines, JSON or Parquet file.

    Raises:
        DataError: a row is wrong; the message names its line.
        UsageError: the file's suffix is unknown, or Parquet is not installed.
    """
    name = path.resolve().name
    name = name[: name.lower().rindex(table_suffix(path))]
    return dataset_of_rows(read_table(path), name, str(path), columns, findings)


def dataset_of_rows(
    rows: Iterable[Record | DataError],
    name: str,
    source: str,
    columns: Mapping[str, str] | None = None,
    findings: Findings | None = None,
) -> Dataset:
    """The data set in rows; `columns` maps keys of `COLUMNS` to names of columns."""
    builder = _Builder(columns or {}, Findings() if findings is None else findings)
    for key in builder.columns:
        if key not in COLUMNS:
            raise UsageError(f"there is no column key {key!r}; the keys are {', '.join(COLUMNS)}")
    for row in rows:
        if isinstance(row, DataError):
            builder.findings.refuse(row)
            continue
        try:
            builder.add(row)
        except DataError as error:
            builder.findings.refuse(error)
    return builder.build(name, source)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Which column of a row holds what; None where there is none."""

    query: str | None
    ids: str | None
    doc_id: str | None
    grades: str | None
    grade: str | None
    query_id: str | None
    answer: str | None
    tags: str | None
    others: tuple[str, ...] = ()


@dataclass(slots=True)
class _Question:
    text: str
    number: int
    tags: dict[str, str]
    """Each tag with the column that it is from."""


@dataclass
class _Builder:
    columns: Mapping[str, str]
    findings: Findings
    layouts: dict[tuple[str, ...], _Layout] = field(default_factory=dict)
    refused: set[tuple[str, ...]] = field(default_factory=set)
    questions: dict[str, _Question] = field(default_factory=dict)
    judgments: dict[str, dict[str, int]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    tag_values: dict[str, set[str]] = field(default_factory=dict)
    separators: dict[str, int] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    """How many judgments each model made."""
    spellings: dict[str, tuple[str, str]] = field(default_factory=dict)
    """The first spelling of each id and its place, by the id in lower case."""

    def add(self, row: Record) -> None:
        names = tuple(row.fields)
        if names in self.refused:
            return
        layout = self.layouts.get(names)
        if layout is None:
            self.refused.add(names)  # a header without its columns is reported once, not row by row
            layout = self.layouts[names] = _layout(row, self.columns)
            self.refused.remove(names)
        found = self._judged(row, layout)
        answer = _text(row, layout.answer)
        query_id = self._question(row, layout)
        grades = self.judgments.setdefault(query_id, {})
        for doc_id, grade in found:
            self._note_doubtful(row, doc_id)
            earlier = grades.setdefault(doc_id, grade)
            if earlier != grade:
                raise row.refusal(
                    f"document {doc_id!r} has grade {grade} for query {query_id!r}, but {earlier} "
                    "before; delete one of the two"
                )
        if answer and self.answers.setdefault(query_id, answer) != answer:
            raise row.refusal(
                f"query {query_id!r} has another answer before; delete one of the two"
            )
        if model := _plain(row.fields.get(_JUDGED_BY)):
            self.models[model] = self.models.get(model, 0) + len(found)
        self._tag(row, layout, self.questions[query_id].tags)

    def _question(self, row: Record, layout: _Layout) -> str:
        """The id of the row's question. The same text is the same question where no id is given."""
        text = _text(row, layout.query)
        query_id = _text(row, layout.query_id)
        if not query_id:
            if not text:
                raise row.refusal("has no query; write one, or delete the row")
            query_id = _id_of(text)
        query_id = intern(query_id)
        known = self.questions.get(query_id)
        if known is None:
            if not text:
                raise row.refusal(f"query {query_id!r} has no text; write it in its first row")
            self.questions[query_id] = _Question(text, row.number, {})
        elif text and text != known.text:
            place = "line" if row.lined else "row"
            raise row.refusal(
                f"query id {query_id!r} was already used in {place} {known.number} for another "
                "query; ids must be unique: rename one of the two"
            )
        elif layout.ids is not None:
            what = "questions in more than one row (their ids are taken together)"
            self.findings.note(what, f"{query_id!r} {row.place}")
        return query_id

    def _judged(self, row: Record, layout: _Layout) -> list[tuple[str, int]]:
        if layout.ids is None:
            doc_id = _text(row, layout.doc_id)
            if not doc_id:
                raise row.refusal(f"{layout.doc_id!r} is empty; write the id of a document")
            if layout.grade is not None and _plain(row.fields[layout.grade]) == "":
                raise row.refusal(
                    f"{layout.grade!r} is empty; write a grade, 0 if the document is not "
                    "relevant, or delete the row"
                )
            return [(intern(doc_id), _grade(row, layout.grade))]
        value = row.fields[layout.ids]
        if isinstance(value, Mapping):
            return [(intern(str(key)), _as_grade(row, each)) for key, each in value.items()]
        ids = self._ids(row, layout.ids, value)
        if layout.grades is None or not (given := self._list(row, row.fields[layout.grades])):
            grades = [_grade(row, layout.grade)] * len(ids)
        elif len(given) != len(ids):
            raise row.refusal(f"has {len(ids)} ids and {len(given)} grades; write one for each id")
        else:
            grades = [_as_grade(row, each) for each in given]
        if len(set(ids)) < len(ids):
            self.findings.note("rows that name an id twice", row.place)
        if not ids:
            what = "questions without expected ids, which no ranking is measured on"
            self.findings.note(what, row.place)
        return list(zip(ids, grades, strict=True))

    def _note_doubtful(self, row: Record, doc_id: str) -> None:
        """Ids that no service returns: nobody would see that from a recall of 0."""
        place = row.place
        if _SEVERAL_IDS.fullmatch(doc_id):
            what = "cells that look like several ids, read as one (write ; between ids)"
            self.findings.note(what, f"{short_repr(doc_id)} {place}")
        if _NO_VALUE.fullmatch(doc_id):
            what = "ids that look like a missing value (leave the cell empty)"
            self.findings.note(what, f"{doc_id!r} {place}")
        first, where = self.spellings.setdefault(doc_id.casefold(), (doc_id, place))
        if first != doc_id:
            what = "ids in two spellings, which are two documents (write them alike)"
            self.findings.note(what, f"{doc_id!r} {place}, {first!r} {where}")

    def _ids(self, row: Record, name: str, value: object) -> list[str]:
        ids = [_plain(each) for each in self._list(row, value)]
        if None in ids:
            raise row.refusal(f"{name!r} must hold ids, got {short_repr(value)}")
        return [intern(each) for each in ids if each]

    def _list(self, row: Record, value: object) -> list[object]:
        """The parts of a cell: a list, a JSON list, or text with one of the separators."""
        if isinstance(value, str) and not value.lstrip().startswith("["):
            for separator in _SEPARATORS:
                if separator in value:
                    self.separators.setdefault(separator, row.number)
                    parts = [part for part in value.split(separator) if part.strip()]
                    if any(map(_SEPARATED.search, parts)):
                        what = f"cells with another separator beside {separator!r}, read as one id"
                        self.findings.note(what, f"{short_repr(value)} in {row.number}")
                    return list(parts)
            return [value] if value.strip() else []
        return [] if _plain(value) == "" else list(cell_list(value))

    def _tag(self, row: Record, layout: _Layout, tags: dict[str, str]) -> None:
        for name in layout.others:
            value = _plain(row.fields[name])
            if not value:
                continue
            seen = self.tag_values.setdefault(name, set())
            if len(seen) <= _MAX_TAG_VALUES:
                if len(value) > _MAX_TAG_LENGTH:
                    seen.update(map(str, range(_MAX_TAG_VALUES + 1)))  # prose, and no tag
                else:
                    seen.add(value)
                    tags[intern(f"{name}={value}")] = name
        if layout.tags is not None:
            for each in self._list(row, row.fields[layout.tags]):
                if tag := _plain(each):
                    tags[intern(tag)] = layout.tags

    def build(self, name: str, source: str) -> Dataset:
        if not self.questions and not self.findings.error_count:
            raise DataError(
                "has no questions; add rows below a header with a question and its document ids",
                file=source,
            )
        prose = {name for name, seen in self.tag_values.items() if len(seen) > _MAX_TAG_VALUES}
        for column in sorted(prose):
            what = f"columns that are not tags (over {_MAX_TAG_VALUES} values, or long ones)"
            self.findings.note(what, repr(column))
        if len(self.separators) > 1:
            used = ", ".join(f"{each!r} from {n}" for each, n in self.separators.items())
            self.findings.note("files that separate ids in more than one way", used)
        queries = {
            query_id: Query(query_id, each.text, _kept(each.tags, prose))
            for query_id, each in self.questions.items()
        }
        answers = {
            query_id: ReferenceAnswer(query_id, answer, (), _relevant(self.judgments[query_id]))
            for query_id, answer in self.answers.items()
        }
        answers |= {  # where declining is right: no answer, no id, and the tag says so
            query_id: ReferenceAnswer(query_id, None)
            for query_id, query in queries.items()
            if UNANSWERABLE in query.tags and query_id not in answers
        }
        messages = self.findings.messages
        made = describe_model_judgments(self.models, sum(map(len, self.judgments.values())))
        return Dataset(name, {}, queries, {SPLIT: self.judgments}, answers, messages, made)


def _kept(tags: Mapping[str, str], prose: set[str]) -> tuple[str, ...]:
    if not prose:
        return tuple(tags)
    return tuple(tag for tag, column in tags.items() if column not in prose)


def _relevant(grades: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(doc_id for doc_id, grade in grades.items() if grade > 0)


def _layout(row: Record, columns: Mapping[str, str]) -> _Layout:
    spelled = {_spelling(name): name for name in reversed(row.fields)}
    found: dict[str, str | None] = {}
    for key, known in COLUMNS.items():
        if key in columns:
            if columns[key] not in row.fields:
                have = short_repr(list(row.fields))
                hint = did_you_mean(columns[key], map(str, row.fields))
                raise row.refusal(f"has no column {columns[key]!r}, only {have}{hint}")
            found[key] = columns[key]
        else:
            found[key] = next((spelled[each] for each in known if each in spelled), None)
    if "doc_id" in columns and "ids" not in columns:
        found["ids"] = None
    if found["ids"] is not None:
        found["doc_id"] = None
        if "grade" not in columns:  # elsewhere, a score may be anything
            found["grade"] = spelled.get("grade")
    pool = found["ids"] is None and found["grade"] is None and spelled.keys() >= _POOL
    if pool:
        found["grade"] = spelled["label"]
    if found["query"] is None and found["query_id"] is None:
        raise _missing(row, "query")
    if found["ids"] is None and found["doc_id"] is None:
        raise _missing(row, "ids")
    texts = found["query"] is not None and _spelling(found["query"]) == "text"
    if texts and not columns and found["doc_id"] and "title" in spelled and not found["grade"]:
        raise row.refusal(
            f"looks like documents, not questions: its columns are {short_repr(list(row.fields))}; "
            "pass it as --corpus, or say that the texts are questions: --columns query=text"
        )
    used = set(row.fields if pool or _JUDGED_BY in row.fields else found.values())
    return _Layout(**found, others=tuple(name for name in row.fields if name not in used))


def _missing(row: Record, key: str) -> DataError:
    known, have = ", ".join(COLUMNS[key]), short_repr(list(row.fields))
    what = "the query" if key == "query" else "the expected ids"
    return row.refusal(
        f"has no column for {what} ({known}), only {have}; pass --columns {key}=NAME, in Python "
        f'columns={{"{key}": "NAME"}}'
    )


def _spelling(name: object) -> str:
    return str(name).strip().casefold().replace(" ", "_").replace("-", "_")


def _text(row: Record, name: str | None) -> str:
    if name is None:
        return ""
    text = _plain(row.fields[name])
    if text is None:
        raise row.refusal(f"{name!r} must be text, got {short_repr(row.fields[name])}")
    return text


def _plain(value: object) -> str | None:
    """The text of a cell, "" for an empty one; None where it is a list or an object.

    Data frames turn a column of integers with gaps into floats, and gaps into NaN.
    """
    if isinstance(value, str):
        return value.strip()
    if value is None or type(value).__name__ in _MISSING:
        return ""
    if isinstance(value, list | dict | tuple) or hasattr(value, "__len__"):
        return None
    if isinstance(value, float):
        return "" if isnan(value) else str(int(value)) if value.is_integer() else str(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _grade(row: Record, name: str | None) -> int:
    value = None if name is None else row.fields[name]
    return 1 if _plain(value) == "" else _as_grade(row, value)


def _as_grade(row: Record, value: object) -> int:
    if isinstance(value, str) and value in _USUAL_GRADES:
        return _USUAL_GRADES[value]
    grade = parse_grade(_plain(value) or "")
    if grade is None:
        raise row.refusal(wrong_grade(value))
    return grade


def _id_of(text: str) -> str:
    """An id that stays the same when rows are added or moved, so that runs can be compared."""
    return f"q-{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=6).hexdigest()}"

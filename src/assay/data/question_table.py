"""Data sets from tables: one row a question with its expected ids, or one row a judgment."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern

from assay.data.dataset import UNANSWERABLE, Dataset, Query, ReferenceAnswer
from assay.data.qrels import add_grade, describe_model_judgments, parse_grade
from assay.data.table import cell_list, find_columns, plain_cell, read_table, table_suffix
from assay.data.text_file import Findings, Record, short_repr
from assay.errors import DataError, UsageError, did_you_mean

# What a row may hold, and the column names that are known for it, first match first. Upper case,
# spaces and hyphens in a file's names make no difference.
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "query": ("query", "question", "query_text", "user_input", "input", "text"),
    "ids": (
        "doc_ids",
        "ids",
        "document_ids",
        "relevant",
        "relevant_ids",
        "relevant_docs",
        "expected_ids",
    ),
    "doc_id": ("doc_id", "document_id", "docid", "corpus_id"),
    "grades": ("grades",),
    "grade": ("grade", "relevance", "score"),
    "query_id": ("query_id", "qid", "id", "_id"),
    "answer": ("answer", "reference", "reference_answer", "ground_truth", "expected_output"),
    "tags": ("tags",),
}

# Columns of the tables of `assay judge`, whose other columns are about the judgment and no tags.
_JUDGED_BY, _PASSAGE = "judged_by", "passage"
_SEPARATORS = "\n;|,"
# A column with more values is a remark: a figure for each tag would be about one or two queries.
_MAX_TAG_VALUES = 100
_MAX_TAG_LENGTH = 100

_Layout = Mapping[str, str | None]


def read_questions(
    path: Path, columns: Mapping[str, str] | None = None, findings: Findings | None = None
) -> Dataset:
    """The data set in a CSV, TSV, JSON lines, JSON or Parquet file; its split is `test`."""
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
    if unknown := builder.columns.keys() - COLUMNS:
        raise UsageError(f"no column keys {sorted(unknown)}; the keys are {', '.join(COLUMNS)}")
    for row in builder.findings.sound(rows):
        with builder.findings.errors_collected(row):
            builder.add(row)
    return builder.build(name, source)


@dataclass
class _Builder:
    """Collects the rows of a table: questions, judgments, answers and tags by query id."""

    columns: Mapping[str, str]
    findings: Findings
    layouts: dict[tuple[str, ...], _Layout | None] = field(default_factory=dict)
    questions: dict[str, tuple[str, str]] = field(default_factory=dict)  # text, and its place
    judgments: dict[str, dict[str, int]] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)  # by query: column by tag
    tag_values: dict[str, set[str]] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)  # how many judgments each made

    def add(self, row: Record) -> None:
        names = tuple(row.fields)
        if names not in self.layouts:
            self.layouts[names] = None  # a header without its columns is reported once
            self.layouts[names] = _layout(row, self.columns)
        layout = self.layouts[names]
        if layout is None:
            return
        judged = self._judged(row, layout)
        answer = _text(row, layout["answer"])
        query_id = self._question(row, layout)
        self.judgments.setdefault(query_id, {})
        for doc_id, grade in judged:
            self._note_doubtful(row, doc_id)
            add_grade(self.judgments, query_id, doc_id, parse_grade(grade))
        if answer and self.answers.setdefault(query_id, answer) != answer:
            row.fail(f"query {query_id!r} has another answer before; delete one of the two")
        if model := plain_cell(row.fields.get(_JUDGED_BY)):
            self.models[model] = self.models.get(model, 0) + len(judged)
        self._tag(row, layout, self.tags.setdefault(query_id, {}))

    def _question(self, row: Record, layout: _Layout) -> str:
        """The id of the row's question. The same text is the same question if no id is given."""
        text = _text(row, layout["query"])
        query_id = _text(row, layout["query_id"])
        if not query_id:
            # An id that stays the same when rows are added or moved: runs can be compared.
            content = text.encode("utf-8", "surrogatepass")
            query_id = f"q-{hashlib.blake2b(content, digest_size=6).hexdigest()}"
        query_id = intern(query_id)
        known = self.questions.get(query_id)
        if known is None:
            if not text:
                row.fail("has no query; write one, or delete the row")
            self.questions[query_id] = text, row.place
        elif text and text != known[0]:
            row.fail(
                f"query id {query_id!r} was already used {known[1]} for another query; ids must "
                "be unique: rename one of the two"
            )
        elif layout["ids"] is not None:
            what = "questions in more than one row (their ids are taken together)"
            self.findings.note(what, f"{query_id!r} {row.place}")
        return query_id

    def _judged(self, row: Record, layout: _Layout) -> list[tuple[str, object]]:
        """The expected ids of a row, each with what is given as its grade."""
        column = layout["grade"]
        same = plain_cell(row.fields[column]) if column else 1
        if layout["ids"] is None:
            doc_id = _text(row, layout["doc_id"])
            if not doc_id or same == "":
                empty = column if doc_id else layout["doc_id"]
                row.fail(f"{empty!r} is empty; write a value, or delete the row")
            return [(doc_id, same)]
        parts = [plain_cell(part) for part in _cell_parts(row.fields[layout["ids"]])]
        if None in parts:
            got = short_repr(row.fields[layout["ids"]])
            row.fail(f"{layout['ids']!r} must hold ids, got {got}")
        ids = [part for part in parts if part]
        given = _cell_parts(row.fields[layout["grades"]]) if layout["grades"] else []
        if given and len(given) != len(ids):
            row.fail(f"has {len(ids)} ids and {len(given)} grades; write one for each id")
        if not ids:
            what = "questions without expected ids are not scored"
            self.findings.note(what, row.place)
        grades = map(plain_cell, given) if given else [1 if same == "" else same] * len(ids)
        return list(zip(ids, grades, strict=True))

    def _note_doubtful(self, row: Record, doc_id: str) -> None:
        """Ids that no service returns: nobody would see that from a recall of 0."""
        parts = doc_id.split()
        # Ids have digits; a title that serves as an id rarely has one in every word.
        has_several = len(parts) > 1 and all(any(map(str.isdigit, part)) for part in parts)
        if has_several:
            what = "ids that look like several (write ; between ids)"
            self.findings.note(what, f"{short_repr(doc_id)} {row.place}")

    def _tag(self, row: Record, layout: _Layout, tags: dict[str, str]) -> None:
        """Columns of no other meaning are tags `name=value`, unless they hold prose."""
        used = row.fields if layout["provenance"] else set(layout.values())
        for name in (name for name in row.fields if name not in used):
            value = plain_cell(row.fields[name])
            seen = self.tag_values.setdefault(name, set())
            if value and len(value) > _MAX_TAG_LENGTH:
                seen.update(map(str, range(_MAX_TAG_VALUES + 1)))
            elif value and len(seen) <= _MAX_TAG_VALUES:
                seen.add(value)
                tags[intern(f"{name}={value}")] = name
        if (own := layout["tags"]) is not None:
            listed = map(plain_cell, _cell_parts(row.fields[own]))
            tags |= {intern(tag): own for tag in listed if tag}

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
        queries, answers = {}, {}
        for query_id, (text, _) in self.questions.items():
            own = self.tags.get(query_id, {})
            tags = tuple(tag for tag, column in own.items() if column not in prose)
            queries[query_id] = Query(query_id, text, tags)
            grades = self.judgments.get(query_id, {})
            if answer := self.answers.get(query_id):
                relevant = tuple(doc_id for doc_id, grade in grades.items() if grade > 0)
                answers[query_id] = ReferenceAnswer(query_id, answer, (), relevant)
            elif UNANSWERABLE in tags:  # declining is right: no answer, and the tag says so
                answers[query_id] = ReferenceAnswer(query_id, None)
        made = describe_model_judgments(self.models, sum(map(len, self.judgments.values())))
        messages = self.findings.messages
        return Dataset(name, {}, queries, {"test": self.judgments}, answers, messages, made)


def _cell_parts(value: object) -> Sequence[object]:
    """The parts of a cell: a list, a JSON list, or text with one of the separators."""
    if not isinstance(value, str) or value.lstrip().startswith("["):
        return [] if plain_cell(value) == "" else cell_list(value)
    separator = next((mark for mark in _SEPARATORS if mark in value), "\n")
    return [part for part in value.split(separator) if part.strip()]


def _layout(row: Record, columns: Mapping[str, str]) -> _Layout:
    """The column of each key of `COLUMNS`; None if there is none."""
    found = find_columns(row.fields, COLUMNS, columns)
    have = short_repr(list(row.fields))
    for name in columns.values():
        if name not in row.fields:
            hint = did_you_mean(name, map(str, row.fields))
            row.fail(f"has no column {name!r}, only {have}{hint}")
    if "doc_id" in columns and "ids" not in columns:
        found["ids"] = None
    is_pool = found["ids"] is None and row.column(_PASSAGE) is not None
    if found["ids"] is not None:
        found["doc_id"] = None
        if "grade" not in columns:  # elsewhere, a score may be anything
            found["grade"] = row.column("grade")
    elif is_pool and found["grade"] is None:  # people write grades into `label`
        found["grade"] = row.column("label")
    wanted = {"query": found["query"] or found["query_id"], "ids": found["ids"] or found["doc_id"]}
    for key, column in wanted.items():
        if column is None:
            what = "the query" if key == "query" else "the expected ids"
            row.fail(
                f"has no column for {what} ({', '.join(COLUMNS[key])}), only {have}; pass "
                f'--columns {key}=NAME, in Python columns={{"{key}": "NAME"}}'
            )
    return found | {"provenance": _JUDGED_BY if is_pool or _JUDGED_BY in row.fields else None}


def _text(row: Record, name: str | None) -> str:
    text = "" if name is None else plain_cell(row.fields[name])
    if text is None:
        row.fail(f"{name!r} must be text, got {short_repr(row.fields[str(name)])}")
    return text

"""Documents, queries and judgments in rows of their own: tables of other tools, and Python values.

One table holds one kind of thing, in one file or in several (Parquet, JSON lines, CSV, TSV) or in
memory (dictionaries, lists of dictionaries, data frames). Columns are found by the names that are
in use: `_id`, `docid`, `contents`, `corpus-id`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

from assay.data.dataset import Dataset, Document, Judgments, Query, ReferenceAnswer
from assay.data.qrels import parse_grade, read_judgments, wrong_grade
from assay.data.table import cell_list, read_table, rows_of, table_suffix
from assay.data.text_file import Findings, Record, plain_file, short_repr
from assay.errors import DataError
from assay.net.json import JsonObject
from assay.text import respelled

DOC_IDS = ("doc_id", "docid", "docno", "document_id", "corpus_id", "_id", "id", "pid")
TEXTS = ("text", "contents", "content", "body", "passage", "segment")
TITLES = ("title",)
QUERY_IDS = ("query_id", "qid", "_id", "id", "topic_id")
QUERY_TEXTS = ("text", "query", "question", "query_text", "title")
# Of a judgment: where query, document and grade are, in a table of another tool and in memory.
_JudgmentColumns = tuple[Sequence[str], Sequence[str], Sequence[str]]
_JUDGMENTS: _JudgmentColumns = (
    ("query_id", "qid", "query", "topic_id", "topic"),
    ("corpus_id", "doc_id", "docid", "document_id", "pid"),
    ("score", "grade", "relevance", "label", "rel"),
)
_OWN_JUDGMENTS: _JudgmentColumns = (
    ("query_id", "qid", "_id"),
    ("doc_id", "corpus_id", "_id", "id"),
    ("grade", "score", "relevance"),
)
_OWN_QUERY_TEXTS = ("query", "text", "question")

_Item = TypeVar("_Item", Query, Document)


def read_documents(
    paths: Sequence[Path], findings: Findings, names: Sequence[str] | None = None
) -> dict[str, Document]:
    """Documents by id from tables with an id, a text and optionally a title.

    `names` are the columns of a table without a header, such as `collection.tsv` of MS MARCO.
    """
    rows = (row for path in paths for row in _rows(path, names))
    return _filled(_by_id(rows, _document, findings), "documents", paths, findings)


def read_queries(paths: Sequence[Path], findings: Findings) -> dict[str, Query]:
    """Queries by id from tables with an id and a text."""
    rows = (row for path in paths for row in read_table(path))
    return _filled(_by_id(rows, _query, findings), "queries", paths, findings)


def _filled(
    found: dict[str, _Item], what: str, paths: Sequence[Path], findings: Findings
) -> dict[str, _Item]:
    if not found and not findings.error_count:
        raise DataError(f"has no {what}", file=paths[0] if paths else "the data set")
    return found


def read_grades(path: Path, findings: Findings) -> dict[str, dict[str, int]]:
    """Judgments from a table, or from a `.tsv`, `.txt` or `.qrels` file as TREC or BEIR have it."""
    if table_suffix(path) not in (".jsonl", ".ndjson", ".json", ".parquet", ".csv"):
        return read_judgments(plain_file(path), findings)
    judgments: dict[str, dict[str, int]] = {}
    for row in read_table(path):
        try:
            if isinstance(row, DataError):
                raise row
            _add_judgment(row, _JUDGMENTS, judgments)
        except DataError as error:
            findings.refuse(error)
    return judgments


def _add_judgment(
    row: Record, columns: _JudgmentColumns, judgments: dict[str, dict[str, int]]
) -> str:
    """Add the judgment of a row; returns the id of its query."""
    queries, documents, grades = columns
    query_id, doc_id = _identifier(row, queries), _identifier(row, documents)
    value = _field_of(row.fields, grades, absent=1)  # a gap in that column is no relevant document
    grade = parse_grade(str(value))
    if grade is None:
        raise row.refusal(wrong_grade(value))
    earlier = judgments.setdefault(query_id, {}).setdefault(doc_id, grade)
    if earlier != grade:
        raise row.refusal(
            f"document {doc_id!r} has grade {grade} for query {query_id!r}, but {earlier} before; "
            "delete one of the two"
        )
    return query_id


def drop_unknown_queries(
    judgments: dict[str, dict[str, int]],
    name: str,
    documents: Mapping[str, Document],
    queries: Mapping[str, Query],
    findings: Findings,
) -> Judgments:
    """The judgments of queries that exist. Documents that the corpus lacks count in the ideal
    ranking, as in trec_eval: without them every system would look better than it is.
    """
    for query_id in [each for each in judgments if queries and each not in queries]:
        what = f"{name}: judgments dropped, because their query is not in queries.jsonl"
        findings.note(what, f"query {query_id!r}", count=len(judgments.pop(query_id)))
    lacking = f"{name}: judged documents that are not in corpus.jsonl (no system can retrieve them)"
    judged = missing = 0
    for query_id, grades in judgments.items():
        for document_id in grades:
            judged += 1
            if documents and document_id not in documents:
                missing += 1
                how = respelled(document_id, documents)
                there = f" (the corpus has it {how})" if how else ""
                findings.note(lacking, f"{document_id!r} for query {query_id!r}{there}")
    if judged and missing == judged:
        findings.note(
            "splits whose judgments name no document of the corpus, so that every score is 0 (were "
            "the documents renamed? write the new ids into qrels)",
            repr(name),
        )
    return judgments


def _identifier(row: Record, names: Sequence[str]) -> str:
    """The id in the first column of these names, interned; `DataError` where there is none."""
    value = _field_of(row.fields, names)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a data frame's column of integers with gaps
    if value is None or isinstance(value, bool | float | list | dict) or not str(value).strip():
        have = short_repr(list(row.fields))
        raise row.refusal(
            f"has no id in a column {', '.join(names[:3])} or the like, got {short_repr(value)} "
            f"from the columns {have}"
        )
    return intern(str(value))


def _field_of(fields: JsonObject, names: Sequence[str], absent: object = None) -> object:
    """The value of the first column that is called so; upper case, `-` and `_` are the same.
    `absent` if there is no such column."""
    for name in names:
        if name in fields:
            return fields[name]
    spelled = {str(name).strip().casefold().replace("-", "_"): name for name in fields}
    found = next((spelled[name] for name in names if name in spelled), None)
    return absent if found is None else fields[found]


def _rows(path: Path, names: Sequence[str] | None) -> Iterable[Record | DataError]:
    if names is None:
        return read_table(path)
    file = plain_file(path)
    return (_unnamed(file.label, line, text, names) for line, text in file.lines())


def _unnamed(label: str, line: int, text: str, names: Sequence[str]) -> Record | DataError:
    cells = text.split("\t")
    row = Record(label, line, dict(zip(names, cells, strict=False)), lined=True)
    if len(cells) < len(names):
        return row.refusal(
            f"has {len(cells)} columns; expected {', '.join(names)}, with tabs, or a "
            "header with these names"
        )
    return row


def _by_id(
    rows: Iterable[Record | DataError], build: Callable[[Record], _Item], findings: Findings
) -> dict[str, _Item]:
    found: dict[str, _Item] = {}
    for row in rows:
        try:
            if isinstance(row, DataError):
                raise row
            item = build(row)
            earlier = found.setdefault(item.id, item)
            if earlier is item:
                continue
            if earlier != item:
                raise row.refusal(
                    f"id {item.id!r} is already used for other content; ids must be unique: rename "
                    "or delete one of the two"
                )
            what = f"{Path(row.source).name}: rows that repeat an earlier one (kept once)"
            findings.note(what, repr(item.id))
        except DataError as error:
            findings.refuse(error)
    return found


def _document(row: Record) -> Document:
    metadata = row.fields.get("metadata")
    return Document(
        _identifier(row, DOC_IDS),
        _text(row, TITLES, required=False),
        _text(row, TEXTS),
        metadata if isinstance(metadata, dict) else {},
    )


def _query(row: Record) -> Query:
    return Query(_identifier(row, QUERY_IDS), _text(row, QUERY_TEXTS))


def _text(row: Record, names: Sequence[str], *, required: bool = True) -> str:
    value = _field_of(row.fields, names)
    if value is None or (isinstance(value, float) and isnan(value)):
        if required and not any(_has(row.fields, name) for name in names):
            have = short_repr(list(row.fields))
            raise row.refusal(f"has no text in a column {', '.join(names[:3])}, only {have}")
        return ""
    if not isinstance(value, str):
        raise row.refusal(f"{names[0]!r} must be text, got {short_repr(value)}")
    return value


def _has(fields: JsonObject, name: str) -> bool:
    return any(str(each).strip().casefold().replace("-", "_") == name for each in fields)


def dataset_from_dicts(
    queries: object,
    judgments: object,
    documents: object,
    answers: Mapping[str, str | None] | None,
    name: str,
    split: str,
) -> Dataset:
    """See `Dataset.from_dicts`."""
    asked = _by_id(_rows_in_memory(queries, "queries", "query_id"), _own_query, Findings())
    if not asked:
        raise DataError("queries is empty; pass at least one query")
    given = {} if documents is None else documents
    found = _by_id(_rows_in_memory(given, "documents", "doc_id"), _document, Findings())
    judged: dict[str, dict[str, int]] = {}
    if isinstance(judgments, Mapping):
        judgments = list(_judgment_rows(judgments))
    for row in rows_of(judgments, "judgments"):
        if isinstance(row, DataError):
            raise row
        if (query_id := _add_judgment(row, _OWN_JUDGMENTS, judged)) not in asked:
            raise row.refusal(f"there is no query {query_id!r}")
    references = {}
    for key, answer in (answers or {}).items():
        if (query_id := str(key)) not in asked:
            raise DataError(f"answers: there is no query {query_id!r}")
        relevant = tuple(doc_id for doc_id, grade in judged.get(query_id, {}).items() if grade > 0)
        references[query_id] = ReferenceAnswer(query_id, answer, (), relevant)
    return Dataset(name, found, asked, {split: judged}, references)


def _rows_in_memory(values: object, source: str, key: str) -> Iterator[Record | DataError]:
    """Rows as they are; `{id: value}` becomes a row with its id as the column `key`."""
    if isinstance(values, Mapping):
        values = [_row_of(key, identifier, value) for identifier, value in values.items()]
    return rows_of(values, source)


def _row_of(key: str, identifier: object, value: object) -> JsonObject:
    if isinstance(value, Document):
        value = {"title": value.title, "text": value.text, "metadata": dict(value.metadata)}
    elif isinstance(value, Query):
        value = {"text": value.text, "tags": list(value.tags)}
    return {**(value if isinstance(value, Mapping) else {"text": value}), key: identifier}


def _judgment_rows(judgments: Mapping[Any, Any]) -> Iterator[JsonObject]:
    for query_id, grades in judgments.items():
        if isinstance(grades, str) or not isinstance(grades, Iterable):
            raise DataError(
                f"judgments: query {query_id!r} must have {{id: grade}} or a list of ids, got "
                f"{short_repr(grades)}"
            )
        pairs = grades.items() if isinstance(grades, Mapping) else ((each, 1) for each in grades)
        for doc_id, grade in pairs:
            yield {"query_id": query_id, "doc_id": doc_id, "grade": grade}


def _own_query(row: Record) -> Query:
    text = _text(row, _OWN_QUERY_TEXTS)
    if not isinstance(given := _field_of(row.fields, _OWN_QUERY_TEXTS), str):
        raise row.refusal(f"'query' must be text, got {short_repr(given)}")
    tags = [str(tag) for tag in cell_list(row.fields.get("tags"))]
    return Query(_identifier(row, QUERY_IDS), text, tuple(tags))

"""Data sets from values in memory: dictionaries, lists of dictionaries, data frames."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from assay.data.dataset import Dataset, Document, Query, ReferenceAnswer
from assay.data.qrels import parse_grade, wrong_grade
from assay.data.table import TableRow, cell_list, rows_of
from assay.data.text_file import short_repr
from assay.errors import DataError

_QUERY_IDS = ("query_id", "qid", "_id", "id")
_QUERY_TEXTS = ("query", "text", "question")
_DOC_IDS = ("doc_id", "corpus_id", "corpus-id", "_id", "id")
_GRADES = ("grade", "score", "relevance")

_Item = TypeVar("_Item", Query, Document)


def dataset_from_dicts(
    queries: object,
    judgments: object,
    documents: object,
    answers: Mapping[str, str | None] | None,
    name: str,
    split: str,
) -> Dataset:
    """See `Dataset.from_dicts`."""
    asked = _by_id(queries, "queries", _query, _QUERY_IDS)
    if not asked:
        raise DataError("queries: there are none")
    found = {} if documents is None else _by_id(documents, "documents", _document, _DOC_IDS)
    judged: dict[str, dict[str, int]] = {}
    for row, query_id, doc_id, grade in _judged(judgments):
        if query_id not in asked:
            raise row.refusal(f"there is no query {query_id!r}")
        if judged.setdefault(query_id, {}).setdefault(doc_id, grade) != grade:
            raise row.refusal(f"document {doc_id!r} has two grades for query {query_id!r}")
    references = {}
    for key, answer in (answers or {}).items():
        if (query_id := str(key)) not in asked:
            raise DataError(f"answers: there is no query {query_id!r}")
        relevant = tuple(doc_id for doc_id, grade in judged.get(query_id, {}).items() if grade > 0)
        references[query_id] = ReferenceAnswer(query_id, answer, (), relevant)
    return Dataset(name, found, asked, {split: judged}, references)


def _by_id(
    values: object,
    source: str,
    build: Callable[[TableRow, str], _Item],
    ids: tuple[str, ...],
) -> dict[str, _Item]:
    return _items(_rows(values, source, ids[0]), build, ids)


def _items(
    rows: Iterable[TableRow | DataError],
    build: Callable[[TableRow, str], _Item],
    ids: tuple[str, ...],
) -> dict[str, _Item]:
    items: dict[str, _Item] = {}
    for row in rows:
        if isinstance(row, DataError):
            raise row
        item = build(row, _identifier(row, ids))
        if items.setdefault(item.id, item) != item:
            raise row.refusal(f"id {item.id!r} is already used for other content")
    return items


def _rows(values: object, source: str, key: str) -> Iterator[TableRow | DataError]:
    """Rows of either form; `{id: value}` becomes a row with its id."""
    if isinstance(values, Mapping):
        values = [_row_of(key, identifier, value) for identifier, value in values.items()]
    return rows_of(values, source)


def _row_of(key: str, identifier: object, value: object) -> dict[str, Any]:
    if isinstance(value, Document):
        value = {"title": value.title, "text": value.text, "metadata": dict(value.metadata)}
    elif isinstance(value, Query):
        value = {"text": value.text, "tags": list(value.tags)}
    return {**(value if isinstance(value, Mapping) else {"text": value}), key: identifier}


def _query(row: TableRow, query_id: str) -> Query:
    tags = [str(tag) for tag in cell_list(row.fields.get("tags"))]
    return Query(query_id, _text(row, _QUERY_TEXTS), tuple(tags))


def _document(row: TableRow, doc_id: str) -> Document:
    metadata = row.fields.get("metadata")
    title = _text(row, ("title",)) if row.fields.get("title") else ""
    text = _text(row, ("text", "content"))
    return Document(doc_id, title, text, metadata if isinstance(metadata, dict) else {})


def _judged(judgments: object) -> Iterator[tuple[TableRow, str, str, int]]:
    if isinstance(judgments, Mapping):
        judgments = list(_judgment_rows(judgments))
    for row in _rows(judgments, "judgments", "query_id"):
        if isinstance(row, DataError):
            raise row
        value = next((row.fields[name] for name in _GRADES if name in row.fields), 1)
        grade = parse_grade(str(value))
        if grade is None:
            raise row.refusal(wrong_grade(value))
        yield row, _identifier(row, _QUERY_IDS[:3]), _identifier(row, _DOC_IDS), grade


def _judgment_rows(judgments: Mapping[Any, Any]) -> Iterator[dict[str, Any]]:
    for query_id, grades in judgments.items():
        if isinstance(grades, str) or not isinstance(grades, Iterable):
            raise DataError(
                f"judgments: query {query_id!r} must have {{id: grade}} or a list of ids, got "
                f"{short_repr(grades)}"
            )
        pairs = grades.items() if isinstance(grades, Mapping) else ((each, 1) for each in grades)
        for doc_id, grade in pairs:
            yield {"query_id": query_id, "doc_id": doc_id, "grade": grade}


def _identifier(row: TableRow, names: tuple[str, ...]) -> str:
    value = next((row.fields[name] for name in names if name in row.fields), None)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a data frame's column of integers with gaps
    if value is None or isinstance(value, bool | float | list | dict) or not str(value).strip():
        raise row.refusal(f"{names[0]!r} must be a non-empty id, got {short_repr(value)}")
    return str(value)


def _text(row: TableRow, names: tuple[str, ...]) -> str:
    if not any(name in row.fields for name in names):
        have = short_repr(list(row.fields))
        raise row.refusal(f"has no column for the {names[0]} ({', '.join(names)}), only {have}")
    value = next((row.fields[name] for name in names if name in row.fields), None)
    if not isinstance(value, str):
        raise row.refusal(f"{names[0]!r} must be text, got {short_repr(value)}")
    return value

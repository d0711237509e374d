"""Documents, queries and judgments from rows: files of BEIR and MTEB, tables, and Python values.

Columns are found by the names that are in use: `_id`, `docid`, `contents`, `corpus-id`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from sys import intern
from typing import Any, TypeVar

from assay.data.dataset import Dataset, Document, Judgments, Query, ReferenceAnswer
from assay.data.qrels import parse_grade, read_judgments, wrong_grade
from assay.data.stored_documents import DocumentWriter, stays_on_disk, store_documents
from assay.data.table import cell_list, read_table, rows_of, table_suffix
from assay.data.text_file import Findings, ItemsById, Record, TextFile, plain_file, short_repr
from assay.errors import DataError
from assay.net.json import JsonObject
from assay.text import respelled

_DOC_IDS = ("_id", "doc_id", "docid", "docno", "document_id", "corpus_id", "id", "pid")
_TEXTS = ("text", "contents", "content", "body", "passage", "segment")
_QUERY_IDS = ("_id", "query_id", "qid", "id", "topic_id")
_QUERY_TEXTS = ("query", "text", "question", "query_text", "title")
_JUDGED_QUERIES = ("query_id", "qid", "topic_id", "topic", "query", "_id")
_JUDGED_DOCUMENTS = ("doc_id", "corpus_id", "docid", "document_id", "pid", "id")
_GRADES = ("grade", "score", "relevance", "label", "rel")
_QRELS = (".tsv", ".txt", ".qrels", "")

_Item = TypeVar("_Item", Query, Document)


def read_documents(files: Sequence[TextFile | Path], findings: Findings) -> Mapping[str, Document]:
    """Documents by id from tables with an id, a text and optionally a title.

    Those of a large corpus stay on the disk.
    """
    opened = [plain_file(each) if isinstance(each, Path) else each for each in files]
    collect = partial(_collect_documents, opened)
    if stays_on_disk(opened):
        return store_documents(opened, collect, findings)
    documents: dict[str, Document] = {}
    collect(documents, findings)
    return documents


def _collect_documents(
    files: Sequence[TextFile], found: DocumentWriter | dict[str, Document], findings: Findings
) -> None:
    before = findings.error_count
    for file in files:
        collect(read_table(file), _document, findings, found)
    if not len(found) and findings.error_count == before:
        raise DataError("has no documents; add rows with '_id' and 'text'", file=files[0].label)


def read_queries(files: Sequence[TextFile], findings: Findings) -> dict[str, Query]:
    """Queries by id from tables with an id and a text."""
    queries: dict[str, Query] = {}
    for file in files:
        collect(read_table(file), _query, findings, queries)
    if not queries and not findings.error_count:
        raise DataError("has no queries; add rows with '_id' and 'text'", file=files[0].label)
    return queries


def read_grades(file: TextFile, findings: Findings) -> dict[str, dict[str, int]]:
    """Judgments from a table, or from a file of TREC's four or BEIR's three columns."""
    if table_suffix(Path(file.label)) in _QRELS:
        return read_judgments(file, findings)
    judgments: dict[str, dict[str, int]] = {}
    for row in read_table(file):
        with findings.errors_collected():
            if isinstance(row, DataError):
                raise row
            _add_judgment(row, judgments)
    return judgments


def collect(
    rows: Iterable[Record | DataError],
    build: Callable[[Record, Findings], _Item],
    findings: Findings,
    found: ItemsById[_Item],
) -> None:
    """Put the items of rows into `found`. A repeated one is noted; another one with the same id is
    refused, because scores would depend on which of the two is used.
    """
    for row in rows:
        if isinstance(row, DataError):
            findings.refuse(row)
            continue
        try:
            item = build(row, findings)
        except DataError as error:
            findings.refuse(error)
            continue
        earlier = found.setdefault(item.id, item)
        if earlier is item:
            continue
        if _same(earlier, item):
            what = f"{Path(row.source).name}: rows that repeat an earlier one (kept once)"
            findings.note(what, f"{item.id!r} {row.place}")
        else:
            what = f"id {item.id!r} is already used for other content; rename or delete one of both"
            findings.refuse(row.refusal(what))


def _same(a: object, b: object) -> bool:
    try:
        return a == b
    except RecursionError:  # metadata nested a thousand deep, which JSON allows
        return False


def _document(row: Record, findings: Findings) -> Document:
    metadata = row.fields.get("metadata")
    document = Document(
        _identifier(row, _DOC_IDS),
        _text(row, ("title",), required=False),
        _text(row, _TEXTS),
        metadata if isinstance(metadata, dict) else {},
    )
    if not document.full_text:
        what = f"{Path(row.source).name}: documents with neither title nor text"
        findings.note(what, f"{document.id!r} {row.place}")
    return document


def _query(row: Record, findings: Findings) -> Query:
    metadata = row.fields.get("metadata")
    tags = row.fields.get("tags", metadata.get("tags") if isinstance(metadata, dict) else None)
    kept = tuple(intern(each) for each in cell_list(tags) if isinstance(each, str))
    query = Query(_identifier(row, _QUERY_IDS), _text(row, _QUERY_TEXTS), kept)
    if not query.text.strip():
        what = f"{Path(row.source).name}: queries without text"
        findings.note(what, f"{query.id!r} {row.place}")
    return query


def _add_judgment(row: Record, judgments: dict[str, dict[str, int]]) -> str:
    """Add the judgment of a row; returns the id of its query."""
    query_id, doc_id = _identifier(row, _JUDGED_QUERIES), _identifier(row, _JUDGED_DOCUMENTS)
    value = _field_of(row.fields, _GRADES, absent=1)  # a gap in that column is no relevant document
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
        what = f"{name}: judgments dropped, because their query does not exist"
        findings.note(what, f"query {query_id!r}", count=len(judgments.pop(query_id)))
    lacking = f"{name}: judged documents that are not in the corpus (no system can retrieve them)"
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
        what = "splits without a judged document in the corpus (write the new ids into qrels)"
        findings.note(what, repr(name))
    return judgments


def _identifier(row: Record, names: Sequence[str]) -> str:
    """The id in the first column of these names, interned; `DataError` if there is none."""
    value = _field_of(row.fields, names)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a data frame's column of integers with gaps
    if value is None or isinstance(value, bool | float | list | dict) or not str(value).strip():
        raise row.refusal(
            f"has no id in a column {', '.join(names[:3])} or the like, got {short_repr(value)} "
            f"from the columns {short_repr(list(row.fields))}"
        )
    return intern(str(value))


def _text(row: Record, names: Sequence[str], *, required: bool = True) -> str:
    value = _field_of(row.fields, names, absent=_ABSENT)
    if value is _ABSENT and required:
        have = short_repr(list(row.fields))
        raise row.refusal(f"has no text in a column {', '.join(names[:3])}, only {have}")
    if value is _ABSENT or value is None or (isinstance(value, float) and isnan(value)):
        return ""
    if not isinstance(value, str):
        raise row.refusal(f"{names[0]!r} must be text, got {short_repr(value)}")
    return value


_ABSENT = object()


def _field_of(fields: JsonObject, names: Sequence[str], absent: object = None) -> object:
    """The value of the first column that is called so; upper case, `-` and `_` are the same.
    `absent` if there is no such column."""
    for name in names:
        if name in fields:
            return fields[name]
    spelled = {str(name).strip().casefold().replace("-", "_"): name for name in fields}
    found = next((spelled[name] for name in names if name in spelled), None)
    return absent if found is None else fields[found]


def dataset_from_dicts(
    queries: object,
    judgments: object,
    documents: object,
    answers: Mapping[str, str | None] | None,
    name: str,
    split: str,
) -> Dataset:
    """See `Dataset.from_dicts`."""
    asked: dict[str, Query] = {}
    found: dict[str, Document] = {}
    collect(_rows_in_memory(queries, "queries", "query_id"), _query, Findings(), asked)
    if not asked or not all(query.text for query in asked.values()):
        raise DataError("queries must be texts, at least one, such as {'q1': 'How long?'}")
    given = {} if documents is None else documents
    collect(_rows_in_memory(given, "documents", "doc_id"), _document, Findings(), found)
    judged: dict[str, dict[str, int]] = {}
    if isinstance(judgments, Mapping):
        judgments = list(_judgment_rows(judgments))
    for row in rows_of(judgments, "judgments"):
        if isinstance(row, DataError):
            raise row
        if (query_id := _add_judgment(row, judged)) not in asked:
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

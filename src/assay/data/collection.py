"""Documents, queries and judgments in tables of other tools: Parquet, JSON lines, CSV, TSV.

One table holds one kind of thing, in one file or in several, and columns are found by the names
that are in use: `_id`, `docid`, `contents`, `corpus-id`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from pathlib import Path
from sys import intern
from typing import TypeVar

from assay.data.dataset import Document, Judgments, Query
from assay.data.qrels import parse_grade, read_judgments, wrong_grade
from assay.data.table import TableRow, read_table, table_suffix
from assay.data.text_file import Findings, plain_file, short_repr
from assay.errors import DataError
from assay.net.json import JsonObject
from assay.text import respelled

DOC_IDS = ("doc_id", "docid", "docno", "document_id", "corpus_id", "_id", "id", "pid")
TEXTS = ("text", "contents", "content", "body", "passage", "segment")
TITLES = ("title",)
QUERY_IDS = ("query_id", "qid", "_id", "id", "topic_id")
QUERY_TEXTS = ("text", "query", "question", "query_text", "title")
JUDGED_QUERIES = ("query_id", "qid", "query", "topic_id", "topic")
JUDGED_DOCUMENTS = ("corpus_id", "doc_id", "docid", "document_id", "pid")
GRADES = ("score", "grade", "relevance", "label", "rel")

_Item = TypeVar("_Item", Query, Document)


def read_documents(
    paths: Sequence[Path], findings: Findings, names: Sequence[str] | None = None
) -> dict[str, Document]:
    """Documents by id from tables with an id, a text and optionally a title.

    `names` are the columns of a table without a header, such as `collection.tsv` of MS MARCO.
    """
    found: dict[str, Document] = {}
    for path in paths:
        _collect(_rows(path, names), _document, found, findings)
    if not found and not findings.error_count:
        raise DataError("has no documents", file=_first(paths))
    return found


def read_queries(paths: Sequence[Path], findings: Findings) -> dict[str, Query]:
    """Queries by id from tables with an id and a text."""
    found: dict[str, Query] = {}
    for path in paths:
        _collect(_rows(path, None), _query, found, findings)
    if not found and not findings.error_count:
        raise DataError("has no queries", file=_first(paths))
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
            query_id = identifier(row, JUDGED_QUERIES)
            doc_id = identifier(row, JUDGED_DOCUMENTS)
            value = field_of(row.fields, GRADES)
            grade = 1 if value is None else parse_grade(str(value))
            if grade is None:
                raise row.refusal(wrong_grade(value))
            earlier = judgments.setdefault(query_id, {}).setdefault(doc_id, grade)
            if earlier != grade:
                raise row.refusal(
                    f"document {doc_id!r} has grade {grade} for query {query_id!r}, but {earlier} "
                    "before; delete one of the two"
                )
        except DataError as error:
            findings.refuse(error)
    return judgments


def keep_asked(
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
            "the documents renamed? carry the labels over with: assay data rekey)",
            repr(name),
        )
    return judgments


def identifier(row: TableRow, names: Sequence[str]) -> str:
    """The id in the first column of these names, interned; `DataError` where there is none."""
    value = field_of(row.fields, names)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # a data frame's column of integers with gaps
    if value is None or isinstance(value, bool | float | list | dict) or not str(value).strip():
        have = short_repr(list(row.fields))
        raise row.refusal(
            f"has no id in a column {', '.join(names[:3])} or the like, got {short_repr(value)} "
            f"from the columns {have}"
        )
    return intern(str(value))


def field_of(fields: JsonObject, names: Sequence[str]) -> object:
    """The value of the first column that is called so; upper case, `-` and `_` are the same."""
    for name in names:
        if name in fields:
            return fields[name]
    spelled = {str(name).strip().casefold().replace("-", "_"): name for name in fields}
    found = next((spelled[name] for name in names if name in spelled), None)
    return None if found is None else fields[found]


def _rows(path: Path, names: Sequence[str] | None) -> Iterable[TableRow | DataError]:
    if names is None:
        return read_table(path)
    file = plain_file(path)
    return (_unnamed(file.label, line, text, names) for line, text in file.lines())


def _unnamed(label: str, line: int, text: str, names: Sequence[str]) -> TableRow | DataError:
    cells = text.split("\t")
    row = TableRow(label, line, dict(zip(names, cells, strict=False)), lined=True)
    if len(cells) < len(names):
        return row.refusal(
            f"has {len(cells)} columns; expected {', '.join(names)}, with tabs, or a "
            "header with these names"
        )
    return row


def _collect(
    rows: Iterable[TableRow | DataError],
    build: Callable[[TableRow], _Item],
    found: dict[str, _Item],
    findings: Findings,
) -> None:
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


def _document(row: TableRow) -> Document:
    metadata = row.fields.get("metadata")
    return Document(
        identifier(row, DOC_IDS),
        _text(row, TITLES, required=False),
        _text(row, TEXTS),
        metadata if isinstance(metadata, dict) else {},
    )


def _query(row: TableRow) -> Query:
    return Query(identifier(row, QUERY_IDS), _text(row, QUERY_TEXTS))


def _text(row: TableRow, names: Sequence[str], *, required: bool = True) -> str:
    value = field_of(row.fields, names)
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


def _first(paths: Sequence[Path]) -> str:
    return str(paths[0]) if paths else "the data set"

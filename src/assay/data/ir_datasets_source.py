"""`ir_datasets:NAME`: every data set that the library of this name can provide."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assay.data.beir import drop_unknown_queries
from assay.data.cache import cache_folder, write_cached
from assay.data.dataset import Dataset, Document, Query
from assay.data.qrels import MAX_GRADE
from assay.data.text_file import Findings, short_repr
from assay.errors import AssayError, DataError, DownloadError, UsageError, did_you_mean
from assay.extras import require_extras
from assay.progress import Progress

PREFIX = "ir_datasets:"
MAX_TEXT = 8 * 2**30
"""How many characters of text are held in memory."""

_TITLES = ("title", "headline", "name")
_TEXTS = ("text", "body", "abstract", "contents")


def read_ir_dataset(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `ir_datasets:NAME`; its judgments are the split `test`.

    Raises:
        UsageError: the library is not installed, or knows no such name.
        DownloadError: the library could not get the files.
    """
    name = text.removeprefix(PREFIX)
    source = _load(name)
    documents: dict[str, Document] = {}
    with _library_errors(text):
        if source.has_docs():
            documents = _documents(source, progress)
        queries = {
            str(each.query_id): Query(str(each.query_id), _default_text(each).strip())
            for each in source.queries_iter()
        }
        judged = _judgments(source, findings, text)
    judgments = drop_unknown_queries(judged, name, documents, queries, findings)
    write_cached(_mark(text), b"")
    return Dataset(text, documents, queries, {"test": judgments}, {}, findings.messages)


def is_ir_dataset_cached(text: str) -> bool:
    """Whether it was read before, so that the library has its files."""
    return find_spec("ir_datasets") is not None and _mark(text).is_file()


def _mark(text: str) -> Path:
    return cache_folder() / "ir_datasets" / quote(text.removeprefix(PREFIX), safe="")


def _load(name: str) -> Any:
    require_extras(f"{PREFIX}{name}", "ir_datasets")
    import ir_datasets

    known = [str(each) for each in ir_datasets.registry]
    try:
        source = ir_datasets.load(name)
    except KeyError:
        hint = did_you_mean(f"{PREFIX}{name}", [f"{PREFIX}{each}" for each in known])
        raise UsageError(
            f"the library ir_datasets has no data set {name!r}; it lists them with: "
            f"ir_datasets list{hint}"
        ) from None
    if not source.has_queries() or not source.has_qrels():
        below = [each for each in known if each.startswith(f"{name}/")][:8]
        lists = f"; one of these may have both: {', '.join(below)}" if below else ""
        raise UsageError(
            f"data set '{PREFIX}{name}' lacks queries or judgments, so nothing can be measured on "
            f"it{lists}"
        )
    return source


def _documents(source: Any, progress: Progress) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    total = 0
    for record in source.docs_iter():
        document = _document(record)
        documents[document.id] = document
        total += len(document.title) + len(document.text)
        if total > MAX_TEXT:
            raise DataError(
                f"its documents have more than {MAX_TEXT // 2**30} billion characters, which are "
                "held in memory; use a smaller subset"
            )
        if len(documents) % 1000 == 0:
            progress("reading documents", len(documents), None)
    return documents


def _document(record: Any) -> Document:
    title = _first_text(record, _TITLES)
    text = _first_text(record, _TEXTS)
    if not text:
        text = _default_text(record).removeprefix(title).strip()
    return Document(str(record.doc_id), title, text)


def _judgments(source: Any, findings: Findings, name: str) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for record in source.qrels_iter():
        query_id, doc_id, grade = str(record.query_id), str(record.doc_id), record.relevance
        if not isinstance(grade, int) or abs(grade) > MAX_GRADE:
            raise DataError(f"{name}: a grade must be an integer, got {short_repr(grade)}")
        grades = judged.setdefault(query_id, {})
        if doc_id in grades and grades[doc_id] != grade:
            what = "documents with two grades for one query (the higher one is kept)"
            findings.note(what, f"{doc_id!r} for query {query_id!r}")
        grades[doc_id] = max(grade, grades.get(doc_id, grade))
    return judged


def _first_text(record: Any, names: tuple[str, ...]) -> str:
    found = (getattr(record, name, None) for name in names)
    return next((each for each in found if isinstance(each, str) and each), "")


def _default_text(record: Any) -> str:
    """What the library itself takes for the text of a record."""
    return str(record.default_text() or "")


@contextmanager
def _library_errors(name: str) -> Iterator[None]:
    """The library raises whatever its downloads and parsers do; none of it is a traceback here."""
    try:
        yield
    except AssayError:
        raise
    except Exception as error:
        what = " ".join(str(error).split())[:300] or type(error).__name__
        raise DownloadError(
            f"the library ir_datasets could not provide '{name}': {what}; check the network, and "
            f"what it needs: python -m ir_datasets lookup {name.removeprefix(PREFIX)}"
        ) from error

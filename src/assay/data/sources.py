"""Data sets that are named by where they come from: `beir:`, `hf:` and `ir_datasets:`."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from assay.data import hub
from assay.data.beir import read_beir
from assay.data.cache import cache_folder, write_cached
from assay.data.collection import keep_asked
from assay.data.dataset import Dataset, Document, Query
from assay.data.nfcorpus import ADDRESS, cached_archive, find_archive
from assay.data.qrels import MAX_GRADE
from assay.data.text_file import Findings, short_repr
from assay.errors import AssayError, DataError, DownloadError, UsageError, closest, did_you_mean
from assay.extras import require_extras
from assay.net.redact import redact_url
from assay.progress import Progress, silent

IR_DATASETS_PREFIX = "ir_datasets:"
SPLIT = "test"
"""What the judgments are called: a name of the library, such as beir/scifact/dev, is one split."""

MAX_TEXT = 8 * 2**30
"""How many characters of text are held in memory."""

_EVERY = 1000
_TITLES = ("title", "headline", "name")
_TEXTS = ("text", "body", "abstract", "contents")


def read_ir_dataset(
    text: str, findings: Findings | None = None, progress: Progress = silent
) -> Dataset:
    """The data set `ir_datasets:NAME`; its judgments are the split `test`.

    Raises:
        UsageError: the library is not installed, or knows no such name.
        DownloadError: the library could not get the files.
    """
    name = text.removeprefix(IR_DATASETS_PREFIX)
    source = _load(name)
    findings = Findings() if findings is None else findings
    documents: dict[str, Document] = {}
    with _library_errors(text):
        if source.has_docs():
            documents = _documents(source, progress)
        queries = _queries(source, text)
        judged = _judgments(source, findings, text)
    judgments = keep_asked(judged, name, documents, queries, findings)
    write_cached(_mark(text), b"")
    return Dataset(text, documents, queries, {SPLIT: judgments}, {}, findings.messages)


def is_ir_dataset_cached(text: str) -> bool:
    """Whether it was read before, so that the library has its files."""
    return find_spec("ir_datasets") is not None and _mark(text).is_file()


def _mark(text: str) -> Path:
    return cache_folder() / "ir_datasets" / quote(text.removeprefix(IR_DATASETS_PREFIX), safe="")


def _load(name: str) -> Any:
    require_extras(f"{IR_DATASETS_PREFIX}{name}", "ir_datasets")
    import ir_datasets

    try:
        source = ir_datasets.load(name)
    except KeyError:
        known = [str(each) for each in ir_datasets.registry]
        hint = did_you_mean(
            f"{IR_DATASETS_PREFIX}{name}", [f"{IR_DATASETS_PREFIX}{each}" for each in known]
        )
        raise UsageError(
            f"the library ir_datasets has no data set {name!r}; it lists them with: "
            f"ir_datasets list{hint}"
        ) from None
    if not source.has_queries() or not source.has_qrels():
        below = [str(e) for e in ir_datasets.registry if str(e).startswith(f"{name}/")]
        lists = (
            f"; with queries and judgments there may be: {', '.join(below[:8])}" if below else ""
        )
        raise UsageError(
            f"data set '{IR_DATASETS_PREFIX}{name}' has no {_lacking(source)}, so nothing can be "
            f"measured on it{lists}"
        )
    return source


def _lacking(source: Any) -> str:
    has = {"queries": source.has_queries(), "judgments (qrels)": source.has_qrels()}
    return " and no ".join(what for what, there in has.items() if not there)


def _documents(source: Any, progress: Progress) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    total = 0
    for record in source.docs_iter():
        document = _document(record)
        if documents.setdefault(document.id, document) != document:
            raise DataError(f"document id {document.id!r} occurs twice with different content")
        total += len(document.title) + len(document.text)
        if total > MAX_TEXT:
            raise DataError(
                f"its documents have more than {MAX_TEXT // 2**30} billion characters, which are "
                "held in memory; use a smaller subset"
            )
        if len(documents) % _EVERY == 0:
            progress("reading documents", len(documents), None)
    return documents


def _document(record: Any) -> Document:
    title = _first_text(record, _TITLES)
    text = _first_text(record, _TEXTS)
    if not text:
        text = _default_text(record).removeprefix(title).strip()
    return Document(str(record.doc_id), title, text)


def _queries(source: Any, name: str) -> dict[str, Query]:
    queries: dict[str, Query] = {}
    for record in source.queries_iter():
        query = Query(str(record.query_id), _default_text(record).strip())
        if queries.setdefault(query.id, query) != query:
            raise DataError(f"{name}: query id {query.id!r} occurs twice with different texts")
    return queries


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
    """What the library itself takes for the text of a record; older ones lack the method."""
    method = getattr(record, "default_text", None)
    if callable(method):
        return str(method() or "")
    known = _first_text(record, (*_TEXTS, "query", *_TITLES))
    return known or " ".join(value for value in record[1:] if isinstance(value, str))


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
            "whether the set needs files that you have to get yourself: python -m ir_datasets "
            f"lookup {name.removeprefix(IR_DATASETS_PREFIX)}"
        ) from error


PREFIX = "beir:"
BASE_VARIABLE = "ASSAY_BEIR_URL"
_MAX_BYTES = 8 * 2**30

MD5 = {
    "arguana": "8ad3e3c2a5867cdced806d6503f29b99",
    "climate-fever": "8b66f0a9126c521bae2bde127b4dc99d",
    "cqadupstack": "4e41456d7df8ee7760a7f866133bda78",
    "dbpedia-entity": "c2a39eb420a3164af735795df012ac2c",
    "fever": None,
    "fiqa": "17918ed23cd04fb15047f73e6c3bd9d9",
    "germanquad": "95a581c3162d10915a418609bcce851b",
    "hotpotqa": "f412724f78b0d91183a0e86805e16114",
    "msmarco": "444067daf65d982533ea17ebd59501e4",
    "nfcorpus": "a89dba18a62ef92f7d323ec890a0d38d",
    "nq": "d4d3d2e48787a744b6f6e691ff534307",
    "quora": "18fb154900ba42a600f84b839c173167",
    "scidocs": "38121350fc3a4d2f48850f6aff52e4a9",
    "scifact": "5f7d1de60b170fc8027bb7898e2efca1",
    "trec-covid": "ce62140cb23feb9becf6270d0d1fe6d1",
    "webis-touche2020": None,
}
"""The public sets of BEIR with the MD5 that their authors publish; None where it has changed."""


def read_beir_download(
    text: str, findings: Findings | None = None, progress: Progress = silent
) -> Dataset:
    """The data set `beir:NAME`; `beir:cqadupstack/android` is one of several in an archive.

    Raises:
        UsageError: BEIR has no such public set.
        DownloadError: it could not be downloaded; what came is kept, and the next call continues.
    """
    name, _, part = text.removeprefix(PREFIX).partition("/")
    require_beir_name(name, text)
    if name == "nfcorpus":
        return read_beir(find_archive(None, progress), text, findings)
    path, warning = _archive(name, progress)
    findings = Findings() if findings is None else findings
    if warning:
        findings.note("archives with another MD5 than the one that is published", warning)
    return read_beir(path, text, findings, inside=f"{name}/{part}" if part else "")


def is_beir_cached(text: str) -> bool:
    """Whether reading it needs no network."""
    name = text.removeprefix(PREFIX).partition("/")[0]
    if name == "nfcorpus":
        named = os.environ.get("NFCORPUS_ARCHIVE")
        return bool(named) or cached_archive().is_file()
    return name in MD5 and _place(name).is_file()


def require_beir_name(name: str, text: str) -> None:
    """Raise `UsageError` for a name that BEIR does not have."""
    if name in MD5:
        return
    near = closest(name, MD5)
    hint = f". Did you mean '{PREFIX}{near}'?" if near else ""
    raise UsageError(f"no data set {text!r}; the public sets of BEIR are: {', '.join(MD5)}{hint}")


def _archive(name: str, progress: Progress) -> tuple[Path, str]:
    from assay.net.download import DownloadLimits, download_file

    base = (os.environ.get(BASE_VARIABLE) or ADDRESS.rpartition("/")[0]).rstrip("/")
    url, path = f"{base}/{name}.zip", _place(name)
    try:
        record = download_file(
            url,
            path,
            DownloadLimits(_MAX_BYTES),
            what=f"downloading {name}.zip",
            progress=progress,
        )
    except DownloadError as error:
        raise DownloadError(
            f"data set '{PREFIX}{name}' is not in the cache and could not be downloaded from "
            f"{redact_url(url)}: {error}. Run the command again to continue; or download "
            f"{name}.zip elsewhere and pass its path, or set {BASE_VARIABLE} to the address of a "
            "folder that has it"
        ) from error
    published = MD5[name]
    if published is None or published == record.md5:
        return path, ""
    return path, f"{name}.zip has {record.md5}, published is {published}"


def _place(name: str) -> Path:
    return cache_folder() / "beir" / f"{name}.zip"


Read = Callable[[str, Findings | None, Progress], Dataset]


@dataclass(frozen=True, slots=True)
class DataSource:
    """One kind of name, `PREFIX:NAME`.

    Attributes:
        read: reads a data set by its whole name, and downloads it where it is not in the cache.
        is_here: whether that needs no network, as far as it is known.
        what: a line for `assay data list`.
    """

    read: Read
    is_here: Callable[[str], bool]
    what: str


SOURCES: Mapping[str, DataSource] = {
    "beir": DataSource(
        read_beir_download,
        is_beir_cached,
        f"the public sets of the BEIR benchmark: {', '.join(MD5)}",
    ),
    "hf": DataSource(
        hub.read_hub,
        hub.is_hub_cached,
        "a retrieval data set on the model hub, in BEIR's or MTEB's layout: "
        "hf:ORG/NAME[@REVISION][#CONFIG]",
    ),
    "ir_datasets": DataSource(
        read_ir_dataset,
        is_ir_dataset_cached,
        "every set of the library ir_datasets (pip install 'agent-assay[ir-datasets]')",
    ),
}


def source_of(name: object) -> DataSource | None:
    """The source that a name begins with; None for names and paths without one."""
    prefix, colon, rest = str(name).partition(":")
    return SOURCES.get(prefix) if colon and rest else None


def similar_name(name: str, known: Mapping[str, str]) -> str | None:
    """What somebody meant who wrote a name that there is not; None where nothing is near."""
    prefix, colon, rest = name.partition(":")
    if colon:
        near = closest(prefix.replace("-", "_"), SOURCES, cutoff=0.5)
        return f"{near}:{rest}" if near else None
    if name.lower() in MD5 and name.lower() not in known:
        return f"{PREFIX}{name.lower()}"
    names = {**{each: each for each in known}, **_beir_names(known)}
    found = closest(name, names, cutoff=0.75)
    return names[found] if found else None


def _beir_names(known: Mapping[str, str]) -> dict[str, str]:
    return {each: f"{PREFIX}{each}" for each in MD5 if each not in known}

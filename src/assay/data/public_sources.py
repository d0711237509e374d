"""Public data sets by name: `beir:NAME`, `hf:ORG/NAME` and `ir_datasets:NAME`, kept in the cache.

The texts of most are free for academic use only, so none is shipped. A commit of a hub that was
downloaded once is used from then on: the data of a run stays the same when others change theirs.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from assay.data.beir import (
    MAX_FILES,
    drop_unknown_queries,
    read_beir,
    read_files,
    sort_files,
    table_stem,
)
from assay.data.cache import cache_folder
from assay.data.dataset import Dataset, Document, Query
from assay.data.qrels import parse_grade
from assay.data.text_file import Findings, plain_file, reading, write_file
from assay.errors import AssayError, DataError, DownloadError, UsageError, did_you_mean
from assay.extras import require_extras
from assay.files import open_file, read_file
from assay.net.json import parse_object
from assay.net.redact import redact_url
from assay.progress import Progress

if TYPE_CHECKING:
    from assay.net.client import TokenFor

# The public sets of BEIR with the MD5 that their authors publish, None if it has changed; the
# SHA-256 of NFCorpus.
BEIR_HASHES = {
    "arguana": "8ad3e3c2a5867cdced806d6503f29b99",
    "climate-fever": "8b66f0a9126c521bae2bde127b4dc99d",
    "cqadupstack": "4e41456d7df8ee7760a7f866133bda78",
    "dbpedia-entity": "c2a39eb420a3164af735795df012ac2c",
    "fever": None,
    "fiqa": "17918ed23cd04fb15047f73e6c3bd9d9",
    "germanquad": "95a581c3162d10915a418609bcce851b",
    "hotpotqa": "f412724f78b0d91183a0e86805e16114",
    "msmarco": "444067daf65d982533ea17ebd59501e4",
    "nfcorpus": "efe5be03f8c5b86a5870102d0599d227c8c6e2484328e68c6522560385671b0b",
    "nq": "d4d3d2e48787a744b6f6e691ff534307",
    "quora": "18fb154900ba42a600f84b839c173167",
    "scidocs": "38121350fc3a4d2f48850f6aff52e4a9",
    "scifact": "5f7d1de60b170fc8027bb7898e2efca1",
    "trec-covid": "ce62140cb23feb9becf6270d0d1fe6d1",
    "webis-touche2020": None,
}

MAX_TEXT = 8 * 2**30  # how many characters of ir_datasets are held in memory
_BEIR_URL = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
_HUB_URL = "https://huggingface.co"
_MAX_LISTING = 64 * 2**20
_MAX_FILE = 16 * 2**30
_HUB_NAME = re.compile(r"hf:([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
_offline: ContextVar[bool] = ContextVar("offline", default=False)


@contextmanager
def offline() -> Iterator[None]:
    """Within the block nothing is downloaded: what is not on this machine is a `DownloadError`."""
    token = _offline.set(True)
    try:
        yield
    finally:
        _offline.reset(token)


def require_network(name: str) -> None:
    """Raise `DownloadError` within `offline`."""
    if _offline.get():
        raise DownloadError(f"the data set {name!r} is not on this machine")


def read_beir_download(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `beir:NAME`, or `nfcorpus`; `beir:cqadupstack/android` is one of several."""
    name, _, part = text.removeprefix("beir:").partition("/")
    if name not in BEIR_HASHES:
        hint = did_you_mean(text, [f"beir:{known}" for known in BEIR_HASHES])
        raise UsageError(
            f"no data set {text!r}; the public sets of BEIR are: {', '.join(BEIR_HASHES)}{hint}"
        )
    path = cache_folder() / ("" if name == "nfcorpus" else "beir") / f"{name}.zip"
    if name == "nfcorpus" and (given := os.environ.get("NFCORPUS_ARCHIVE")):
        path = Path(given).expanduser()
    else:
        _download_archive(name, path, progress)
    algorithm = "sha256" if name == "nfcorpus" else "md5"
    # Each time: a file in the cache may have been cut or replaced since.
    with reading(path), open_file(path) as stream:
        found = hashlib.file_digest(stream, algorithm).hexdigest()
    if BEIR_HASHES[name] not in (None, found):
        wrong = f"{path} has {algorithm} {found}, published is {BEIR_HASHES[name]}"
        if name == "nfcorpus":  # figures on another corpus would not be figures on NFCorpus
            raise DataError(f"{wrong}; delete it, or for other data pass --dataset {path}")
        findings.note("archives with another checksum than the published one", wrong)
    return read_beir(path, text, findings, part)


def _download_archive(name: str, path: Path, progress: Progress) -> None:
    if path.is_file():
        return
    require_network(f"beir:{name}")
    from assay.net.download import download_file  # brings httpx: 0.1 s
    from assay.net.outbound import UNRESTRICTED

    mirror = os.environ.get("ASSAY_BEIR_URL")
    url = f"{(mirror or _BEIR_URL).rstrip('/')}/{name}.zip"
    # The user chose the address of a mirror, which may be at home.
    policy = UNRESTRICTED if mirror else None
    what = f"downloading {name}.zip"
    try:
        download_file(url, path, _MAX_FILE, what=what, policy=policy, progress=progress)
    except DownloadError as error:
        raise DownloadError(
            f"{name}.zip could not be downloaded from {redact_url(url)}: {error}; name a mirror "
            "with ASSAY_BEIR_URL, pass the zip (NFCORPUS_ARCHIVE=FILE), or use --dataset notes"
        ) from error


def read_hub(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `hf:ORG/NAME[@REVISION]`, downloaded once; a broken download goes on."""
    match = _HUB_NAME.fullmatch(text)
    if match is None or ".." in text:
        raise UsageError(
            f"{text!r} is not a data set on the hub; write hf:ORG/NAME, with @REVISION if needed"
        )
    repo, revision = match[1], match[2] or ""
    commit, paths = _hub_listing(repo, revision)
    files = sort_files(paths, f"hf:{repo}")
    local = _download_files(repo, commit, chain.from_iterable(files.values()), progress)
    if not any(role.startswith("qrels/") for role in files):
        # BEIR's sets keep their judgments in a separate repository, all of whose tables are
        # judgments, whatever their folder is called.
        beside = f"{repo}-qrels"
        try:
            commit, paths = _hub_listing(beside, "")
        except UsageError:
            paths = []
        found = _download_files(beside, commit, filter(table_stem, paths), progress)
        for path, place in found.items():
            local[f"qrels/{path}"] = place
            files.setdefault(f"qrels/{table_stem(path)}", []).append(f"qrels/{path}")
    opened = {path: plain_file(place) for path, place in local.items()}
    return read_files(files, opened, f"hf:{repo}", findings)


def _hub_record(repo: str, revision: str = "") -> Path:
    """The file that has the commit of a revision and the paths of its files."""
    folder = cache_folder() / "hub" / repo.replace("/", "--")
    return folder / f"{quote(revision or 'main', safe='')}.json"


def _hub_access() -> "tuple[str, TokenFor | None]":
    """The address of the hub, and the token for it."""
    from assay.net.client import token_for
    from assay.net.outbound import policy_of_process

    base = (os.environ.get("HF_ENDPOINT") or _HUB_URL).rstrip("/")
    return base, token_for(base, policy_of_process(), "HF_TOKEN")


def _hub_listing(repo: str, revision: str) -> tuple[str, list[str]]:
    """The commit, and the paths of all its files."""
    record = _hub_record(repo, revision)
    if record.is_file():
        known = parse_object(read_file(record)) or {}
        return str(known["sha"]), list(known["paths"])
    require_network(f"hf:{repo}")
    from assay.net.download import fetch_json

    base, token = _hub_access()
    at = f"/revision/{quote(revision, safe='')}" if revision else ""
    try:
        found = fetch_json(f"{base}/api/datasets/{repo}{at}", limit=_MAX_LISTING, auth=token)
        commit = quote(str(found["sha"]), safe="")
        paths = [str(sibling["rfilename"]) for sibling in found["siblings"]]
    except DownloadError as error:
        if error.status in (401, 403, 404):
            raise UsageError(
                f"the hub has no data set {repo!r}{revision and f' at revision {revision!r}'}, or "
                f"it is not public ({error}); for a private or gated one set HF_TOKEN"
            ) from error
        raise DownloadError(
            f"'hf:{repo}' is not in the cache, and {redact_url(base)} could not be asked: {error}; "
            "pass a folder with its files, or name a mirror with HF_ENDPOINT"
        ) from error
    except (KeyError, TypeError):
        what = f"the list of files of 'hf:{repo}' was not understood"
        raise DownloadError(f"{what}; is HF_ENDPOINT the address of a hub?") from None
    for path in (commit, *paths):  # a hub that sends `../x` writes nowhere else
        if "\\" in path or path.startswith("/") or ".." in path.split("/"):
            raise DataError(
                f"the hub lists {path[:100]!r}, a path outside of the data set; it is not read"
            )
    write_file(record, orjson.dumps({"sha": commit, "paths": paths}))
    return commit, paths


def _download_files(
    repo: str, commit: str, paths: Iterable[str], progress: Progress
) -> dict[str, Path]:
    """Where each file is on this machine; what is missing is downloaded."""
    from assay.net.download import download_file

    local = {path: _hub_record(repo).parent / commit / path for path in paths}
    if len(local) > MAX_FILES:
        raise DataError(f"hf:{repo} has {len(local):,} files, more than {MAX_FILES:,}")
    base, token = _hub_access()
    for path, place in local.items():
        if not place.is_file():
            require_network(f"hf:{repo}")
        url = f"{base}/datasets/{repo}/resolve/{commit}/{quote(path)}"
        what = f"downloading {place.name}"
        try:
            download_file(url, place, _MAX_FILE, what=what, auth=token, progress=progress)
        except DownloadError as error:
            raise DownloadError(
                f"{path} of 'hf:{repo}' could not be downloaded: {error}; try again, or, if it is "
                "gated, accept its terms on the hub and set HF_TOKEN"
            ) from error
    return local


def read_ir_dataset(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `ir_datasets:NAME`; its judgments are the split `test`."""
    name = text.removeprefix("ir_datasets:")
    require_extras(text, "ir_datasets")
    if not _ir_mark(text).is_file():  # else the library has its files
        require_network(text)
    import ir_datasets

    try:
        source = ir_datasets.load(name)
    except KeyError:
        hint = did_you_mean(text, [f"ir_datasets:{known}" for known in ir_datasets.registry])
        raise UsageError(
            f"the library ir_datasets has no data set {name!r}; it lists them with: "
            f"ir_datasets list{hint}"
        ) from None
    if not source.has_queries() or not source.has_qrels():
        below = [str(known) for known in ir_datasets.registry if str(known).startswith(f"{name}/")]
        subsets = ", ".join(below[:8]) or "none"
        raise UsageError(f"data set {text!r} lacks queries or judgments; subsets: {subsets}")
    try:
        documents = _ir_documents(source, text, progress)
        queries = {
            str(query.query_id): Query(str(query.query_id), str(query.default_text() or "").strip())
            for query in source.queries_iter()
        }
        judged: dict[str, dict[str, int]] = {}
        for record in source.qrels_iter():
            query_id, doc_id = str(record.query_id), str(record.doc_id)
            grades, grade = judged.setdefault(query_id, {}), parse_grade(record.relevance)
            if grades.get(doc_id, grade) != grade:
                what = "documents with two grades for one query (the higher one is kept)"
                findings.note(what, f"{doc_id!r} for query {query_id!r}")
            grades[doc_id] = max(grade, grades.get(doc_id, grade))
    except AssayError:
        raise
    except Exception as error:  # the library raises whatever its downloads and parsers do
        what = " ".join(str(error).split())[:300] or type(error).__name__
        raise DownloadError(
            f"the library ir_datasets could not provide {text!r}: {what}; check the network, and "
            f"what it needs: python -m ir_datasets lookup {name}"
        ) from error
    judgments = drop_unknown_queries(judged, text, documents, queries, findings)
    write_file(_ir_mark(text), b"")
    return Dataset(text, documents, queries, {"test": judgments}, {}, findings.messages)


def _ir_mark(text: str) -> Path:
    return cache_folder() / "ir_datasets" / quote(text.removeprefix("ir_datasets:"), safe="")


def _ir_documents(source: Any, name: str, progress: Progress) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    total = 0
    for record in source.docs_iter() if source.has_docs() else ():
        title = _first_text(record, "title", "headline", "name")
        text = _first_text(record, "text", "body", "abstract", "contents")
        text = text or str(record.default_text() or "").removeprefix(title).strip()
        doc_id = str(record.doc_id)
        documents[doc_id] = Document(doc_id, title, text)
        total += len(title) + len(text)
        if total > MAX_TEXT:
            size = f"{MAX_TEXT // 2**30} billion characters"
            raise DataError(f"its documents have over {size}; use a smaller subset", file=name)
        if len(documents) % 1000 == 0:
            progress("reading documents", len(documents), None)
    return documents


def _first_text(record: Any, *names: str) -> str:
    found = (getattr(record, name, None) for name in names)
    return next((text for text in found if isinstance(text, str) and text), "")


DataReader = Callable[[str, Findings, Progress], Dataset]
# What reads `PREFIX:NAME`, and the line of `assay data list` about it.
SOURCES: Mapping[str, tuple[DataReader, str]] = {
    "beir": (
        read_beir_download,
        f"the public sets of the BEIR benchmark: {', '.join(BEIR_HASHES)}",
    ),
    "hf": (
        read_hub,
        "a retrieval data set on the model hub, in BEIR's or MTEB's layout: hf:ORG/NAME[@REVISION]",
    ),
    "ir_datasets": (
        read_ir_dataset,
        "every set of the library ir_datasets (pip install 'agent-assay[ir-datasets]')",
    ),
}

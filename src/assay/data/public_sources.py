"""Public data sets by name: `beir:NAME`, `hf:ORG/NAME` and `ir_datasets:NAME`, kept in the cache.

The texts of most are free for academic use only, so they are downloaded and never shipped. A commit
of a hub that was downloaded once is used from then on without asking the hub: the data of a run
stays the same when others change theirs. `hf:ORG/NAME@REVISION` takes another one.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from assay.data.beir import (
    MAX_FILES,
    DatasetFiles,
    choose_config,
    drop_unknown_queries,
    read_beir,
    read_files,
    sort_files,
)
from assay.data.cache import cache_folder, write_cached
from assay.data.dataset import Dataset, Document, Query
from assay.data.qrels import MAX_GRADE
from assay.data.text_file import Findings, plain_file, reason, short_repr
from assay.errors import (
    AssayError,
    DataError,
    DownloadError,
    UsageError,
    closest,
    did_you_mean,
)
from assay.extras import require_extras
from assay.files import move_into_place, open_file, read_file, read_text_file
from assay.net.json import JsonObject, parse_object
from assay.net.redact import redact_url
from assay.progress import Progress, silent

if TYPE_CHECKING:
    from assay.net.client import TokenFor

# The public sets of BEIR with the MD5 that their authors publish; None if it has changed.
BEIR_MD5 = {
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

# Of NFCorpus, checked each time: figures on another corpus would not be figures on NFCorpus.
HASHES = {
    "md5": "a89dba18a62ef92f7d323ec890a0d38d",  # the one that BEIR publishes
    "sha256": "efe5be03f8c5b86a5870102d0599d227c8c6e2484328e68c6522560385671b0b",
}

BEIR_VARIABLE = "ASSAY_BEIR_URL"
HUB_VARIABLE = "HF_ENDPOINT"
HUB_TOKEN_VARIABLE = "HF_TOKEN"
DOWNLOAD_MAX_BYTES = 16 * 2**20  # NFCorpus has 2.4 million bytes: a much larger response is not it
STALL_SECONDS = 20.0
TOTAL_SECONDS = 300.0  # bounds a server that sends slowly without ever stalling
MAX_TEXT = 8 * 2**30  # how many characters of ir_datasets are held in memory
_BEIR_URL = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets"
_HUB_URL = "https://huggingface.co"
_MAX_ARCHIVE = 8 * 2**30
_MAX_LISTING = 64 * 2**20
_MAX_FILE = 16 * 2**30
_HUB_NAME = re.compile(
    r"hf:(?P<repo>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?:#(?P<config>[\w.-]+))?"
)
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_JUDGED = "qrels/"


def read_beir_download(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `beir:NAME`; `beir:cqadupstack/android` is one of several in an archive."""
    name, _, part = text.removeprefix("beir:").partition("/")
    if name not in BEIR_MD5:
        near = closest(name, BEIR_MD5)
        hint = f". Did you mean 'beir:{near}'?" if near else ""
        raise UsageError(
            f"no data set {text!r}; the public sets of BEIR are: {', '.join(BEIR_MD5)}{hint}"
        )
    if name == "nfcorpus":
        return read_beir(find_archive(None, progress), text, findings)
    path, md5 = _download_archive(name, progress)
    if BEIR_MD5[name] not in (None, md5):
        what = "archives with another MD5 than the one that is published"
        findings.note(what, f"{name}.zip has {md5}, published is {BEIR_MD5[name]}")
    return read_beir(path, text, findings, config=part)


def is_beir_cached(text: str) -> bool:
    """Whether reading it needs no network."""
    name = text.removeprefix("beir:").partition("/")[0]
    if name == "nfcorpus":
        return bool(os.environ.get("NFCORPUS_ARCHIVE")) or cached_archive().is_file()
    return name in BEIR_MD5 and _archive_place(name).is_file()


def _archive_place(name: str) -> Path:
    return cache_folder() / "beir" / f"{name}.zip"


def _download_archive(name: str, progress: Progress) -> tuple[Path, str]:
    """Where the archive is, and its MD5."""
    from assay.net.download import DownloadLimits, download_file  # brings httpx: 0.1 s

    base = (os.environ.get(BEIR_VARIABLE) or _BEIR_URL).rstrip("/")
    url, path = f"{base}/{name}.zip", _archive_place(name)
    limits, what = DownloadLimits(_MAX_ARCHIVE), f"downloading {name}.zip"
    try:
        return path, download_file(url, path, limits, what=what, progress=progress).md5
    except DownloadError as error:
        raise DownloadError(
            f"'beir:{name}' could not be downloaded from {redact_url(url)}: {error}. Run it again, "
            f"pass the path of {name}.zip, or name a mirror with {BEIR_VARIABLE}"
        ) from error


def find_archive(archive: Path | None = None, progress: Progress = silent) -> Path:
    """NFCorpus with the right hashes: `archive`, else NFCORPUS_ARCHIVE, else cached or downloaded.

    A wrong archive that the user named is refused, never replaced by a download.
    """
    named = os.environ.get("NFCORPUS_ARCHIVE")
    if archive is None and not named:
        cached = cached_archive()
        if not cached.is_file() or _wrong_hash(cached):
            _download_nfcorpus(cached, progress)
        return cached
    what = "the given archive" if archive else "the archive in NFCORPUS_ARCHIVE"
    path = archive or Path(named or "").expanduser()
    try:
        wrong = _wrong_hash(path)
    except OSError as error:
        raise DataError(f"{what} cannot be read: {reason(error)}", file=path) from error
    if wrong:
        raise DataError(
            f"{what} is not NFCorpus: {wrong}; to evaluate on other data, use --dataset {path}",
            file=path,
        )
    return path


def cached_archive() -> Path:
    """Where a downloaded NFCorpus is kept."""
    return cache_folder() / "nfcorpus.zip"


def archive_state(path: Path, where: str) -> str:
    """What is at `path`, which `where` names; nothing is downloaded."""
    if not path.is_file():
        return f"not downloaded; {where} looks for it at {path}"
    return f"{path} is damaged or another file" if _wrong_hash(path) else f"{path}, from {where}"


def _wrong_hash(path: Path) -> str:
    """The hash that is not as published; "" if the file is the archive. Raises `OSError`."""
    for name, expected in HASHES.items():
        with open_file(path) as stream:
            found = hashlib.file_digest(stream, name).hexdigest()
        if found != expected:
            return f"expected {name} {expected}, got {found}"
    return ""


def _download_nfcorpus(path: Path, progress: Progress) -> None:
    from assay.net.download import DownloadLimits, temporary_download

    url = os.environ.get("NFCORPUS_URL") or f"{_BEIR_URL}/nfcorpus.zip"
    limits = DownloadLimits(DOWNLOAD_MAX_BYTES, TOTAL_SECONDS, STALL_SECONDS, attempts=1)
    what = "downloading nfcorpus.zip"
    opened = temporary_download(url, limits, what=what, folder=path.parent, progress=progress)
    try:
        with opened as (part, _):
            if wrong := _wrong_hash(part):
                raise DownloadError(f"the download is damaged or not NFCorpus: {wrong}")
            move_into_place(part, path)
    except DownloadError as error:
        raise DownloadError(
            f"NFCorpus could not be downloaded from {redact_url(url)}: {error}. Set "
            "NFCORPUS_ARCHIVE=FILE; --dataset notes needs no network"
        ) from error


@dataclass(frozen=True, slots=True)
class HubName:
    """`hf:ORG/NAME@REVISION#CONFIG`, the last two optional."""

    repo: str
    revision: str = ""
    config: str = ""

    @classmethod
    def parse(cls, text: str) -> "HubName":
        """Raises `UsageError`."""
        match = _HUB_NAME.fullmatch(text)
        if match is None or ".." in text:
            raise UsageError(
                f"{text!r} is not a data set on the hub; write hf:ORG/NAME, with @REVISION and "
                "#CONFIG if they are needed"
            )
        return cls(match["repo"], match["revision"] or "", match["config"] or "")

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"hf:{self.repo}{revision}{f'#{self.config}' if self.config else ''}"

    @property
    def folder(self) -> Path:
        """Where its commits are in the cache."""
        return cache_folder() / "hub" / self.repo.replace("/", "--")

    @property
    def reference(self) -> Path:
        """The file that has the commit of this revision."""
        return self.folder / "refs" / quote(self.revision or "main", safe="")

    def cached_commit(self) -> str | None:
        """The commit that was downloaded for this revision; None if there is none."""
        if _COMMIT.fullmatch(self.revision) and (self.folder / self.revision).is_dir():
            return self.revision
        try:
            commit = read_text_file(self.reference, encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        return commit if _COMMIT.fullmatch(commit) else None


def read_hub(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `hf:ORG/NAME`, downloaded once; what came of a broken download is kept."""
    name = HubName.parse(text)
    commit, paths = _listing(name)
    files = choose_config(sort_files(paths), name.config, f"hf:{name.repo}")
    local = _local(name, commit, files.all_paths, progress)
    if not files.qrels:
        files, local = _with_judgments(name, files, local, progress)
    opened = {path: plain_file(place) for path, place in local.items()}
    return read_files(files, opened, str(replace(name, revision="")), findings)


def is_hub_cached(text: str) -> bool:
    """Whether reading it needs no network."""
    try:
        name = HubName.parse(text)
        commit = name.cached_commit()
        return commit is not None and (name.folder / commit / "files.json").is_file()
    except (UsageError, DataError):
        return False


def _with_judgments(
    name: HubName, files: DatasetFiles, local: dict[str, Path], progress: Progress
) -> tuple[DatasetFiles, dict[str, Path]]:
    """BEIR's sets keep their judgments in a repository of their own, `NAME-qrels`."""
    beside = HubName(f"{name.repo}-qrels")
    try:
        commit, listed = _listing(beside)
    except UsageError:
        return files, local
    # All tables of such a repository are judgments, whatever their folder is called.
    found = sort_files(f"{_JUDGED}{path}" for path in listed)
    judged = next((files.qrels for files in found.values() if files.qrels), {})
    paths = [path.removeprefix(_JUDGED) for members in judged.values() for path in members]
    theirs = _local(beside, commit, paths, progress)
    return replace(files, qrels=judged), local | {f"{_JUDGED}{p}": at for p, at in theirs.items()}


def _listing(name: HubName) -> tuple[str, list[str]]:
    """The commit, and the paths of all its files."""
    from assay.net.download import fetch_json

    commit = name.cached_commit()
    if commit is not None:
        with suppress(OSError):
            known = parse_object(read_file(name.folder / commit / "files.json")) or {}
            if isinstance(paths := known.get("paths"), list):
                return commit, list(map(str, paths))
    base = _hub_base()
    revision = f"/revision/{quote(name.revision, safe='')}" if name.revision else ""
    url = f"{base}/api/datasets/{name.repo}{revision}"
    try:
        found = fetch_json(url, limit=_MAX_LISTING, auth=_token(base))
    except DownloadError as error:
        raise _unavailable(name, base, error) from error
    commit, paths = _read_listing(found, name)
    write_cached(name.folder / commit / "files.json", orjson.dumps({"paths": paths}))
    write_cached(name.reference, commit.encode("ascii"))
    return commit, paths


def _read_listing(found: object, name: HubName) -> tuple[str, list[str]]:
    fields: JsonObject = found if isinstance(found, dict) else {}
    commit, siblings = str(fields.get("sha")), fields.get("siblings")
    if not _COMMIT.fullmatch(commit) or not isinstance(siblings, list):
        raise DownloadError(
            f"the list of files of {str(name)!r} was not understood; is {HUB_VARIABLE} the "
            "address of a hub?"
        )
    listed = [sibling.get("rfilename") for sibling in siblings if isinstance(sibling, dict)]
    paths = [path for path in listed if isinstance(path, str)]
    for path in paths:
        _inside(name.folder, path)
    return commit, paths


def _local(name: HubName, commit: str, paths: list[str], progress: Progress) -> dict[str, Path]:
    """Where each file is on this machine; what is missing is downloaded."""
    from assay.net.download import DownloadLimits, download_file, read_record

    if len(paths) > MAX_FILES:
        raise DataError(f"{name} has {len(paths):,} files, more than {MAX_FILES:,}")
    base, local = _hub_base(), {}
    for path in paths:
        local[path] = place = _inside(name.folder / commit, path)
        if read_record(place) is not None:
            continue
        url = f"{base}/datasets/{name.repo}/resolve/{commit}/{quote(path)}"
        limits, what = DownloadLimits(_MAX_FILE), f"downloading {place.name}"
        try:
            download_file(url, place, limits, what=what, auth=_token(base), progress=progress)
        except DownloadError as error:
            denied = error.status in (401, 403)
            terms = f"accept its terms on the hub and set {HUB_TOKEN_VARIABLE}"
            raise DownloadError(
                f"{path} of data set {str(name)!r} could not be downloaded: {error}; "
                f"{terms if denied else 'run the command again'}"
            ) from error
    return local


def _inside(folder: Path, path: str) -> Path:
    """The place of a file below `folder`: a hub that sends `../x` writes nowhere else."""
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or any(p in ("", ".", "..") for p in parts):
        raise DataError(
            f"the hub lists {path[:100]!r}, a path outside of the data set; it is not read"
        )
    return folder.joinpath(*parts)


def _hub_base() -> str:
    return (os.environ.get(HUB_VARIABLE) or _HUB_URL).rstrip("/")


def _token(base: str) -> "TokenFor | None":
    from assay.net.client import token_for
    from assay.net.outbound import policy_of_process

    return token_for(base, policy_of_process(), HUB_TOKEN_VARIABLE)


def _unavailable(name: HubName, base: str, error: DownloadError) -> UsageError | DownloadError:
    if error.status in (401, 403, 404):
        revision = f" at revision {name.revision!r}" if name.revision else ""
        return UsageError(
            f"the hub has no data set {name.repo!r}{revision}, or it is not public "
            f"({error}); for a private or gated one set {HUB_TOKEN_VARIABLE}"
        )
    return DownloadError(
        f"data set {str(name)!r} is not in the cache, and the hub could not be asked "
        f"({redact_url(base)}): {error}. Without a network, copy the data set's folder here and "
        f"pass its path; {HUB_VARIABLE} names another hub or a mirror"
    )


def read_ir_dataset(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `ir_datasets:NAME`; its judgments are the split `test`."""
    source = _open_ir_dataset(text.removeprefix("ir_datasets:"))
    documents: dict[str, Document] = {}
    with _library_errors(text):
        total = 0
        for record in source.docs_iter() if source.has_docs() else ():
            document = _ir_document(record)
            documents[document.id] = document
            total += len(document.title) + len(document.text)
            if total > MAX_TEXT:
                size = f"{MAX_TEXT // 2**30} billion characters"
                raise DataError(f"its documents have over {size}; use a smaller subset", file=text)
            if len(documents) % 1000 == 0:
                progress("reading documents", len(documents), None)
        queries = {
            str(query.query_id): Query(str(query.query_id), str(query.default_text() or "").strip())
            for query in source.queries_iter()
        }
        judged = _ir_judgments(source, findings, text)
    judgments = drop_unknown_queries(judged, text, documents, queries, findings)
    write_cached(_ir_mark(text), b"")
    return Dataset(text, documents, queries, {"test": judgments}, {}, findings.messages)


def is_ir_dataset_cached(text: str) -> bool:
    """Whether it was read before, so that the library has its files."""
    return find_spec("ir_datasets") is not None and _ir_mark(text).is_file()


def _ir_mark(text: str) -> Path:
    return cache_folder() / "ir_datasets" / quote(text.removeprefix("ir_datasets:"), safe="")


def _open_ir_dataset(name: str) -> Any:
    require_extras(f"ir_datasets:{name}", "ir_datasets")
    import ir_datasets

    known = [str(entry) for entry in ir_datasets.registry]
    try:
        source = ir_datasets.load(name)
    except KeyError:
        hint = did_you_mean(
            f"ir_datasets:{name}", [f"ir_datasets:{known_name}" for known_name in known]
        )
        raise UsageError(
            f"the library ir_datasets has no data set {name!r}; it lists them with: "
            f"ir_datasets list{hint}"
        ) from None
    if not source.has_queries() or not source.has_qrels():
        below = ", ".join([entry for entry in known if entry.startswith(f"{name}/")][:8])
        raise UsageError(
            f"data set 'ir_datasets:{name}' lacks queries or judgments"
            f"{below and f'; one of these may have both: {below}'}"
        )
    return source


def _ir_document(record: Any) -> Document:
    def first_text(*names: str) -> str:
        found = (getattr(record, name, None) for name in names)
        return next((text for text in found if isinstance(text, str) and text), "")

    title = first_text("title", "headline", "name")
    text = first_text("text", "body", "abstract", "contents")
    text = text or str(record.default_text() or "").removeprefix(title).strip()
    return Document(str(record.doc_id), title, text)


def _ir_judgments(source: Any, findings: Findings, name: str) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for record in source.qrels_iter():
        query_id, doc_id, grade = str(record.query_id), str(record.doc_id), record.relevance
        if not isinstance(grade, int) or abs(grade) > MAX_GRADE:
            raise DataError(f"{name}: a grade must be an integer, got {short_repr(grade)}")
        grades = judged.setdefault(query_id, {})
        if grades.setdefault(doc_id, grade) != grade:
            what = "documents with two grades for one query (the higher one is kept)"
            findings.note(what, f"{doc_id!r} for query {query_id!r}")
        grades[doc_id] = max(grade, grades[doc_id])
    return judged


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
            f"what it needs: python -m ir_datasets lookup {name.removeprefix('ir_datasets:')}"
        ) from error

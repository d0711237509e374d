"""`beir:NAME`: the public sets of the BEIR benchmark, from the cache or from its authors.

NFCorpus may also be an archive that was given by hand. Each of its archives is checked against the
published hashes before it is read: that takes a hundredth of a second, and figures on another
corpus would not be figures on NFCorpus. The text is free for academic use only, so it is downloaded
and never shipped.
"""

import hashlib
import os
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path

from assay.data.beir import read_beir
from assay.data.cache import cache_folder
from assay.data.dataset import Dataset
from assay.data.text_file import Findings, reason
from assay.errors import DataError, DownloadError, UsageError, closest
from assay.files import move_into_place, open_file
from assay.net.redact import redact_url
from assay.progress import Progress, silent

PREFIX = "beir:"
BASE_VARIABLE = "ASSAY_BEIR_URL"
_MAX_ARCHIVE = 8 * 2**30

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

ADDRESS = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/nfcorpus.zip"
HASHES = {
    "md5": "a89dba18a62ef92f7d323ec890a0d38d",  # the one that BEIR publishes
    "sha256": "efe5be03f8c5b86a5870102d0599d227c8c6e2484328e68c6522560385671b0b",
}
DOWNLOAD_MAX_BYTES = 16 * 2**20
"""The archive has 2.4 million bytes: a much larger response is not it."""

STALL_SECONDS = 20.0
TOTAL_SECONDS = 300.0
"""Bounds a server that sends slowly without ever stalling."""


def read_beir_download(text: str, findings: Findings, progress: Progress) -> Dataset:
    """The data set `beir:NAME`; `beir:cqadupstack/android` is one of several in an archive.

    Raises:
        UsageError: BEIR has no such public set.
        DownloadError: it could not be downloaded; what came is kept, and the next call continues.
    """
    name, _, part = text.removeprefix(PREFIX).partition("/")
    if name not in MD5:
        near = closest(name, MD5)
        hint = f". Did you mean '{PREFIX}{near}'?" if near else ""
        raise UsageError(
            f"no data set {text!r}; the public sets of BEIR are: {', '.join(MD5)}{hint}"
        )
    if name == "nfcorpus":
        return read_beir(find_archive(None, progress), text, findings)
    path, warning = _downloaded(name, progress)
    if warning:
        findings.note("archives with another MD5 than the one that is published", warning)
    return read_beir(path, text, findings, config=part)


def is_beir_cached(text: str) -> bool:
    """Whether reading it needs no network."""
    name = text.removeprefix(PREFIX).partition("/")[0]
    if name == "nfcorpus":
        return bool(os.environ.get("NFCORPUS_ARCHIVE")) or cached_archive().is_file()
    return name in MD5 and _place(name).is_file()


def _downloaded(name: str, progress: Progress) -> tuple[Path, str]:
    from assay.net.download import DownloadLimits, download_file

    base = (os.environ.get(BASE_VARIABLE) or ADDRESS.rpartition("/")[0]).rstrip("/")
    url, path = f"{base}/{name}.zip", _place(name)
    try:
        record = download_file(
            url,
            path,
            DownloadLimits(_MAX_ARCHIVE),
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


def find_archive(archive: Path | None = None, progress: Progress = silent) -> Path:
    """A zip with the right hashes: `archive`, else NFCORPUS_ARCHIVE, else cached or downloaded."""
    if archive is not None:
        return _given(archive, "the given archive")
    if named := os.environ.get("NFCORPUS_ARCHIVE"):
        return _given(Path(named).expanduser(), "the archive in NFCORPUS_ARCHIVE")
    cached = cached_archive()
    if not _is_cached(cached):
        _download_nfcorpus(cached, progress)
    return cached


def cached_archive() -> Path:
    """Where a downloaded archive is kept."""
    return cache_folder() / "nfcorpus.zip"


def archive_state(path: Path, where: str) -> str:
    """What is at `path`, which `where` names, in words; nothing is downloaded."""
    if not path.is_file():
        return f"not downloaded; {where} looks for it at {path}"
    with open_file(path) as stream:
        wrong = _wrong_hash(stream)
    return f"{path} is damaged or another file" if wrong else f"{path}, from {where}"


def _given(path: Path, what: str) -> Path:
    """A wrong archive that the user named is refused, never replaced by a download."""
    try:
        with open_file(path) as stream:
            wrong = _wrong_hash(stream)
    except OSError as error:
        raise DataError(f"{what} cannot be read: {reason(error)}", file=path) from error
    if wrong:
        message = (
            f"{what} is not NFCorpus: {wrong}; to evaluate on other data, use --dataset {path}"
        )
        raise DataError(message, file=path)
    return path


def _is_cached(path: Path) -> bool:
    """A damaged file counts as absent: it is downloaded again and replaced."""
    try:
        with open_file(path) as stream:
            return _wrong_hash(stream) is None
    except OSError:
        return False


def _wrong_hash(stream: BufferedReader) -> str | None:
    found = {}
    for name in HASHES:
        stream.seek(0)
        found[name] = hashlib.file_digest(stream, name).hexdigest()
    return _difference(found)


def _difference(found: Mapping[str, str]) -> str | None:
    wrong = (name for name, expected in HASHES.items() if found[name] != expected)
    return next((f"expected {name} {HASHES[name]}, got {found[name]}" for name in wrong), None)


def _download_nfcorpus(path: Path, progress: Progress) -> None:
    from assay.net.download import DownloadLimits, temporary_download  # brings httpx: 0.1 s

    url = os.environ.get("NFCORPUS_URL") or ADDRESS
    limits = DownloadLimits(DOWNLOAD_MAX_BYTES, TOTAL_SECONDS, STALL_SECONDS, attempts=1)
    what = "downloading nfcorpus.zip"
    try:
        with temporary_download(url, limits, what=what, folder=path.parent, progress=progress) as (
            part,
            record,
        ):
            if wrong := _difference({"md5": record.md5, "sha256": record.sha256}):
                raise DownloadError(f"the download is damaged or not NFCorpus: {wrong}")
            move_into_place(part, path)
    except DownloadError as error:
        raise DownloadError(
            f"NFCorpus is not in the cache and could not be downloaded from {redact_url(url)}: "
            f"{error}. Download nfcorpus.zip elsewhere and set NFCORPUS_ARCHIVE=FILE, "
            "or pass --archive FILE, or use the bundled data set, which needs no network: "
            "--dataset notes"
        ) from error

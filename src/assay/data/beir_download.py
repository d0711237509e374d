"""`beir:NAME`: the public sets of the BEIR benchmark, from the cache or from its authors.

NFCorpus may also be an archive that was given by hand. Each of its archives is checked against the
published hashes before it is read: that takes a hundredth of a second, and figures on another
corpus would not be figures on NFCorpus. The text is free for academic use only, so it is downloaded
and never shipped.
"""

import hashlib
import os
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
"""The public sets of BEIR with the MD5 that their authors publish; None if it has changed."""

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
    path, md5 = _download(name, progress)
    if MD5[name] not in (None, md5):
        what = "archives with another MD5 than the one that is published"
        findings.note(what, f"{name}.zip has {md5}, published is {MD5[name]}")
    return read_beir(path, text, findings, config=part)


def is_beir_cached(text: str) -> bool:
    """Whether reading it needs no network."""
    name = text.removeprefix(PREFIX).partition("/")[0]
    if name == "nfcorpus":
        return bool(os.environ.get("NFCORPUS_ARCHIVE")) or cached_archive().is_file()
    return name in MD5 and _place(name).is_file()


def _place(name: str) -> Path:
    return cache_folder() / "beir" / f"{name}.zip"


def _download(name: str, progress: Progress) -> tuple[Path, str]:
    """Where the archive is, and its MD5."""
    from assay.net.download import DownloadLimits, download_file

    base = (os.environ.get(BASE_VARIABLE) or ADDRESS.rpartition("/")[0]).rstrip("/")
    url, path = f"{base}/{name}.zip", _place(name)
    limits, what = DownloadLimits(_MAX_ARCHIVE), f"downloading {name}.zip"
    try:
        return path, download_file(url, path, limits, what=what, progress=progress).md5
    except DownloadError as error:
        raise DownloadError(
            f"data set '{PREFIX}{name}' is not in the cache and could not be downloaded from "
            f"{redact_url(url)}: {error}. Run the command again to continue; or download "
            f"{name}.zip elsewhere and pass its path, or set {BASE_VARIABLE} to the address of a "
            "folder that has it"
        ) from error


def find_archive(archive: Path | None = None, progress: Progress = silent) -> Path:
    """A zip with the right hashes: `archive`, else NFCORPUS_ARCHIVE, else cached or downloaded.

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
    """Where a downloaded archive is kept."""
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
    from assay.net.download import DownloadLimits, temporary_download  # brings httpx: 0.1 s

    url = os.environ.get("NFCORPUS_URL") or ADDRESS
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
            f"NFCorpus is not in the cache and could not be downloaded from {redact_url(url)}: "
            f"{error}. Download nfcorpus.zip elsewhere and set NFCORPUS_ARCHIVE=FILE, "
            "or pass --archive FILE, or use the bundled data set, which needs no network: "
            "--dataset notes"
        ) from error

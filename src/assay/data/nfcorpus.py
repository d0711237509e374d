"""Where NFCorpus comes from: an archive given by hand, the cache, or the authors of BEIR.

Every archive is checked against the published hashes before it is read: that takes a hundredth of a
second, and figures on another corpus would not be figures on NFCorpus. The text is free for
academic use only, so it is downloaded and never shipped.
"""

import hashlib
import os
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path

from assay.data.cache import cache_folder
from assay.data.text_file import reason
from assay.errors import DataError, DownloadError
from assay.files import move_into_place, open_file
from assay.net.redact import redact_url
from assay.progress import Progress, silent

ADDRESS = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/nfcorpus.zip"
HASHES = {
    "md5": "a89dba18a62ef92f7d323ec890a0d38d",  # the one that BEIR publishes
    "sha256": "efe5be03f8c5b86a5870102d0599d227c8c6e2484328e68c6522560385671b0b",
}
MAX_BYTES = 16 * 2**20
"""The archive has 2.4 million bytes: a much larger response is not it."""

STALL_SECONDS = 20.0
TOTAL_SECONDS = 300.0
"""Bounds a server that sends slowly without ever stalling."""


def find_archive(archive: Path | None = None, progress: Progress = silent) -> Path:
    """A zip with the right hashes: `archive`, else NFCORPUS_ARCHIVE, else cached or downloaded."""
    if archive is not None:
        return _given(archive, "the given archive")
    if named := os.environ.get("NFCORPUS_ARCHIVE"):
        return _given(Path(named).expanduser(), "the archive in NFCORPUS_ARCHIVE")
    cached = cached_archive()
    if not _is_cached(cached):
        _download_archive(cached, progress)
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


def _download_archive(path: Path, progress: Progress) -> None:
    from assay.net.download import DownloadLimits, temporary_download  # brings httpx: 0.1 s

    url = os.environ.get("NFCORPUS_URL") or ADDRESS
    limits = DownloadLimits(MAX_BYTES, TOTAL_SECONDS, STALL_SECONDS, attempts=1)
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
        raise _no_archive(url, str(error)) from error


def _no_archive(url: str, why: str) -> DownloadError:
    return DownloadError(
        f"NFCorpus is not in the cache and could not be downloaded from {redact_url(url)}: "
        f"{why}. Download nfcorpus.zip elsewhere and set NFCORPUS_ARCHIVE=FILE, "
        "or pass --archive FILE, or use the bundled data set, which needs no network: "
        "--dataset notes"
    )

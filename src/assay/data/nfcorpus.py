"""Where NFCorpus comes from: an archive given by hand, the cache, or the authors of BEIR.

Every archive is checked against the published hashes before it is read, each time: it takes a
hundredth of a second, and figures on another corpus would not be figures on NFCorpus. The text is
free for academic use only, so it is fetched and never shipped.
"""

import hashlib
import os
from io import BufferedReader, BytesIO
from pathlib import Path

from assay.data.cache import cache_folder, keep
from assay.data.download import fetch
from assay.data.text_file import reason
from assay.errors import DataError, DownloadError
from assay.progress import Progress, silent

ADDRESS = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/nfcorpus.zip"
HASHES = {
    "md5": "a89dba18a62ef92f7d323ec890a0d38d",  # the one that BEIR publishes
    "sha256": "efe5be03f8c5b86a5870102d0599d227c8c6e2484328e68c6522560385671b0b",
}
MAX_BYTES = 16 * 2**20
"""The archive has 2.4 million bytes; whatever sends far more is not it."""


def find_archive(archive: Path | None = None, progress: Progress = silent) -> Path:
    """A zip whose hashes are right: `archive`, else NFCORPUS_ARCHIVE, else cached or downloaded."""
    if archive is not None:
        return _given(archive, "the archive that was given")
    if named := os.environ.get("NFCORPUS_ARCHIVE"):
        return _given(Path(named).expanduser(), "the archive that NFCORPUS_ARCHIVE names")
    cached = cache_folder() / "nfcorpus.zip"
    if not _is_cached(cached):
        keep(_download(progress), cached)
    return cached


def _given(path: Path, what: str) -> Path:
    """A wrong archive given by hand is refused, never replaced by a download: it was meant."""
    try:
        with path.open("rb") as stream:
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
    """What is damaged counts as absent: it will be fetched again and replaced."""
    try:
        with path.open("rb") as stream:
            return _wrong_hash(stream) is None
    except OSError:
        return False


def _wrong_hash(stream: BufferedReader | BytesIO) -> str | None:
    for name, expected in HASHES.items():
        stream.seek(0)
        got = hashlib.file_digest(stream, name).hexdigest()
        if got != expected:
            return f"expected {name} {expected}, got {got}"
    return None


def _download(progress: Progress) -> bytes:
    url = os.environ.get("NFCORPUS_URL") or ADDRESS
    try:
        body = fetch(url, limit=MAX_BYTES, what="downloading nfcorpus.zip", progress=progress)
    except DownloadError as error:
        raise _no_archive(url, str(error)) from error
    if wrong := _wrong_hash(BytesIO(body)):
        raise _no_archive(url, f"what came is damaged or something else: {wrong}")
    return body


def _no_archive(url: str, why: str) -> DownloadError:
    return DownloadError(
        f"NFCorpus is not in the cache and could not be downloaded from {_without_password(url)}: "
        f"{why}. Get nfcorpus.zip elsewhere and set NFCORPUS_ARCHIVE=FILE, or give --archive FILE, "
        "or use the bundled data set, which needs no network: --dataset notes"
    )


def _without_password(url: str) -> str:
    """Mirrors are sometimes named with credentials, which have no place in a message."""
    scheme, separator, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"

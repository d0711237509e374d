"""Where NFCorpus comes from: an archive given by hand, the cache, or the authors of BEIR.

Every archive is checked against the published hashes before it is read: that takes a hundredth of a
second, and figures on another corpus would not be figures on NFCorpus. The text is free for
academic use only, so it is downloaded and never shipped.
"""

import hashlib
import os
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from assay.data.cache import cache_folder, write_cached
from assay.data.text_file import reason
from assay.errors import DataError, DownloadError
from assay.net.redact import redact_url
from assay.progress import Progress, silent

if TYPE_CHECKING:
    import httpx

ADDRESS = "https://public.ukp.informatik.tu-darmstadt.de/thakur/BEIR/datasets/nfcorpus.zip"
HASHES = {
    "md5": "a89dba18a62ef92f7d323ec890a0d38d",  # the one that BEIR publishes
    "sha256": "efe5be03f8c5b86a5870102d0599d227c8c6e2484328e68c6522560385671b0b",
}
MAX_BYTES = 16 * 2**20
"""The archive has 2.4 million bytes: a much larger response is not it."""

CONNECT_SECONDS = 5.0
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
        write_cached(cached, _download_archive(progress))
    return cached


def cached_archive() -> Path:
    """Where a downloaded archive is kept."""
    return cache_folder() / "nfcorpus.zip"


def _given(path: Path, what: str) -> Path:
    """A wrong archive that the user named is refused, never replaced by a download."""
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
    """A damaged file counts as absent: it is downloaded again and replaced."""
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


def _download_archive(progress: Progress) -> bytes:
    url = os.environ.get("NFCORPUS_URL") or ADDRESS
    try:
        body = download(url, limit=MAX_BYTES, what="downloading nfcorpus.zip", progress=progress)
    except DownloadError as error:
        raise _no_archive(url, str(error)) from error
    if wrong := _wrong_hash(BytesIO(body)):
        raise _no_archive(url, f"the download is damaged or not NFCorpus: {wrong}")
    return body


def _no_archive(url: str, why: str) -> DownloadError:
    return DownloadError(
        f"NFCorpus is not in the cache and could not be downloaded from {redact_url(url)}: "
        f"{why}. Download nfcorpus.zip elsewhere and set NFCORPUS_ARCHIVE=FILE, "
        "or pass --archive FILE, or use the bundled data set, which needs no network: "
        "--dataset notes"
    )


def download(url: str, *, limit: int, what: str, progress: Progress = silent) -> bytes:
    """The body of a response of at most `limit` bytes; every failure is a `DownloadError`."""
    import httpx  # costs 0.1 s: paid only where something is fetched

    from assay.net.client import open_sync_client
    from assay.net.deadline import TOO_LONG

    timeout = httpx.Timeout(STALL_SECONDS, connect=CONNECT_SECONDS)
    try:
        with (
            open_sync_client(
                max_bytes=limit, timeout=timeout, follow_redirects=True, longest=TOTAL_SECONDS
            ) as client,
            client.stream("GET", url) as response,
        ):
            response.raise_for_status()
            return _body(response, what, progress)
    except httpx.HTTPStatusError as error:
        raise DownloadError(f"HTTP {error.response.status_code}") from None
    except httpx.TimeoutException as error:
        late = f"not finished after {TOTAL_SECONDS:.0f} seconds"
        stalled = f"the server did not respond in time ({type(error).__name__})"
        raise DownloadError(late if str(error) == TOO_LONG else stalled) from error
    # ValueError, ImportError: proxy settings in the environment that httpx cannot use.
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        raise DownloadError(str(error) or type(error).__name__) from error


def _body(response: "httpx.Response", what: str, progress: Progress) -> bytes:
    size = response.headers.get("content-length", "")
    total = int(size) if size.isdecimal() else None
    body = bytearray()
    for chunk in response.iter_raw():
        body += chunk
        progress(what, len(body), total)
    return bytes(body)

"""Files from the network into the cache: bounded, checked, and continued where they broke off.

A file appears under its name only when it is complete. What came before a connection broke stays
beside it as `NAME.partial`, and the next call asks for the rest (RFC 9110, 14.2), if the server
still has the same file.
"""

import asyncio
import hashlib
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
import orjson

from assay.errors import DownloadError, UsageError
from assay.files import atomic_write, move_into_place, open_file, read_file
from assay.locks import FileLock
from assay.net.client import MAX_BYTES_EXTENSION, open_client
from assay.net.gather import run_coroutine
from assay.net.http import connect_reason
from assay.net.json import parse_json, parse_object
from assay.net.outbound import (
    UNRESTRICTED,
    OutboundPolicy,
    OutboundRefused,
    policy_of_process,
    split_address,
)
from assay.net.redact import redact_url
from assay.net.retry import RetryPolicy, parse_retry_after
from assay.progress import Progress, silent

CONNECT_SECONDS = 5.0
STALL_SECONDS = 30.0
TOTAL_SECONDS = 3600.0
"""Bounds a server that sends slowly without ever stalling; the next call continues."""

_ATTEMPTS = 4
_MAX_REDIRECTS = 5
_PASSING = (408, 425, 429, 500, 502, 503, 504)
_CHUNK = 2**20

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class DownloadRecord:
    """What is known of a file that was downloaded; kept beside it as `NAME.json`."""

    url: str
    bytes: int
    sha256: str
    md5: str
    downloaded: str


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """`bytes` of the file, `seconds` for one attempt as a whole, `stall` for each wait; 0
    `attempts` are as many as usual."""

    bytes: int
    seconds: float = TOTAL_SECONDS
    stall: float = STALL_SECONDS
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class _Partial:
    """What came of a file before; `validator` is its ETag or date, without which no rest is asked
    for: the beginning of one file and the end of another would be joined.
    """

    path: Path

    @property
    def about(self) -> Path:
        return self.path.with_name(f"{self.path.name}.json")

    def validator(self, url: str) -> str:
        try:
            known = parse_object(read_file(self.about)) or {}
        except OSError:
            return ""
        found = known.get("validator")
        return found if known.get("url") == _identity(url) and isinstance(found, str) else ""

    def size(self, url: str) -> int:
        try:
            return self.path.stat().st_size if self.validator(url) else 0
        except OSError:
            return 0

    def remember(self, url: str, response: httpx.Response) -> None:
        etag = response.headers.get("etag", "")
        strong = etag if etag and not etag.startswith("W/") else ""
        validator = strong or response.headers.get("last-modified", "")
        content = orjson.dumps({"url": _identity(url), "validator": validator})
        atomic_write(self.about, content)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.about.unlink(missing_ok=True)


def download_file(
    url: str,
    path: Path,
    limits: DownloadLimits,
    *,
    what: str,
    auth: httpx.Auth | None = None,
    policy: OutboundPolicy | None = None,
    progress: Progress = silent,
) -> DownloadRecord:
    """Download `url` to `path`, or find it there already, checked against its record.

    Parameters:
        url: an http(s) address. Redirects are followed, also to other hosts, never from TLS to
            plain HTTP.
        path: the file; parent folders are created. Its record is written beside it.
        limits: how much, and for how long.
        what: what the progress is called.
        auth: credentials, which are sent to their own host alone.
        policy: which addresses may be called; by default what this process may.
        progress: called with the bytes so far.

    Raises:
        DownloadError: why it could not be downloaded; what came is kept for the next call.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):
            if (known := read_record(path)) is not None:
                return known
            work = _Download(url, path, limits, what, auth, policy, progress)
            run_coroutine(work.attempts())
            return work.finish()
    except OSError as error:
        raise DownloadError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def temporary_download(
    url: str,
    limits: DownloadLimits,
    *,
    what: str,
    folder: Path | None = None,
    progress: Progress = silent,
) -> Iterator[tuple[Path, DownloadRecord]]:
    """A download that is looked at before it is kept: its file and its record, gone at the end.

    Parameters:
        url: an http(s) address that the user chose; `limits`, `what` and `progress` as above.
        folder: where to make the temporary folder, so that the file can be moved; any by default.
    """
    with TemporaryDirectory(prefix=".download-", dir=folder) as place:
        path = Path(place) / "file"
        record = download_file(url, path, limits, what=what, policy=UNRESTRICTED, progress=progress)
        yield path, record


def read_record(path: Path) -> DownloadRecord | None:
    """The record of a complete file; None where it is missing, or its size is another one."""
    try:
        found = parse_object(read_file(path.with_name(f"{path.name}.json"))) or {}
        record = DownloadRecord(**found)
        return record if path.stat().st_size == record.bytes else None
    except (OSError, TypeError):
        return None


def fetch_json(url: str, *, limit: int, auth: httpx.Auth | None = None) -> Any:
    """The JSON at an address, at most `limit` bytes of it. Raises `DownloadError`."""
    try:
        return parse_json(run_coroutine(_fetch(url, limit, auth)))
    except orjson.JSONDecodeError:
        raise DownloadError("the response is not JSON; check the base URL") from None


async def _fetch(url: str, limit: int, auth: httpx.Auth | None) -> bytes:
    async with _client(None, auth) as client:

        async def once() -> bytes:
            async with asyncio.timeout(STALL_SECONDS):
                response = await _send(client, url, {}, limit)
                try:
                    if response.status_code != 200:
                        raise _status_error(response)
                    return await response.aread()
                finally:
                    await response.aclose()

        return await RetryPolicy(attempts=_ATTEMPTS).run(lambda: _classified(once()))


@dataclass(frozen=True, slots=True)
class _Download:
    url: str
    path: Path
    limits: DownloadLimits
    what: str
    auth: httpx.Auth | None
    policy: OutboundPolicy | None
    progress: Progress

    @property
    def partial(self) -> _Partial:
        return _Partial(self.path.with_name(f"{self.path.name}.partial"))

    async def attempts(self) -> None:
        async with _client(self.policy, self.auth, self.limits.stall) as client:
            retry = RetryPolicy(attempts=self.limits.attempts or _ATTEMPTS)
            await retry.run(lambda: _classified(self._attempt(client)))

    async def _attempt(self, client: httpx.AsyncClient) -> None:
        done = self.partial.size(self.url)
        headers = (
            {"Range": f"bytes={done}-", "If-Range": self.partial.validator(self.url)}
            if done
            else {}
        )
        try:
            async with asyncio.timeout(self.limits.seconds):
                response = await _send(client, self.url, headers, self.limits.bytes)
                try:
                    await self._receive(response, done)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise DownloadError(
                f"not finished after {self.limits.seconds:g} seconds; run it again to continue"
            ) from None

    async def _receive(self, response: httpx.Response, done: int) -> None:
        if response.status_code == 416:  # nothing is left, or the file has changed
            if response.headers.get("content-range") == f"bytes */{done}":
                return
            self.partial.remove()
            raise _broken_off("the file changed while it was downloaded")
        if response.status_code not in (200, 206):
            raise _status_error(response)
        start = _start_of(response)
        if start not in (0, done):
            self.partial.remove()
            raise _broken_off("the server sent a different byte range than requested")
        declared = response.headers.get("content-length", "")
        total = start + int(declared) if declared.isdecimal() and len(declared) < 16 else None
        if total is not None and total > self.limits.bytes:
            raise _too_large(self.limits.bytes)
        if not start:
            self.partial.remove()
            if total is not None:  # what was compressed on the way cannot be continued
                self.partial.remember(self.url, response)
        with self.partial.path.open("ab") as file:
            size = start
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > self.limits.bytes:
                    raise _too_large(self.limits.bytes)
                file.write(chunk)
                self.progress(self.what, size, total)
        if total is not None and size != total:
            raise _broken_off(f"only {size:,} of {total:,} bytes were received")

    def finish(self) -> DownloadRecord:
        sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
        with open_file(self.partial.path) as file:
            while chunk := file.read(_CHUNK):
                sha256.update(chunk)
                md5.update(chunk)
        record = DownloadRecord(
            url=redact_url(self.url),
            bytes=self.partial.path.stat().st_size,
            sha256=sha256.hexdigest(),
            md5=md5.hexdigest(),
            downloaded=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        move_into_place(self.partial.path, self.path)
        atomic_write(
            self.path.with_name(f"{self.path.name}.json"),
            orjson.dumps(asdict(record), option=orjson.OPT_INDENT_2),
        )
        self.partial.remove()
        return record


def _client(
    policy: OutboundPolicy | None, auth: httpx.Auth | None, stall: float = STALL_SECONDS
) -> httpx.AsyncClient:
    timeout = httpx.Timeout(stall, connect=CONNECT_SECONDS)
    allowed = policy_of_process() if policy is None else policy
    return open_client(allowed, auth=auth, timeout=timeout)


async def _send(
    client: httpx.AsyncClient, url: str, headers: dict[str, str], limit: int
) -> httpx.Response:
    """The response with its body unread. Redirects may lead to another host, where files are
    kept; the client's credentials are bound to the first one.
    """
    for _ in range(_MAX_REDIRECTS + 1):
        split_address(url)  # raises for anything but an http(s) URL
        request = client.build_request("GET", url, headers=headers)
        request.extensions[MAX_BYTES_EXTENSION] = limit
        response = await client.send(request, stream=True)
        if not response.has_redirect_location:
            return response
        await response.aclose()
        there = urljoin(url, response.headers["location"])
        if urlsplit(url).scheme == "https" and urlsplit(there).scheme != "https":
            raise DownloadError("a redirect leads from https to an address without TLS")
        url = there
    raise DownloadError(f"more than {_MAX_REDIRECTS} redirects")


async def _classified(call: Coroutine[Any, Any, Result]) -> Result:
    """Turn what httpx raises into a `DownloadError` that says what happened."""
    try:
        return await call
    except OutboundRefused as error:
        raise DownloadError(str(error)) from None
    except (httpx.ConnectTimeout, httpx.ConnectError) as error:
        raise _broken_off(connect_reason(error)) from None
    except (TimeoutError, httpx.TimeoutException):
        raise _broken_off("the server did not respond in time") from None
    except (httpx.NetworkError, httpx.RemoteProtocolError):
        raise _broken_off("the connection broke off") from None
    except (httpx.HTTPError, httpx.InvalidURL, UsageError, UnicodeError, ValueError) as error:
        raise DownloadError(str(error)[:200] or type(error).__name__) from None


def _broken_off(message: str) -> DownloadError:
    return DownloadError(message, retryable=True)


def _status_error(response: httpx.Response) -> DownloadError:
    status = response.status_code
    after = parse_retry_after(response.headers.get("retry-after"))
    again = status in _PASSING
    return DownloadError(f"HTTP {status}", status=status, retryable=again, retry_after=after)


def _start_of(response: httpx.Response) -> int:
    """Which byte of the file comes first; -1 where a part does not say it."""
    if response.status_code == 200:
        return 0
    words = response.headers.get("content-range", "").removeprefix("bytes ").partition("-")
    with suppress(ValueError):
        return int(words[0])
    return -1


def _too_large(limit: int) -> DownloadError:
    return DownloadError(f"it is larger than {limit:,} bytes")


def _identity(url: str) -> str:
    """What a partial file is known by: the address may hold a key, which is not written down."""
    return hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()

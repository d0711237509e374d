"""Files from the network into the cache: bounded and checked.

A file appears under its name only when it is complete, with its record beside it.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
import orjson

from assay.errors import DownloadError, UsageError
from assay.files import atomic_write, atomic_writer, read_file
from assay.locks import FileLock
from assay.net.client import MAX_BYTES_EXTENSION, open_client
from assay.net.gather import run_coroutine
from assay.net.http import connect_reason
from assay.net.json import parse_json, parse_object
from assay.net.outbound import (
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
"""Bounds a server that sends slowly without ever stalling."""

_ATTEMPTS = 4
_MAX_REDIRECTS = 5
_PASSING = (408, 425, 429, 500, 502, 503, 504)

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

    Raises `DownloadError`.
    """

    async def download() -> DownloadRecord:
        async with _client(policy, auth, limits.stall) as client:

            async def attempt() -> DownloadRecord:
                return await _classified(_receive(client, url, path, limits, what, progress))

            return await RetryPolicy(attempts=limits.attempts or _ATTEMPTS).run(attempt)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):
            return read_record(path) or run_coroutine(download())
    except OSError as error:
        raise DownloadError(f"{path} cannot be written: {error.strerror or error}") from error


async def _receive(
    client: httpx.AsyncClient,
    url: str,
    path: Path,
    limits: DownloadLimits,
    what: str,
    progress: Progress,
) -> DownloadRecord:
    sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
    try:
        async with (
            asyncio.timeout(limits.seconds),
            _response(client, url, limits.bytes) as response,
        ):
            declared = response.headers.get("content-length", "")
            total = int(declared) if declared.isdecimal() and len(declared) < 16 else None
            with atomic_writer(path) as file:
                async for chunk in response.aiter_raw():
                    size += len(chunk)
                    sha256.update(chunk)
                    md5.update(chunk)
                    file.write(chunk)
                    progress(what, size, total)
                if total is not None and size != total:
                    raise _broken_off(f"only {size:,} of {total:,} bytes were received")
    except TimeoutError:
        raise DownloadError(
            f"not finished after {limits.seconds:g} seconds; run it again"
        ) from None
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = DownloadRecord(redact_url(url), size, sha256.hexdigest(), md5.hexdigest(), now)
    content = orjson.dumps(asdict(record), option=orjson.OPT_INDENT_2)
    atomic_write(path.with_name(f"{path.name}.json"), content)
    return record


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
            async with asyncio.timeout(STALL_SECONDS), _response(client, url, limit) as response:
                return await response.aread()

        return await RetryPolicy(attempts=_ATTEMPTS).run(lambda: _classified(once()))


def _client(
    policy: OutboundPolicy | None, auth: httpx.Auth | None, stall: float = STALL_SECONDS
) -> httpx.AsyncClient:
    timeout = httpx.Timeout(stall, connect=CONNECT_SECONDS)
    allowed = policy_of_process() if policy is None else policy
    return open_client(allowed, auth=auth, timeout=timeout)


@asynccontextmanager
async def _response(
    client: httpx.AsyncClient, url: str, limit: int
) -> AsyncIterator[httpx.Response]:
    """The response with its body unread. Redirects may lead to another host, where files are
    kept; the client's credentials are bound to the first one.
    """
    for _ in range(_MAX_REDIRECTS + 1):
        split_address(url)  # raises for anything but an http(s) URL
        request = client.build_request("GET", url)
        request.extensions[MAX_BYTES_EXTENSION] = limit
        response = await client.send(request, stream=True)
        try:
            if not response.has_redirect_location:
                if response.status_code != 200:
                    raise _status_error(response)
                yield response
                return
        finally:
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

"""Files from the network into the cache: bounded and checked.

A file appears under its name only when it is complete, with its record beside it.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import httpx
import orjson

from assay.errors import AgentFailure, DownloadError, FailureKind, UsageError
from assay.files import FileLock, atomic_write, atomic_writer, read_file
from assay.net.client import MAX_BYTES_EXTENSION, open_client
from assay.net.gather import run_coroutine
from assay.net.http import HttpBreach, classify_http_errors
from assay.net.json import parse_json, parse_object
from assay.net.outbound import OutboundPolicy, policy_of_process, split_address
from assay.net.redact import redact_url
from assay.net.retry import RetryPolicy, parse_retry_after
from assay.progress import Progress, silent

STALL_SECONDS = 30.0
TOTAL_SECONDS = 3600.0
"""Bounds a server that sends slowly without ever stalling."""

_ATTEMPTS = 4
_MAX_REDIRECTS = 5
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)

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

    Redirects are followed, also to other hosts, which do not get the credentials `auth`, and never
    from TLS to plain HTTP. Raises `DownloadError`.
    """

    async def receive(client: httpx.AsyncClient) -> DownloadRecord:
        sha256, md5, size = hashlib.sha256(), hashlib.md5(usedforsecurity=False), 0
        async with _response(client, url, limits.bytes) as response:
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
                    message = f"only {size:,} of {total:,} bytes were received"
                    raise DownloadError(message, retryable=True)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = DownloadRecord(redact_url(url), size, sha256.hexdigest(), md5.hexdigest(), now)
        content = orjson.dumps(asdict(record), option=orjson.OPT_INDENT_2)
        atomic_write(path.with_name(f"{path.name}.json"), content)
        return record

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):
            return read_record(path) or run_coroutine(_attempts(receive, limits, auth, policy))
    except OSError as error:
        raise DownloadError(f"{path} cannot be written: {error.strerror or error}") from error


def read_record(path: Path) -> DownloadRecord | None:
    """The record of a complete file; None if it is missing, or its size is another one."""
    try:
        found = parse_object(read_file(path.with_name(f"{path.name}.json"))) or {}
        record = DownloadRecord(**found)
        return record if path.stat().st_size == record.bytes else None
    except (OSError, TypeError):
        return None


def fetch_json(url: str, *, limit: int, auth: httpx.Auth | None = None) -> Any:
    """The JSON at an address, at most `limit` bytes of it. Raises `DownloadError`."""

    async def receive(client: httpx.AsyncClient) -> bytes:
        async with _response(client, url, limit) as response:
            return await response.aread()

    limits = DownloadLimits(limit, seconds=STALL_SECONDS)
    try:
        return parse_json(run_coroutine(_attempts(receive, limits, auth, None)))
    except orjson.JSONDecodeError:
        raise DownloadError("the response is not JSON; check the base URL") from None


async def _attempts(
    receive: Callable[[httpx.AsyncClient], Awaitable[Result]],
    limits: DownloadLimits,
    auth: httpx.Auth | None,
    policy: OutboundPolicy | None,
) -> Result:
    """What `receive` returns, within the limits; `DownloadError` says what happened instead."""
    timeout = httpx.Timeout(limits.stall, connect=5.0)
    allowed = policy_of_process() if policy is None else policy
    async with open_client(allowed, auth=auth, timeout=timeout) as client:

        async def attempt() -> Result:
            try:
                async with asyncio.timeout(limits.seconds):
                    with classify_http_errors():
                        return await receive(client)
            except TimeoutError:
                message = f"not finished after {limits.seconds:g} seconds; run it again"
                raise DownloadError(message) from None
            except AgentFailure as failure:
                is_transient = failure.kind in (FailureKind.CONNECTION, FailureKind.TIMEOUT)
                is_transient |= str(failure) == HttpBreach.CUT_OFF
                raise DownloadError(str(failure), retryable=is_transient) from None
            except (UsageError, ValueError) as error:  # not an http(s) URL
                raise DownloadError(str(error)[:200]) from None

        return await RetryPolicy(attempts=limits.attempts or _ATTEMPTS).run(attempt)


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
                    status = response.status_code
                    raise DownloadError(
                        f"HTTP {status}",
                        status=status,
                        retryable=status in _TRANSIENT,
                        retry_after=parse_retry_after(response.headers.get("retry-after")),
                    )
                yield response
                return
        finally:
            await response.aclose()
        there = urljoin(url, response.headers["location"])
        if urlsplit(url).scheme == "https" and urlsplit(there).scheme != "https":
            raise DownloadError("a redirect leads from https to an address without TLS")
        url = there
    raise DownloadError(f"more than {_MAX_REDIRECTS} redirects")

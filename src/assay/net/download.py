"""Files from the network into the cache. One appears under its name only when it is complete."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import orjson

from assay.errors import AgentFailure, DownloadError, FailureKind, UsageError
from assay.files import FileLock, atomic_writer
from assay.net.client import open_client
from assay.net.gather import run_coroutine
from assay.net.http import exchange
from assay.net.json import parse_json
from assay.net.outbound import OutboundPolicy, policy_of_process
from assay.net.retry import RetryPolicy, parse_retry_after
from assay.progress import Progress, silent

_STALL_SECONDS = 30.0
_TOTAL_SECONDS = 3600.0  # bounds a server that sends slowly without ever stalling
_ATTEMPTS = 4
_TRANSIENT = (408, 425, 429, 500, 502, 503, 504)

Result = TypeVar("Result")


def download_file(
    url: str,
    path: Path,
    limit: int,
    *,
    what: str,
    auth: httpx.Auth | None = None,
    policy: OutboundPolicy | None = None,
    progress: Progress = silent,
) -> None:
    """Download `url`, of at most `limit` bytes, to `path`, unless it is there already.

    Other hosts, to which redirects may lead, do not get the credentials `auth`.
    """

    async def write(response: httpx.Response) -> None:
        declared = response.headers.get("content-length", "")
        total = int(declared) if declared.isdecimal() and len(declared) < 16 else None
        size = 0
        with atomic_writer(path) as file:
            async for chunk in response.aiter_raw():
                size += len(chunk)
                file.write(chunk)
                progress(what, size, total)

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_name(f"{path.name}.lock")):
            if not path.is_file():
                attempt = partial(_receive, url, limit, write, auth, policy, _TOTAL_SECONDS)
                run_coroutine(RetryPolicy(attempts=_ATTEMPTS).run(attempt))
    except OSError as error:
        raise DownloadError(f"{path} cannot be written: {error.strerror or error}") from error


def fetch_json(url: str, *, limit: int, auth: httpx.Auth | None = None) -> Any:
    """The JSON at an address, at most `limit` bytes of it. Raises `DownloadError`."""

    attempt = partial(_receive, url, limit, httpx.Response.aread, auth)
    try:
        return parse_json(run_coroutine(RetryPolicy(attempts=_ATTEMPTS).run(attempt)))
    except orjson.JSONDecodeError:
        raise DownloadError("the response is not JSON; check the base URL") from None


async def _receive(
    url: str,
    limit: int,
    read: Callable[[httpx.Response], Awaitable[Result]],
    auth: httpx.Auth | None,
    policy: OutboundPolicy | None = None,
    seconds: float = _STALL_SECONDS,
) -> Result:
    """What `read` makes of the response, within the limits; `DownloadError` if there is none."""
    timeout = httpx.Timeout(_STALL_SECONDS, connect=5.0)
    allowed = policy_of_process() if policy is None else policy
    try:
        async with (
            open_client(allowed, auth=auth, timeout=timeout, max_bytes=limit) as client,
            asyncio.timeout(seconds),
            exchange(client, "GET", url, max_bytes=limit, any_host=True) as response,
        ):
            if (status := response.status_code) != 200:
                raise DownloadError(
                    f"HTTP {status}",
                    status=status,
                    retryable=status in _TRANSIENT,
                    retry_after=parse_retry_after(response.headers.get("retry-after")),
                )
            return await read(response)
    except TimeoutError:
        raise DownloadError(f"not finished after {seconds:g} seconds; run it again") from None
    except AgentFailure as failure:
        is_transient = failure.kind in (FailureKind.CONNECTION, FailureKind.TIMEOUT)
        # A body that was cut off is of no use to an evaluation, but here the next try may be whole.
        is_transient |= isinstance(failure.__context__, httpx.RemoteProtocolError)
        raise DownloadError(str(failure), retryable=is_transient) from None
    except (UsageError, ValueError) as error:  # not an http(s) URL
        raise DownloadError(str(error)[:200]) from None

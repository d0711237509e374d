"""Fetch one file of modest size over HTTP, into memory, so that half of it can never be used."""

import time
from typing import TYPE_CHECKING

from assay.errors import DownloadError
from assay.progress import Progress, silent

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 5.0
STALL_SECONDS = 20.0
TOTAL_SECONDS = 300.0
"""A server that trickles never stalls; this bounds it."""


def fetch(url: str, *, limit: int, what: str, progress: Progress = silent) -> bytes:
    """The whole body, at most `limit` bytes; every failure is a DownloadError that says why."""
    import httpx  # costs 0.1 s: paid only where something is fetched

    timeout = httpx.Timeout(STALL_SECONDS, connect=CONNECT_SECONDS)
    try:
        with (
            httpx.Client(timeout=timeout, follow_redirects=True) as client,
            client.stream("GET", url, headers={"Accept-Encoding": "identity"}) as response,
        ):
            response.raise_for_status()
            return _body(response, limit, what, progress)
    except httpx.HTTPStatusError as error:
        raise DownloadError(f"the server answered {error.response.status_code}") from None
    except httpx.TimeoutException as error:
        raise DownloadError(
            f"the server was silent for too long ({type(error).__name__})"
        ) from error
    # ValueError, ImportError: proxy settings of the environment that httpx cannot follow.
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        raise DownloadError(str(error) or type(error).__name__) from error


def _body(response: "httpx.Response", limit: int, what: str, progress: Progress) -> bytes:
    size = response.headers.get("content-length", "")
    total = int(size) if size.isdecimal() else None
    body = bytearray()
    deadline = time.monotonic() + TOTAL_SECONDS
    # Raw, because decoding what the server may have packed could blow one chunk up a thousandfold.
    for chunk in response.iter_raw():
        body += chunk
        if len(body) > limit:
            raise DownloadError(f"the server sent more than {limit:,} bytes")
        if time.monotonic() > deadline:
            raise DownloadError(f"not done after {TOTAL_SECONDS:.0f} seconds")
        progress(what, len(body), total)
    return bytes(body)

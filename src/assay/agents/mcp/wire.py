"""HTTP below an MCP session: bounded answers, and failures that end one call instead of all.

The SDK turns every HTTP status into one error and lets a broken connection end the session with
all its calls. So what happened to a call's own exchange is noted here, and the SDK is shown a
plain 503 in its stead. An exchange finds its note by a context variable: the SDK runs each request
in the context of whoever sent it.
"""

import os
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass

import httpx2

from assay.errors import AgentFailure, FailureKind
from assay.net.client import CONNECT_SECONDS
from assay.net.http import MAX_BYTES
from assay.net.retry import parse_retry_after

TOKEN_VARIABLE = "MCP_SERVER_TOKEN"

_BUSY = 429
_AWAY = (502, 503, 504)
# Longer than any patience: the caller bounds the whole call, this only ends what was forgotten.
_TIMEOUT = httpx2.Timeout(300.0, connect=CONNECT_SECONDS, write=30.0, pool=None)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=4.0)


@dataclass
class Note:
    """What came of one call's exchange, as far as HTTP knows."""

    status: int | None = None
    failure: AgentFailure | None = None


current_note: ContextVar[Note | None] = ContextVar("current_note", default=None)


def open_http(transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
    token = os.environ.get(TOKEN_VARIABLE)
    return httpx2.AsyncClient(
        transport=WatchedTransport(transport or httpx2.AsyncHTTPTransport(limits=_LIMITS)),
        timeout=_TIMEOUT,
        headers={
            "User-Agent": "assay",
            # Without compression, what is counted against the limit is what is held in memory.
            "Accept-Encoding": "identity",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        },
    )


class WatchedTransport(httpx2.AsyncBaseTransport):
    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        note = current_note.get() or Note()
        try:
            response = await self._inner.handle_async_request(request)
        except httpx2.TransportError as error:
            note.failure = _failure_of(error)
            return httpx2.Response(503, request=request)
        note.status = response.status_code
        note.failure = _failure_of_status(response)
        # The stream of a GET stays open for the whole session and is no answer.
        if request.method == "POST" and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Measured(response.stream, note)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Measured(httpx2.AsyncByteStream):
    """Its errors are of the one class that the SDK takes for the end of this answer alone."""

    def __init__(self, inner: httpx2.AsyncByteStream, note: Note) -> None:
        self._inner = inner
        self._note = note

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._inner:
                size += len(chunk)
                if size > MAX_BYTES:
                    self._note.failure = too_large()
                    raise httpx2.StreamError("too large")
                yield chunk
        except httpx2.TransportError as error:
            self._note.failure = _failure_of(error)
            raise httpx2.StreamError("broken off") from error

    async def aclose(self) -> None:
        await self._inner.aclose()


def too_large() -> AgentFailure:
    return AgentFailure(
        FailureKind.INVALID_ANSWER, f"the answer is larger than {MAX_BYTES:,} bytes"
    )


def _failure_of(error: httpx2.TransportError) -> AgentFailure:
    if isinstance(error, httpx2.TimeoutException) and not isinstance(error, httpx2.ConnectTimeout):
        return AgentFailure(FailureKind.TIMEOUT, "the server went silent")
    if isinstance(error, httpx2.ConnectTimeout):
        return _unreachable("no connection in time")
    if isinstance(error, httpx2.ConnectError):
        return _unreachable(f"no connection ({str(error)[:120] or type(error).__name__})")
    if isinstance(error, httpx2.UnsupportedProtocol):
        return AgentFailure(FailureKind.PROTOCOL, "the address is not an http(s) address")
    return _unreachable(f"the connection broke ({type(error).__name__})")


def _failure_of_status(response: httpx2.Response) -> AgentFailure | None:
    status = response.status_code
    if status == _BUSY or status in _AWAY:
        kind = FailureKind.AGENT_ERROR if status == _BUSY else FailureKind.CONNECTION
        after = parse_retry_after(response.headers.get("retry-after"))
        return AgentFailure(kind, f"HTTP {status}", retryable=True, retry_after=after)
    if status == 401:
        message = f"HTTP 401: the server wants a token; set {TOKEN_VARIABLE}"
        return AgentFailure(FailureKind.AGENT_ERROR, message)
    if status in (403, 413, 421) or status >= 500:
        return AgentFailure(FailureKind.AGENT_ERROR, f"HTTP {status}")
    return None


def _unreachable(message: str) -> AgentFailure:
    return AgentFailure(FailureKind.CONNECTION, message, retryable=True)

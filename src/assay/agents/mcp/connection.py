"""HTTP below MCP sessions: bounded, and with the outcome of every exchange.

It is bounded, and its failures end one call instead of all: the SDK turns
every HTTP status into one error and lets a broken connection end the session with all its calls.
So the outcome of a call's own exchange is recorded here, and the SDK sees a plain 503 instead. An
exchange finds its record by a context variable: the SDK runs each request in its caller's context.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass

import httpx
import httpx2

from assay.errors import AgentFailure, FailureKind
from assay.net.client import (
    CONNECT_SECONDS,
    BoundedDecoder,
    EncodingRefused,
    server_name,
    tls_context,
)
from assay.net.http import MAX_BYTES, classify_http_errors, failure_of_status
from assay.net.outbound import (
    UNRESTRICTED,
    OutboundPolicy,
    Resolve,
    permitted_addresses,
    split_address,
)
from assay.net.redact import quote

TOKEN_VARIABLE = "MCP_SERVER_TOKEN"

# Longer than any call: the caller bounds the whole call, this only ends what was forgotten.
_TIMEOUT = httpx2.Timeout(300.0, connect=CONNECT_SECONDS, write=30.0, pool=None)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=4.0)
_WORDS_BYTES = 8_000
_WORDS_SECONDS = 2.0


@dataclass
class ExchangeRecord:
    """The outcome of one call's HTTP exchange."""

    status: int | None = None
    failure: AgentFailure | None = None
    ended: bool = False
    """Whether a whole body was read."""


current_exchange: ContextVar[ExchangeRecord | None] = ContextVar("current_exchange", default=None)


def open_http(
    transport: httpx2.AsyncBaseTransport | None = None,
    policy: OutboundPolicy = UNRESTRICTED,
    resolve: Resolve | None = None,
) -> httpx2.AsyncClient:
    """A client for MCP sessions over HTTP.

    Parameters:
        transport: replaces the network, in tests.
        policy: which addresses may be called. A restricted client sends no token: the address
            came in a request, not from the owner of the token.
        resolve: replaces the system's name resolution, in tests.
    """
    token = None if policy.public_only else os.environ.get(TOKEN_VARIABLE)
    inner = transport or httpx2.AsyncHTTPTransport(limits=_LIMITS, verify=tls_context())
    return httpx2.AsyncClient(
        transport=RecordingTransport(inner, policy, resolve),
        timeout=_TIMEOUT,
        headers={
            "User-Agent": "assay",
            # Without compression, what is counted against the limit is what is held in memory.
            "Accept-Encoding": "identity",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        },
    )


class RecordingTransport(httpx2.AsyncBaseTransport):
    """Bounds responses and records how each exchange ended in its caller's `ExchangeRecord`."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        policy: OutboundPolicy = UNRESTRICTED,
        resolve: Resolve | None = None,
    ) -> None:
        self._inner = inner
        self._policy = policy
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = current_exchange.get() or ExchangeRecord()
        try:
            addresses = await self._addresses(request)
        except httpx.RequestError as error:
            exchange.failure = _failure_of(error)
            return httpx2.Response(503, request=request)
        try:
            response = await self._send(request, addresses)
        except httpx2.TransportError as error:
            exchange.failure = _failure_of(_as_httpx(error))
            return httpx2.Response(503, request=request)
        exchange.status = response.status_code
        exchange.failure = _failure_of_status(response)
        if exchange.failure is not None and isinstance(response.stream, httpx2.AsyncByteStream):
            exchange.failure.said = await _take_words(response)
        try:
            decoder = _decoder_for(request, response)
        except httpx.RequestError as error:
            await response.aclose()
            exchange.failure = _failure_of(error)
            if request.method == "GET":
                return httpx2.Response(503, request=request)
            response.stream = _RefusedStream()
            return response
        if decoder is not None and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, decoder, exchange)
        return response

    async def _addresses(self, request: httpx2.Request) -> list[str]:
        """Those that were checked; none where everything is allowed."""
        if not self._policy.public_only:
            return []
        url = str(request.url)
        self._policy.check_url(url)
        return await permitted_addresses(self._policy, *split_address(url), self._resolve)

    async def _send(self, request: httpx2.Request, addresses: list[str]) -> httpx2.Response:
        """Nothing resolves the name a second time: it could answer with another address then."""
        for address in addresses[:-1]:
            with suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                return await self._inner.handle_async_request(_pinned(request, address))
        last = _pinned(request, addresses[-1]) if addresses else request
        return await self._inner.handle_async_request(last)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _pinned(request: httpx2.Request, address: str) -> httpx2.Request:
    """The same request sent to `address`: Host header and TLS name stay those of the URL."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, **server_name(request.url.host)},
    )


async def _take_words(response: httpx2.Response) -> str:
    """The start of an error's body, which is put back for the SDK."""
    body = b""
    if response.headers.get("content-encoding") or not isinstance(
        response.stream, httpx2.AsyncByteStream
    ):
        return ""
    with suppress(httpx2.HTTPError, httpx2.StreamError, TimeoutError):
        async with asyncio.timeout(_WORDS_SECONDS):
            async for chunk in response.stream:
                body += chunk
                if len(body) >= _WORDS_BYTES:
                    break
    await response.stream.aclose()
    response.headers.pop("content-length", None)
    response.stream = httpx2.ByteStream(body)
    return quote(body)


def _decoder_for(request: httpx2.Request, response: httpx2.Response) -> BoundedDecoder | None:
    """None for the event stream of a GET, which stays open as long as the session and is not a
    response.

    The SDK bounds each of its events, after decoding: so it may not be compressed.
    """
    headers = response.headers
    encoding = headers.get("content-encoding", "")
    decoder = BoundedDecoder(encoding, MAX_BYTES, headers.get("content-length", ""))
    if decoder.decodes:  # httpx2 would decode a second time, without a limit
        if request.method == "GET":
            raise EncodingRefused(f"the event stream is compressed with {encoding[:40]!r}")
        del headers["content-encoding"]
        headers.pop("content-length", None)
    return None if request.method == "GET" else decoder


class _BoundedStream(httpx2.AsyncByteStream):
    """Its errors are of the one class that the SDK takes for the end of this answer alone."""

    def __init__(
        self, inner: httpx2.AsyncByteStream, decoder: BoundedDecoder, exchange: ExchangeRecord
    ) -> None:
        self._inner = inner
        self._decoder = decoder
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._inner:
                yield self._decoder.feed(chunk)
            self._exchange.ended = True
        except httpx2.TransportError as error:
            self._exchange.failure = _failure_of(_as_httpx(error))
            raise httpx2.StreamError("the response ended early") from error
        except httpx.RequestError as error:
            self._exchange.failure = _failure_of(error)
            raise httpx2.StreamError("the response was refused") from error

    async def aclose(self) -> None:
        await self._inner.aclose()


class _RefusedStream(httpx2.AsyncByteStream):
    """In place of a body that is not read at all."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        raise httpx2.StreamError("the response was refused")


def _as_httpx(error: httpx2.TransportError) -> httpx.TransportError:
    """The same error as a class of httpx: the SDK brings a copy with classes of its own."""
    same = getattr(httpx, type(error).__name__, httpx.TransportError)
    translated: httpx.TransportError = same(str(error))
    translated.__cause__ = error
    return translated


def _failure_of(error: httpx.RequestError) -> AgentFailure:
    try:
        with classify_http_errors():
            raise error
    except AgentFailure as failure:
        return failure


def _failure_of_status(response: httpx2.Response) -> AgentFailure | None:
    status = response.status_code
    if status == 401:
        message = f"HTTP 401: the server requires a token; set {TOKEN_VARIABLE}"
        return AgentFailure(FailureKind.AGENT_ERROR, message)
    if status in (403, 413, 421):
        return AgentFailure(FailureKind.AGENT_ERROR, f"HTTP {status}")
    shared = failure_of_status(httpx.Response(status, headers=response.headers.raw))
    if shared is None and status >= 500:
        return AgentFailure(FailureKind.AGENT_ERROR, f"HTTP {status}")
    return shared

"""Connections to MCP servers, by URL or by command, with bounded HTTP.

HTTP is bounded, and its failures end one call instead of all: the SDK turns every HTTP status into
one error and lets a broken connection end the session with all its calls. So the outcome of a
call's own exchange is recorded here, and the SDK sees a plain 503 instead. An exchange finds its
record by a context variable: the SDK runs each request in its caller's context.
"""

import asyncio
import os
import shlex
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, TextIO, cast
from urllib.parse import urlsplit

import httpx
import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.files import read_tail
from assay.net.client import (
    CONNECT_SECONDS,
    BoundedDecoder,
    EncodingRefused,
    close_desynchronized,
    no_cookies,
    open_client,
    read_token,
    send_guarded,
    tls_context,
    token_for,
)
from assay.net.http import (
    ERROR_BODY_BYTES,
    ERROR_BODY_SECONDS,
    MAX_BYTES,
    classify_http_errors,
    failure_of_status,
)
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, split_address
from assay.net.redact import MCP_TOKEN_VARIABLE, OWN_SECRETS, quote
from assay.privacy import child_environment, is_private
from assay.targets.http_agent import UNKNOWN, AgentReadiness, ask_readiness, ready_url
from assay.targets.protocol import CURRENT_SEARCH
from assay.targets.target_kinds import Target

# Longer than any call: the caller bounds the whole call, this only ends what was forgotten.
_TIMEOUT = httpx2.Timeout(300.0, connect=CONNECT_SECONDS, write=30.0, pool=None)
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=4.0)
_STDERR_LENGTH = 300


class Server:
    """An MCP server that sessions can be opened with.

    `handshakes` are the ways to open a session, in the order in which they are tried: `auto` asks
    which versions the server speaks, `legacy` initializes a session at once. `advice` ends a
    message about no session, `stderr_tail` is the last line that a started command wrote.
    """

    handshakes: tuple[str, ...] = ("auto",)
    advice = ""
    stderr_tail = ""

    def connect(self) -> AbstractAsyncContextManager[Any]:
        """A fresh transport for `mcp.Client`."""
        raise NotImplementedError

    async def readiness(self) -> AgentReadiness:
        """What the server says about itself."""
        return UNKNOWN

    async def close(self) -> None:
        """Release what all sessions share."""


class HttpServer(Server):
    """A server at an address. One HTTP client serves all sessions: making one is expensive."""

    def __init__(self, url: str, policy: OutboundPolicy = UNRESTRICTED) -> None:
        self._policy = policy
        split_address(url)  # raises for anything but an http(s) URL
        read_token(policy, MCP_TOKEN_VARIABLE)  # raises for one that no header can hold
        path = urlsplit(url).path.rstrip("/")
        self._url = url if path else url.rstrip("/") + "/mcp"
        self._http: httpx2.AsyncClient | None = None
        self.advice = "; is the server running, and is this its address? MCP is usually at /mcp"
        if path.endswith("/sse"):
            self.advice = (
                "; /sse is the address of MCP's deprecated transport: start the server with "
                "streamable HTTP, which is usually at /mcp, or as a command with mcp-stdio:"
            )

    def connect(self) -> AbstractAsyncContextManager[Any]:
        if self._http is None:
            self._http = open_http(policy=self._policy)
        return streamable_http_client(
            self._url, http_client=self._http, max_sse_event_size=MAX_BYTES
        )

    async def readiness(self) -> AgentReadiness:
        path = urlsplit(self._url).path.rstrip("/").removesuffix("/mcp")
        token = token_for(self._url, self._policy, MCP_TOKEN_VARIABLE)
        async with open_client(self._policy, auth=token) as http:
            return await ask_readiness(http, ready_url(self._url, below=path))

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None


class StdioServer(Server):
    """A command. It gets our environment, as from a shell, and ends with the session."""

    # A question about versions stops servers of the SDK up to 1.8, which then answer nothing.
    handshakes = ("legacy", "auto")

    def __init__(self, command: str) -> None:
        try:
            words = shlex.split(command)
        except ValueError:  # a quote without its end
            words = []
        if not words:
            raise UsageError(
                f"cannot parse the command {command!r}; write mcp-stdio:COMMAND, such as "
                "'mcp-stdio:uvx server'"
            )
        environment = {k: v for k, v in child_environment().items() if k not in OWN_SECRETS}
        self._parameters = StdioServerParameters(
            command=words[0], args=words[1:], env=environment, encoding_error_handler="replace"
        )

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        # A command may write what it was asked: in private mode that goes nowhere.
        private = is_private()
        with Path(os.devnull).open("w+b") if private else tempfile.TemporaryFile() as stderr:
            try:
                errlog = cast(TextIO, stderr)
                async with stdio_client(self._parameters, errlog=errlog) as streams:
                    yield streams
            finally:
                tail = read_tail(cast(BinaryIO, stderr))
                lines = [line.strip() for line in tail.splitlines() if line.strip()]
                self.stderr_tail = lines[-1][:_STDERR_LENGTH] if lines else ""


def server_of(target: Target, policy: OutboundPolicy | None = None) -> Server:
    """The server that a target names: a command for `mcp-stdio:`, else an address."""
    if target.kind == "mcp-stdio":
        return StdioServer(target.address)
    return HttpServer(target.address, policy or UNRESTRICTED)


class ServerRequests:
    """The streams of a session, with a limit on the server's own requests, such as for sampling.

    The SDK answers each in a task of its own: a server that sends requests and reads no reply would
    fill the memory. Past `MAX_OPEN_REQUESTS` the session ends, and `flooded` is True.
    """

    MAX_OPEN_REQUESTS = 100

    def __init__(self, transport: AbstractAsyncContextManager[Any]) -> None:
        self._transport = transport
        self.open_requests = 0

    @property
    def flooded(self) -> bool:
        """Whether the server has sent more requests than it may."""
        return self.open_requests > self.MAX_OPEN_REQUESTS

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._transport.__aenter__()
        return _Stream(read, self), _Stream(write, self)

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._transport.__aexit__(*error)


class _Stream:
    """A stream of the SDK that counts what passes; all else is the inner one's."""

    def __init__(self, inner: Any, requests: ServerRequests) -> None:
        self._inner, self._requests = inner, requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await self._inner.__aexit__(*error)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        item = await self._inner.__anext__()
        # Once flooded, it stays so: nothing is written after the end of the session.
        self._requests.open_requests += isinstance(getattr(item, "message", None), JSONRPCRequest)
        if self._requests.flooded:
            raise StopAsyncIteration
        return item

    async def send(self, item: Any) -> None:
        await self._inner.send(item)
        if not self._requests.flooded:
            answered = isinstance(item.message, JSONRPCResponse | JSONRPCError)
            self._requests.open_requests -= answered


@dataclass
class ExchangeRecord:
    """The outcome of one call's HTTP exchange; `ended` is whether a whole body was read."""

    status: int | None = None
    failure: AgentFailure | None = None
    ended: bool = False


current_exchange: ContextVar[ExchangeRecord | None] = ContextVar("current_exchange", default=None)


def open_http(
    transport: httpx2.AsyncBaseTransport | None = None,
    policy: OutboundPolicy = UNRESTRICTED,
) -> httpx2.AsyncClient:
    """A client for MCP sessions over HTTP; `transport` replaces the network, in tests.

    A restricted client sends no token: the address came in a request, not from its owner.
    """
    token = read_token(policy, MCP_TOKEN_VARIABLE)
    inner = transport or httpx2.AsyncHTTPTransport(limits=_LIMITS, verify=tls_context())
    return httpx2.AsyncClient(
        transport=RecordingTransport(inner, policy),
        timeout=_TIMEOUT,
        cookies=no_cookies(),
        headers={
            "User-Agent": "assay",
            # Without compression, what is counted against the limit is what is held in memory.
            "Accept-Encoding": "identity",
            **({"Authorization": f"Bearer {token}"} if token else {}),
        },
    )


class RecordingTransport(httpx2.AsyncBaseTransport):
    """Bounds responses and records how each exchange ended in its caller's `ExchangeRecord`."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, policy: OutboundPolicy) -> None:
        self._inner = inner
        self._policy = policy

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = current_exchange.get() or ExchangeRecord()
        if search := CURRENT_SEARCH.get():
            request.headers["traceparent"] = search.traceparent
        try:
            response = await self._send(request)
        except (httpx.RequestError, httpx2.TransportError) as error:
            exchange.failure = _failure_of(error)
            return httpx2.Response(503, request=request)
        exchange.status = response.status_code
        exchange.failure = _failure_of_status(response)
        if exchange.failure is not None:
            exchange.failure.said = await _take_error_body(response)
        try:
            decoder = _decoder_for(request, response)
        except httpx.RequestError as error:
            await response.aclose()
            exchange.failure = _failure_of(error)
            return httpx2.Response(503, request=request)
        if decoder is not None and isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _BoundedStream(response.stream, decoder, exchange)
        return response

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        send = self._inner.handle_async_request
        if not self._policy.public_only:
            return await send(request)
        not_connected = httpx2.ConnectError, httpx2.ConnectTimeout
        return await send_guarded(request, send, self._policy, not_connected)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _take_error_body(response: httpx2.Response) -> str:
    """The start of an error's body, which is put back for the SDK."""
    body = b""
    if response.headers.get("content-encoding") or not isinstance(
        response.stream, httpx2.AsyncByteStream
    ):
        return ""
    with suppress(httpx2.HTTPError, httpx2.StreamError, TimeoutError):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            async for chunk in response.stream:
                body += chunk
                if len(body) >= ERROR_BODY_BYTES:
                    break
    close_desynchronized(response.stream)
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
        except (httpx.RequestError, httpx2.TransportError) as error:
            self._exchange.failure = _failure_of(error)
            raise httpx2.StreamError("the response ended early, or was refused") from error

    async def aclose(self) -> None:
        close_desynchronized(self._inner)
        await self._inner.aclose()


def _failure_of(error: httpx.RequestError | httpx2.TransportError) -> AgentFailure:
    try:
        with classify_http_errors():
            if isinstance(error, httpx2.TransportError):  # the SDK brings a copy of httpx
                same = getattr(httpx, type(error).__name__, httpx.TransportError)
                raise same(str(error)) from error
            raise error
    except AgentFailure as failure:
        return failure


def _failure_of_status(response: httpx2.Response) -> AgentFailure | None:
    status = response.status_code
    if status == 401:
        message = f"HTTP 401: the server requires a token; set {MCP_TOKEN_VARIABLE}"
        return AgentFailure(FailureKind.AGENT_ERROR, message, status=status)
    shared = failure_of_status(httpx.Response(status, headers=response.headers.raw))
    if shared is None and (status >= 500 or status in (403, 413, 421)):
        return AgentFailure(FailureKind.AGENT_ERROR, f"HTTP {status}", status=status)
    return shared

"""Sessions with MCP servers, by URL or command. One serves a whole run; a lost one is opened again.

The SDK's requests go through the one client of `assay.net`, so that the bound, the policy and the
classes of failures are those of every target. The SDK turns every HTTP status into one error and
lets a broken connection end the session with all its calls: so the outcome of a call's exchange is
recorded here, and the SDK sees a plain 503 instead. An exchange finds its record by a context
variable, because the SDK runs each request in its caller's context.
"""

import asyncio
import logging
import os
import shlex
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, TextIO, cast
from urllib.parse import urlsplit

import httpx
import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
    Implementation,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestParamsMeta,
    Tool,
)
from pydantic import ValidationError

from assay.errors import (
    RATE_LIMITED,
    AgentFailure,
    FailureKind,
    TargetError,
    TargetLoading,
    UsageError,
)
from assay.files import read_tail
from assay.net.client import MAX_BYTES_EXTENSION, no_cookies, open_client, token_for
from assay.net.http import MAX_BYTES, classify_http_errors, failure_of_status, read_error_body
from assay.net.json import JsonObject
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, split_address
from assay.net.redact import MCP_TOKEN_VARIABLE, OWN_SECRETS, quote
from assay.privacy import child_environment, is_private
from assay.targets.http_agent import UNKNOWN, AgentReadiness, ask_readiness, ready_url
from assay.targets.protocol import CURRENT_SEARCH, invalid_answer
from assay.targets.target_kinds import Target

_STDERR_LENGTH = 300
_OPEN_SECONDS = 60.0
_CLIENT = Implementation(name="assay", version="1")
_SESSION_GONE = 404
# Other statuses below 500 may be part of the protocol, such as 405 for a server without streams.
_FINAL_STATUSES = (401, 403, 413, 421, RATE_LIMITED)
# A server may answer every page with one more.
_MAX_TOOL_PAGES = 20


class Server:
    """An MCP server. Its `handshakes` are tried in turn: `auto` asks for its versions, `legacy`
    initializes a session at once. `advice` ends a message about no session.
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

    advice = "; is the server running, and is this its address? MCP is usually at /mcp"

    def __init__(self, url: str, policy: OutboundPolicy = UNRESTRICTED) -> None:
        split_address(url)  # raises for anything but an http(s) URL
        self._policy = policy
        self._token = token_for(url, policy, MCP_TOKEN_VARIABLE)
        path = urlsplit(url).path.rstrip("/")
        self._url = url if path else url.rstrip("/") + "/mcp"
        self._http: httpx2.AsyncClient | None = None

    def connect(self) -> AbstractAsyncContextManager[Any]:
        if self._http is None:
            http = open_client(self._policy, auth=self._token)
            self._http = httpx2.AsyncClient(
                transport=_SharedTransport(http), headers=dict(http.headers), cookies=no_cookies()
            )
        return streamable_http_client(
            self._url, http_client=self._http, max_sse_event_size=MAX_BYTES
        )

    async def readiness(self) -> AgentReadiness:
        path = urlsplit(self._url).path.rstrip("/").removesuffix("/mcp")
        async with open_client(self._policy, auth=self._token) as http:
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


def server_of(target: Target, policy: OutboundPolicy = UNRESTRICTED) -> Server:
    """The server that a target names: a command for `mcp-stdio:`, else an address."""
    if target.kind == "mcp-stdio":
        return StdioServer(target.address)
    return HttpServer(target.address, policy)


@dataclass
class ExchangeRecord:
    """The outcome of one call's HTTP exchange; `ended` is whether a whole body was read."""

    status: int | None = None
    failure: AgentFailure | None = None
    ended: bool = False


current_exchange: ContextVar[ExchangeRecord | None] = ContextVar("current_exchange", default=None)


class McpSession:
    """A session with an MCP server that many calls share; `close` closes the server as well."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._handshakes = list(server.handshakes)
        self._connection: _Connection | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> tuple[str, list[Tool]]:
        """What the server is and speaks, and its tools. Raises `TargetError`."""
        # Its errors quote what did not parse, which may be an answer.
        logging.getLogger("mcp.client").setLevel(logging.CRITICAL + 1)
        try:
            connection = await self._live_connection()
        except AgentFailure as failure:
            away = failure.kind is FailureKind.CONNECTION and failure.status is not None
            raise (TargetLoading if away else TargetError)(str(failure)) from failure
        server, version = connection.client.server_info, connection.client.protocol_version
        return f"{server.name if server else 'a server'}, MCP {version}", connection.tools

    async def call(self, tool: str, arguments: JsonObject) -> CallToolResult:
        """Call a tool. Raises `AgentFailure`; the server's words are apart from its message."""
        connection = await self._live_connection()
        exchange = ExchangeRecord()
        current_exchange.set(exchange)
        search = CURRENT_SEARCH.get()
        meta = {"traceparent": search.traceparent} if search else None
        try:
            return await connection.client.call_tool(
                tool, arguments, meta=cast(RequestParamsMeta | None, meta)
            )
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or exchange.status == _SESSION_GONE:
                connection.closing.set()  # the next call opens a new one
            failure = exchange.failure or _failure_of_code(error.code, exchange)
            if connection.requests.flooded:
                message = "the server sent requests without end"
                failure = AgentFailure(FailureKind.PROTOCOL, message)
            failure.said = failure.said or quote(error.message)
            raise failure from error
        except ValidationError as error:
            message = "the result does not follow the MCP schema"
            raise AgentFailure(FailureKind.PROTOCOL, message) from error
        except RuntimeError as error:  # what the SDK raises for a breach of the output schema
            message = f"the result does not match the output schema of {tool!r}"
            raise invalid_answer(message) from error

    async def close(self) -> None:
        """End the session, and release what the server holds."""
        if self._connection is not None:
            await self._connection.close()
        await self.server.close()

    async def _live_connection(self) -> "_Connection":
        """The open connection, else one by the first handshake that the server accepts."""
        async with self._opening:
            while self._connection is None or not self._connection.is_open:
                if self._connection is not None:
                    await self._connection.close()
                self._connection = _Connection(self.server.connect(), self._handshakes[0])
                try:
                    await self._connection.open()
                except AgentFailure as failure:
                    await self._connection.close()
                    # Only an error from the server itself says that another handshake may do.
                    cause = failure.__cause__
                    refused = isinstance(cause, MCPError) and cause.code != CONNECTION_CLOSED
                    if not refused or len(self._handshakes) == 1:
                        raise
                    self._handshakes.pop(0)
            return self._connection


class _Connection:
    """One opened SDK client, held by a task."""

    client: Client
    tools: list[Tool]

    def __init__(self, transport: AbstractAsyncContextManager[Any], handshake: str) -> None:
        self.requests = ServerRequests(transport)
        self._handshake = handshake
        self.closing = asyncio.Event()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._owner: asyncio.Task[None] | None = None

    @property
    def is_open(self) -> bool:
        alive = self._owner is not None and not self._owner.done()
        return self._opened.done() and alive and not self.closing.is_set()

    async def open(self) -> None:
        exchange = ExchangeRecord()
        current_exchange.set(exchange)
        self._owner = asyncio.create_task(self._hold_client())
        try:
            # Shielded: `_hold_client` sets the result of what a timeout would cancel.
            async with asyncio.timeout(_OPEN_SECONDS):
                await asyncio.shield(self._opened)
        except TimeoutError:
            message = f"no MCP handshake within {_OPEN_SECONDS:g} s"
            raise AgentFailure(FailureKind.TIMEOUT, message) from None
        except Exception as error:
            failure = AgentFailure(
                FailureKind.PROTOCOL,
                f"the server there does not speak MCP ({type(error).__name__})",
            )
            if isinstance(error, MCPError):
                failure = _failure_of_code(error.code, ExchangeRecord())
            elif isinstance(error, OSError):
                message = error.strerror or str(error)
                if isinstance(error, FileNotFoundError | PermissionError):
                    message = f"cannot start the command ({message}); check what follows mcp-stdio:"
                failure = AgentFailure(FailureKind.CONNECTION, message)
            raise (exchange.failure or failure) from error

    async def close(self) -> None:
        self.closing.set()
        if self._owner is None:
            return
        if not self._opened.done():
            self._owner.cancel()  # still in its handshake, which does not look at `closing`
        await asyncio.gather(self._owner, return_exceptions=True)

    async def _hold_client(self) -> None:
        try:
            async with Client(
                self.requests, client_info=_CLIENT, cache=None, mode=self._handshake
            ) as client:
                self.client, self.tools = client, []
                cursor: str | None = None
                for _ in range(_MAX_TOOL_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    self.tools += page.tools
                    if (cursor := page.next_cursor) is None:
                        break
                self._opened.set_result(None)
                await self.closing.wait()
        except Exception as error:
            inner: BaseException = error
            while isinstance(inner, BaseExceptionGroup):  # the SDK nests its task groups
                inner = inner.exceptions[0]
            if not self._opened.done():
                self._opened.set_exception(inner)


def _failure_of_code(code: int, exchange: ExchangeRecord) -> AgentFailure:
    """Without the message of the error, which is the server's and may quote the query."""
    if code == CONNECTION_CLOSED and exchange.ended:
        message = "the response ended before the result came"
        return AgentFailure(FailureKind.PROTOCOL, message)
    if code == CONNECTION_CLOSED or exchange.status == _SESSION_GONE:
        return AgentFailure(FailureKind.CONNECTION, "the session was closed, or has expired")
    if code == REQUEST_TIMEOUT:
        return AgentFailure(FailureKind.TIMEOUT, "the server reported a timeout")
    unknown = code in (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND)
    kind = FailureKind.PROTOCOL if unknown else FailureKind.AGENT_ERROR
    return AgentFailure(kind, f"the server answered with error {code}")


class ServerRequests:
    """The streams of a session, with a limit on the server's own requests, such as for sampling.

    The SDK answers each in a task: a server that sends requests and reads no reply would fill the
    memory. Past `MAX_OPEN_REQUESTS` the session ends, and `flooded` is True.
    """

    MAX_OPEN_REQUESTS = 100

    def __init__(self, transport: AbstractAsyncContextManager[Any]) -> None:
        self._transport = transport
        self.open_requests = 0

    @property
    def flooded(self) -> bool:
        return self.open_requests > self.MAX_OPEN_REQUESTS

    async def __aenter__(self) -> tuple[Any, Any]:
        read, write = await self._transport.__aenter__()
        return _Stream(read, self), _Stream(write, self)

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._transport.__aexit__(*error)


class _Stream:
    """A stream of the SDK that counts what passes."""

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


class _SharedTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of the SDK's copy of httpx by `http`, without its time limit, and records
    how each exchange ended.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        exchange = current_exchange.get() or ExchangeRecord()
        if search := CURRENT_SEARCH.get():
            request.headers["traceparent"] = search.traceparent
        same = self._http.build_request(
            request.method,
            str(request.url),
            content=await request.aread(),
            headers=request.headers.raw,
        )
        if request.method != "GET":  # the stream beside the answers lasts as long as the session
            same.extensions[MAX_BYTES_EXTENSION] = MAX_BYTES
        try:
            with classify_http_errors():
                response = await self._http.send(same, stream=True)
        except AgentFailure as failure:
            exchange.failure = failure
            return httpx2.Response(503, request=request)
        status = exchange.status = response.status_code
        failed = failure_of_status(status, response.headers, MCP_TOKEN_VARIABLE)
        if failed and (status >= 500 or status in _FINAL_STATUSES):
            exchange.failure = failed
            failed.said = quote(await read_error_body(response))
            await response.aclose()
            return httpx2.Response(status, request=request)
        exchange.failure = None
        return httpx2.Response(
            status,
            headers=response.headers.raw,
            stream=_SharedStream(response, exchange),
            request=request,
        )

    async def aclose(self) -> None:
        await self._http.aclose()


class _SharedStream(httpx2.AsyncByteStream):
    """Its errors are of the one class that the SDK takes for the end of this answer alone."""

    def __init__(self, response: httpx.Response, exchange: ExchangeRecord) -> None:
        self._response = response
        self._exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            with classify_http_errors():
                async for chunk in self._response.aiter_raw():
                    yield chunk
            self._exchange.ended = True
        except AgentFailure as failure:
            self._exchange.failure = failure
            raise httpx2.StreamError("the response ended early, or was refused") from failure

    async def aclose(self) -> None:
        await self._response.aclose()

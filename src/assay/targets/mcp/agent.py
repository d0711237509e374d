"""Targets `mcp:URL[#tool]` and `mcp-stdio:COMMAND[#tool]`: any MCP server with a search tool.

One session serves a whole run, and is opened again when it was lost. The SDK's client has to be
closed by the task that opened it, so a task of its own holds it.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import Any, cast

import orjson
from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
    EmbeddedResource,
    Implementation,
    RequestParamsMeta,
    ResourceLink,
    TextContent,
    Tool,
)
from pydantic import ValidationError

from assay.errors import AgentFailure, FailureKind, TargetError, TargetLoading
from assay.net.http import MAX_BYTES, too_large
from assay.net.json import JsonObject, parse_json
from assay.net.redact import quote
from assay.targets.detection import detect_list, json_values
from assay.targets.mapping import AnswerReader, Received
from assay.targets.mcp.connection import (
    ExchangeRecord,
    Server,
    ServerRequests,
    current_exchange,
    server_of,
)
from assay.targets.mcp.tools import SearchTool, find_search_tool
from assay.targets.opening import redact_target
from assay.targets.protocol import CURRENT_SEARCH, AgentAnswer, AgentInfo
from assay.targets.readiness import AgentReadiness
from assay.targets.target_kinds import OpenContext, Target

_NOT_JSON = "the result is neither structured content nor JSON text"
_EMPTY = "the result has neither text nor structured content"


def read_result(result: CallToolResult, reader: AnswerReader) -> AgentAnswer:
    """The answer in the result of a search tool. Raises `AgentFailure` if there is none."""
    if result.is_error:
        texts = [part.text for part in result.content if isinstance(part, TextContent)]
        message = "the tool answered with an error"
        raise AgentFailure(FailureKind.AGENT_ERROR, message, said=quote(" ".join(texts)))
    return reader.read(received_from(result))


def received_from(result: CallToolResult) -> Received:
    """The text and the value of a result. Raises `AgentFailure` for one that is too large."""
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if sum(map(len, texts)) > MAX_BYTES:
        raise too_large(MAX_BYTES)
    structured = result.structured_content
    if structured is not None:
        # A tool that returns a string: the SDK puts it, JSON or not, into {"result": ...}, and
        # others into an object with another name.
        inner = next(iter(structured.values())) if len(structured) == 1 else structured
        if isinstance(inner, str):
            return received_text([inner])
        if inner is None:
            return Received("", [])  # a tool that returns nothing has found nothing
        if isinstance(inner, list) and inner and all(isinstance(each, str) for each in inner):
            return received_text(inner)
        return Received("\n".join(texts) or json.dumps(structured), structured)
    links = [
        {"uri": str(part.uri if isinstance(part, ResourceLink) else part.resource.uri)}
        for part in result.content
        if isinstance(part, ResourceLink | EmbeddedResource)
    ]
    if links:
        return Received("\n".join([*texts, *(link["uri"] for link in links)]), links)
    if result.content and not texts:
        return Received("", problem=_EMPTY)
    return received_text(texts)


def received_text(texts: Sequence[str]) -> Received:
    """What blocks of text hold: JSON in one or in each of them, one result in each, or prose."""
    text = "\n".join(texts)
    values: list[Any] = []
    for block in texts:
        with suppress(orjson.JSONDecodeError):
            values.append(parse_json(block))
    if len(values) < len(texts):  # "Found 2 documents:", and then a block of JSON for each
        values = [value for value in values if isinstance(value, dict | list)]
    if values or not texts:
        single = len(values) == 1
        return Received(text, values[0] if single else values, messages=not single)
    if len(texts) > 1:
        return Received(text, list(texts))
    embedded = next((value for value in json_values(text) if detect_list(value)), None)
    return Received(text, problem=_NOT_JSON) if embedded is None else Received(text, embedded)


Connect = Callable[[], AbstractAsyncContextManager[Any]]
"""A fresh transport each time, for `mcp.Client`."""

_OPEN_SECONDS = 60.0
_CLIENT = Implementation(name="assay", version="1")
_SESSION_GONE = 404
_MAX_TOOL_PAGES = 20


class McpAgent:
    """An MCP server with a search tool; without `tool`, the one that looks most like a search."""

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        tool: str | None = None,
        mapping: Mapping[str, str] | None = None,
        known: Container[str] = (),
        track: str = "undeclared",
    ) -> None:
        self.info = AgentInfo(name=name, protocol="mcp", track=track)
        self._server = server
        self._session = McpSession(server.connect, server.handshakes)
        self._mapping = mapping or {}
        self.reader = AnswerReader(self._mapping, known)
        self._wanted = tool
        self._tool: SearchTool | None = None
        self.input_schema: Mapping[str, Any] = {}

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "McpAgent":
        """`mcp:URL` or `mcp-stdio:COMMAND`, either with `#tool`."""
        return cls(
            redact_target(str(target)),
            server_of(target, context.policy),
            tool=target.fragment or None,
            mapping=context.mapping,
            known=context.dataset.known_ids,
            track=context.track,
        )

    async def open(self) -> None:
        """Open a session and find the search tool. Raises `TargetError`."""
        try:
            spoken, tools = await self._session.open()
        except TargetError as error:
            stderr = self._server.stderr_tail
            detail = f"; its stderr ends with: {stderr}" if stderr else self._server.advice
            raise type(error)(f"{self.info.name}: {error}{detail}") from error
        self._tool = find_search_tool(tools, self._wanted, self._mapping)
        self.input_schema = next(t.input_schema for t in tools if t.name == self._tool.name)
        self.info = replace(self.info, details=f"{spoken}, {self._tool.describe()}")

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Call the search tool."""
        assert self._tool is not None, "call open() before ask()"
        result = await self._session.call(self._tool.name, self._tool.arguments(query, top_k))
        answer = read_result(result, self.reader)
        if self._tool.top_k is None:  # the tool takes no number of results
            return replace(answer, doc_ids=answer.doc_ids[:top_k])
        return answer

    def query_in(self, arguments: Mapping[str, Any]) -> str:
        """What somebody else's arguments search for; empty if they do not say."""
        assert self._tool is not None, "call open() before query_in()"
        value: Any = arguments
        for step in self._tool.query.path:
            value = value.get(step) if isinstance(value, Mapping) else None
        return value if isinstance(value, str) else " ".join(map(str, value or ()))

    async def call(self, arguments: dict[str, Any]) -> tuple[CallToolResult, AgentAnswer]:
        """Call the search tool with somebody else's arguments: its result, and what it says."""
        assert self._tool is not None, "call open() before call()"
        result = await self._session.call(self._tool.name, arguments)
        return result, read_result(result, self.reader)

    async def readiness(self) -> AgentReadiness:
        """What `/health/ready` beside the server's `/mcp` says; a command says nothing."""
        return await self._server.readiness()

    async def close(self) -> None:
        """Close the session and the connections."""
        await self._session.close()
        await self._server.close()


class McpSession:
    """A session with an MCP server that many calls share.

    Parameters:
        connect: opens a transport.
        handshakes: how a session is opened, in the order of trying; see `Server`.
    """

    def __init__(self, connect: Connect, handshakes: Sequence[str] = ("auto",)) -> None:
        self._connect = connect
        self._handshakes = tuple(handshakes)
        self._connection: _Connection | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> tuple[str, list[Tool]]:
        """What the server is and speaks, and its tools. Raises `TargetError` if there is none."""
        # Its errors quote what did not parse, which may be an answer.
        logging.getLogger("mcp.client").setLevel(logging.CRITICAL + 1)
        try:
            connection = await self._live_connection()
            server, version = connection.client.server_info, connection.client.protocol_version
            return f"{server.name if server else 'a server'}, MCP {version}", connection.tools
        except AgentFailure as failure:
            away = failure.kind is FailureKind.CONNECTION and failure.status is not None
            raise (TargetLoading if away else TargetError)(str(failure)) from failure

    async def call(self, tool: str, arguments: JsonObject) -> CallToolResult:
        """Call a tool. Raises `AgentFailure`; the server's words are apart from its message."""
        connection = await self._live_connection()
        exchange = ExchangeRecord()
        current_exchange.set(exchange)
        try:
            search = CURRENT_SEARCH.get()
            meta: RequestParamsMeta | None = None
            if search is not None:
                meta = cast(RequestParamsMeta, {"traceparent": search.traceparent})
            return await connection.client.call_tool(tool, arguments, meta=meta)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or exchange.status == _SESSION_GONE:
                connection.expire()
            if connection.flooded:
                message = "the server sent requests of its own without end"
                raise AgentFailure(FailureKind.PROTOCOL, message) from error
            failure = exchange.failure or _failure_of(error, exchange)
            failure.said = failure.said or quote(error.message)
            raise failure from error
        except ValidationError as error:
            message = "the result does not follow the MCP schema"
            raise AgentFailure(FailureKind.PROTOCOL, message) from error
        except RuntimeError as error:  # what the SDK raises for a breach of the output schema
            message = f"the result does not match the output schema of {tool!r}"
            raise AgentFailure(FailureKind.INVALID_ANSWER, message) from error

    async def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            await self._connection.close()

    async def _live_connection(self) -> "_Connection":
        async with self._opening:
            if self._connection is None or not self._connection.is_open:
                if self._connection is not None:
                    await self._connection.close()
                self._connection = await self._open_connection()
            return self._connection

    async def _open_connection(self) -> "_Connection":
        """A connection by the first handshake that the server accepts; later ones use it too."""
        for place, handshake in enumerate(self._handshakes):
            connection = _Connection(self._connect, handshake)
            try:
                await connection.open()
            except _HandshakeRefused as refusal:
                await connection.close()
                if place == len(self._handshakes) - 1:
                    raise refusal.failure from refusal
            else:
                self._handshakes = (handshake,)
                return connection
        raise AssertionError("no handshake to try")


class _HandshakeRefused(Exception):
    """The server answered the handshake with an error: it may accept another one."""

    def __init__(self, failure: AgentFailure) -> None:
        super().__init__(str(failure))
        self.failure = failure


class _Connection:
    """One opened SDK client, held by a task of its own."""

    def __init__(self, connect: Connect, handshake: str) -> None:
        self._requests = ServerRequests(connect())
        self._handshake = handshake
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[None] | None = None
        self._owner: asyncio.Task[None] | None = None
        self.client: Client
        self.tools: list[Tool]

    @property
    def flooded(self) -> bool:
        return self._requests.flooded

    @property
    def is_open(self) -> bool:
        opened = self._opened is not None and self._opened.done()
        alive = self._owner is not None and not self._owner.done()
        return opened and alive and not self._closing.is_set()

    async def open(self) -> None:
        self._opened = asyncio.get_running_loop().create_future()
        exchange = ExchangeRecord()
        current_exchange.set(exchange)
        self._owner = asyncio.create_task(self._own(self._opened))
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await asyncio.shield(self._opened)
        except TimeoutError:
            await self.close()
            message = f"no MCP handshake within {_OPEN_SECONDS:g} s"
            raise AgentFailure(FailureKind.TIMEOUT, message) from None
        except Exception as error:
            failure = exchange.failure or _opening_failure(error)
            if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
                raise _HandshakeRefused(failure) from error
            raise failure from error

    def expire(self) -> None:
        """Make the next call open a new one."""
        self._closing.set()

    async def close(self) -> None:
        self._closing.set()
        if self._owner is None:
            return
        if self._opened is not None and not self._opened.done():
            self._owner.cancel()  # still in its handshake, which does not look at `_closing`
        await asyncio.gather(self._owner, return_exceptions=True)

    async def _own(self, opened: "asyncio.Future[None]") -> None:
        try:
            async with Client(
                self._requests, client_info=_CLIENT, cache=None, mode=self._handshake
            ) as client:
                self.client, self.tools = client, await _list_tools(client)
                opened.set_result(None)
                await self._closing.wait()
        except Exception as error:
            if not opened.done():
                opened.set_exception(_innermost(error))


async def _list_tools(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(_MAX_TOOL_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _innermost(error: BaseException) -> BaseException:
    """The first error inside the SDK's nested task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _opening_failure(error: Exception) -> AgentFailure:
    if isinstance(error, MCPError):
        return _failure_of(error, ExchangeRecord())
    if isinstance(error, FileNotFoundError | PermissionError):
        message = f"cannot start the command ({error.strerror}); check what follows mcp-stdio:"
        return AgentFailure(FailureKind.CONNECTION, message)
    if isinstance(error, OSError):
        return AgentFailure(FailureKind.CONNECTION, error.strerror or type(error).__name__)
    message = f"the server there does not speak MCP ({type(error).__name__})"
    return AgentFailure(FailureKind.PROTOCOL, message)


def _failure_of(error: MCPError, exchange: ExchangeRecord) -> AgentFailure:
    """By its code: the message is the server's, and may quote the query."""
    code = error.code
    if code == CONNECTION_CLOSED and exchange.ended:
        return AgentFailure(FailureKind.PROTOCOL, "the response ended before the result came")
    if code == CONNECTION_CLOSED:
        return AgentFailure(FailureKind.CONNECTION, "the connection was closed")
    if exchange.status == _SESSION_GONE:
        return AgentFailure(FailureKind.CONNECTION, "the session has expired")
    if code == REQUEST_TIMEOUT:
        return AgentFailure(FailureKind.TIMEOUT, "the server reported a timeout")
    if code in (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND):
        return AgentFailure(FailureKind.PROTOCOL, f"the server does not speak MCP (code {code})")
    return AgentFailure(FailureKind.AGENT_ERROR, f"the server answered with error {code}")

"""Targets `mcp:URL[#tool]` and `mcp-stdio:COMMAND[#tool]`: any MCP server with a search tool.

Without `#tool`, the tool that looks most like a search is called. A query is only ever put into an
argument whose name is that of a query; `--map query=q,top_k=limit` names what cannot be recognized,
and `--map arg.collection=docs` sets an argument that a tool requires. Dots lead into objects:
`--map query=params.query`.

One session serves a whole run, and is opened again when it was lost. The SDK's client has to be
closed by the task that opened it, so a task of its own holds it.
"""

import asyncio
import json
import logging
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, replace
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
    Implementation,
    RequestParamsMeta,
    TextContent,
    Tool,
)
from pydantic import ValidationError

from assay.errors import AgentFailure, FailureKind, TargetError, TargetLoading, UsageError
from assay.net.http import MAX_BYTES, too_large
from assay.net.json import JsonObject, parse_json
from assay.net.redact import printable, quote
from assay.targets.answer_reader import CONSTANT, AnswerReader, Received
from assay.targets.detection import word_list
from assay.targets.http_agent import AgentReadiness
from assay.targets.mcp_connection import (
    ExchangeRecord,
    Server,
    ServerRequests,
    current_exchange,
    server_of,
)
from assay.targets.protocol import CURRENT_SEARCH, AgentAnswer, AgentInfo, invalid_answer
from assay.targets.target_kinds import OpenContext, Target, redact_target

Connect = Callable[[], AbstractAsyncContextManager[Any]]
"""A fresh transport each time, for `mcp.Client`."""

_OPEN_SECONDS = 60.0
_CLIENT = Implementation(name="assay", version="1")
_SESSION_GONE = 404
_MAX_TOOL_PAGES = 20
_MAX_DEPTH = 3
_MAX_ARGUMENTS = 200
_MAX_SHOWN = 20
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")

# In the order of preference, without case, dashes and underscores.
_QUERY_NAMES = word_list(
    "query q question querytext searchquery userquery querystring searchtext searchstring "
    "text search searchterm searchterms term terms keywords keyword phrase topic prompt "
    "message input queries querytexts questions searchqueries texts"
)
_TOP_K_NAMES = word_list(
    "topk k limit n maxresults numresults nresults count size top pagesize perpage maxitems "
    "maxhits maxdocs maxdocuments topn first resultlimit resultcount numberofresults"
)
_ARGUMENTS = {
    "query": (_QUERY_NAMES, frozenset({"string", "any", "texts"})),
    "top_k": (_TOP_K_NAMES, frozenset({"integer", "number"})),
}
_SEARCHES = re.compile(r"search|retriev|find|query|lookup|recall", re.IGNORECASE)
_DOES_MORE = re.compile(
    r"answer|creat|writ|updat|delet|remov|upload|status|store|insert|upsert|(?:^|_)add(?:_|$)",
    re.IGNORECASE,
)


class McpAgent:
    """An MCP server with a search tool; once it is open, `input_schema` is that of the tool."""

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
        _, answer = await self.call(self._tool.arguments(query, top_k))
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

    async def call(self, arguments: JsonObject) -> tuple[CallToolResult, AgentAnswer]:
        """Call the search tool with these arguments: its result, and what it says."""
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


def read_result(result: CallToolResult, reader: AnswerReader) -> AgentAnswer:
    """The answer in the result of a search tool. Raises `AgentFailure` if there is none."""
    if result.is_error:
        texts = [part.text for part in result.content if isinstance(part, TextContent)]
        message = "the tool answered with an error"
        raise AgentFailure(FailureKind.AGENT_ERROR, message, said=quote(" ".join(texts)))
    return reader.read(_received(result))


def _received(result: CallToolResult) -> Received:
    """The text and the value of a result. Raises `AgentFailure` for one that is too large."""
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if sum(map(len, texts)) > MAX_BYTES:
        raise too_large(MAX_BYTES)
    structured = result.structured_content
    if structured is not None:
        # The SDK puts what a tool returns into {"result": ...} if it is not an object, and a string
        # so whether it is JSON or not; others use another name.
        value = next(iter(structured.values())) if len(structured) == 1 else structured
        if value is None:
            return Received("", [])  # a tool that returns nothing has found nothing
        if not isinstance(value, str):
            return Received("\n".join(texts) or json.dumps(structured), structured)
        texts = [value]
    elif result.content and not texts:
        return Received("", problem="the result has neither text nor structured content")
    if len(texts) == 1:
        return Received.from_text(texts[0])
    # The SDK up to 1.9 makes a block of each item of a list; some put "Found 2 documents:" first.
    values: list[Any] = []
    for block in texts:
        with suppress(orjson.JSONDecodeError):
            values.append(parse_json(block))
    if len(values) < len(texts):
        values = [value for value in values if isinstance(value, dict | list)]
    if len(values) == 1:
        return Received("\n".join(texts), values[0])
    return Received("\n".join(texts), values or list(texts), messages=bool(values))


class McpSession:
    """A session with an MCP server that many calls share.

    `connect` opens a transport; `handshakes` are tried in their order, see `Server`.
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
        search = CURRENT_SEARCH.get()
        meta = {"traceparent": search.traceparent} if search else None
        try:
            return await connection.client.call_tool(
                tool, arguments, meta=cast(RequestParamsMeta | None, meta)
            )
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or exchange.status == _SESSION_GONE:
                connection.closing.set()  # the next call opens a new one
            failure = exchange.failure or _failure_of(error, exchange)
            if connection.flooded:
                message = "the server sent requests of its own without end"
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
        """End the session."""
        if self._connection is not None:
            await self._connection.close()

    async def _live_connection(self) -> "_Connection":
        async with self._opening:
            if self._connection is None or not self._connection.is_open:
                await self.close()
                self._connection = await self._open_connection()
            return self._connection

    async def _open_connection(self) -> "_Connection":
        """A connection by the first handshake that the server accepts; later ones use it too."""
        handshake, *others = self._handshakes
        connection = _Connection(self._connect, handshake)
        try:
            await connection.open()
        except AgentFailure as failure:
            await connection.close()
            # Only an error from the server itself says that another handshake may do.
            cause = failure.__cause__
            refused = isinstance(cause, MCPError) and cause.code != CONNECTION_CLOSED
            if not refused or not others:
                raise
            self._handshakes = tuple(others)
            return await self._open_connection()
        return connection


class _Connection:
    """One opened SDK client, held by a task of its own."""

    client: Client
    tools: list[Tool]

    def __init__(self, connect: Connect, handshake: str) -> None:
        self._requests = ServerRequests(connect())
        self._handshake = handshake
        self.closing = asyncio.Event()
        self._opened: asyncio.Future[None] | None = None
        self._owner: asyncio.Task[None] | None = None

    @property
    def flooded(self) -> bool:
        return self._requests.flooded

    @property
    def is_open(self) -> bool:
        opened = self._opened is not None and self._opened.done()
        alive = self._owner is not None and not self._owner.done()
        return opened and alive and not self.closing.is_set()

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
            raise (exchange.failure or _opening_failure(error)) from error

    async def close(self) -> None:
        self.closing.set()
        if self._owner is None:
            return
        if self._opened is not None and not self._opened.done():
            self._owner.cancel()  # still in its handshake, which does not look at `closing`
        await asyncio.gather(self._owner, return_exceptions=True)

    async def _own(self, opened: "asyncio.Future[None]") -> None:
        try:
            async with Client(
                self._requests, client_info=_CLIENT, cache=None, mode=self._handshake
            ) as client:
                self.client, self.tools = client, []
                cursor: str | None = None
                for _ in range(_MAX_TOOL_PAGES):
                    page = await client.list_tools(cursor=cursor)
                    self.tools += page.tools
                    if (cursor := page.next_cursor) is None:
                        break
                opened.set_result(None)
                await self.closing.wait()
        except Exception as error:
            inner: BaseException = error
            while isinstance(inner, BaseExceptionGroup):  # the SDK nests its task groups
                inner = inner.exceptions[0]
            if not opened.done():
                opened.set_exception(inner)


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
    kind, message = FailureKind.AGENT_ERROR, f"the server answered with error {error.code}"
    if error.code == CONNECTION_CLOSED and exchange.ended:
        kind, message = FailureKind.PROTOCOL, "the response ended before the result came"
    elif error.code == CONNECTION_CLOSED:
        kind, message = FailureKind.CONNECTION, "the connection was closed"
    elif exchange.status == _SESSION_GONE:
        kind, message = FailureKind.CONNECTION, "the session has expired"
    elif error.code == REQUEST_TIMEOUT:
        kind, message = FailureKind.TIMEOUT, "the server reported a timeout"
    elif error.code in (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND):
        kind, message = FailureKind.PROTOCOL, f"the server does not speak MCP (code {error.code})"
    return AgentFailure(kind, message)


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool.

    `path` are the steps that lead to it; `types` the JSON types it takes, `any` if it declares
    none, `texts` for a list of strings; `required` is whether its object requires it; `maximum` the
    largest number.
    """

    path: tuple[str, ...]
    types: frozenset[str]
    required: bool = False
    maximum: int | None = None

    @property
    def name(self) -> str:
        """The name with dots."""
        return ".".join(self.path)

    @property
    def takes_list(self) -> bool:
        """Whether it takes a list of strings, and no single string."""
        return "texts" in self.types and not self.types & {"string", "any"}


def arguments_of(schema: Mapping[str, Any]) -> list[Argument]:
    """Every argument of a tool, outer ones first."""
    arguments: list[Argument] = []
    inner: list[tuple[tuple[str, ...], Any]] = [((), schema)]
    while inner and len(arguments) < _MAX_ARGUMENTS:
        path, outer = inner.pop(0)
        for variant in _variants(outer, schema):
            properties, required = variant.get("properties"), variant.get("required")
            for name, declared in properties.items() if isinstance(properties, dict) else ():
                here, variants = (*path, str(name)), list(_variants(declared, schema))
                limits = [each.get("maximum") for each in variants]
                maxima = [int(n) for n in limits if isinstance(n, int | float) and n >= 1]
                types = frozenset[str]().union(*map(_types, variants))
                needed = isinstance(required, list) and name in required
                arguments.append(Argument(here, types, needed, max(maxima, default=None)))
                if len(here) < _MAX_DEPTH:
                    inner.append((here, declared))
    return arguments[:_MAX_ARGUMENTS]


def _types(schema: Mapping[str, Any]) -> set[str]:
    declared = schema.get("type")
    types = {declared} if isinstance(declared, str) else set(declared or ())
    if not types and not any(name in schema for name in (*_ALTERNATIVES, "$ref", "properties")):
        return {"any"}
    items = schema.get("items")
    inner = _types(items) if isinstance(items, dict) else {"any"}
    return types | {"texts"} if "array" in types and inner & {"string", "any"} else types


def _variants(schema: Any, root: Mapping[str, Any], depth: int = 4) -> Iterator[Mapping[str, Any]]:
    """The schema and what it refers to or offers as alternatives, as pydantic writes them."""
    if not isinstance(schema, dict) or not depth:
        return
    yield schema
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
        place: Any = root
        for step in filter(None, reference.removeprefix("#").split("/")):
            place = place.get(step) if isinstance(place, dict) else None
        yield from _variants(place, root, depth - 1)
    for name in _ALTERNATIVES:
        for each in schema.get(name, ()) if isinstance(schema.get(name), list) else ():
            yield from _variants(each, root, depth - 1)


@dataclass(frozen=True, slots=True)
class SearchTool:
    """A search tool with its arguments; `constants` are sent with every call."""

    name: str
    query: Argument
    top_k: Argument | None
    constants: Mapping[str, Any]

    def arguments(self, query: str, top_k: int) -> JsonObject:
        """The arguments of one call."""
        arguments: JsonObject = parse_json(orjson.dumps(self.constants))
        _set(arguments, self.query.path, [query] if self.query.takes_list else query)
        if self.top_k is not None:
            _set(arguments, self.top_k.path, min(top_k, self.top_k.maximum or top_k))
        return arguments

    def describe(self) -> str:
        """The tool and its arguments, for the terminal and the record of a run."""
        form = " (a list)" if self.query.takes_list else ""
        count = f"top_k as {self.top_k.name!r}" if self.top_k else "no top_k"
        return printable(f"tool {self.name!r}, query as {self.query.name!r}{form}, {count}")


def _set(arguments: JsonObject, path: Sequence[str], value: Any) -> bool:
    """Put `value` at `path`, making inner objects; False if something else is in the way."""
    place: Any = arguments
    for step in path[:-1]:
        place = place.setdefault(step, {})
        if not isinstance(place, dict):
            return False
    place[path[-1]] = value
    return True


def find_search_tool(
    tools: Sequence[Tool], wanted: str | None, mapping: Mapping[str, str]
) -> SearchTool:
    """The tool named `wanted`, else the first of those that look most like a search.

    Raises `TargetError` if there is none, or if it needs an argument that is not mapped.
    """
    more = f" and {len(tools) - _MAX_SHOWN} more" if len(tools) > _MAX_SHOWN else ""
    names = printable(", ".join(tool.name for tool in tools[:_MAX_SHOWN]) or "none") + more
    if wanted is not None:
        tool = next((tool for tool in tools if tool.name == wanted), None)
        if tool is None:
            raise TargetError(f"the server has no tool {wanted!r}; it has: {names}")
        return _search_tool(tool, mapping)

    def likeness(tool: Tool) -> tuple[bool, bool, bool]:
        query, top_k = _find_arguments(arguments_of(tool.input_schema), mapping)
        return query is not None, bool(_SEARCHES.search(tool.name)), top_k is not None

    searching = [
        tool
        for tool in tools
        if _SEARCHES.search(f"{tool.name} {tool.description or ''}")
        and not _DOES_MORE.search(tool.name)
    ]
    if not searching:
        raise TargetError(
            "none of the server's tools looks like a search tool; append its name to the target: "
            f"...#TOOL. Available: {names}"
        )
    return _search_tool(max(searching, key=likeness), mapping)


def _search_tool(tool: Tool, mapping: Mapping[str, str]) -> SearchTool:
    arguments = arguments_of(tool.input_schema)
    takes = printable(", ".join(each.name for each in arguments[:_MAX_SHOWN])) or "nothing"
    query, top_k = _find_arguments(arguments, mapping)
    for key, argument in (("query", query), ("top_k", top_k)):
        if argument is None and key in mapping:
            what = f"--map {key}={mapping[key]}: tool {tool.name!r} has no such argument"
            raise TargetError(f"{what}; it takes: {takes}")
    if query is None:
        raise TargetError(
            f"tool {tool.name!r} has no argument that looks like a query; name it with: "
            f"--map query=NAME. It takes: {takes}"
        )
    chosen = SearchTool(tool.name, query, top_k, _constants(arguments, mapping))
    sent = chosen.arguments("", 1)
    for argument in arguments:
        holder: Any = sent
        for step in argument.path[:-1]:
            holder = holder.get(step) if isinstance(holder, dict) else None
        if argument.required and isinstance(holder, dict) and argument.path[-1] not in holder:
            raise TargetError(
                f"tool {tool.name!r} requires {argument.name!r}; set it with: "
                f"--map arg.{argument.name}=VALUE"
            )
    return chosen


def _constants(arguments: Sequence[Argument], mapping: Mapping[str, str]) -> JsonObject:
    """Arguments that are sent with every call; a dot leads into an object."""
    constants: JsonObject = {}
    texts = {argument.name for argument in arguments if argument.types == {"string"}}
    for key, text in mapping.items():
        if not key.startswith(CONSTANT):
            continue
        name = key.removeprefix(CONSTANT)
        value: Any = text
        if name not in texts:
            with suppress(orjson.JSONDecodeError):  # else it is a text
                value = parse_json(text)
        if not _set(constants, name.split("."), value):
            raise UsageError(f"--map {key}={text}: an outer argument has a value; leave one out")
    return constants


def _find_arguments(
    arguments: Sequence[Argument], mapping: Mapping[str, str]
) -> tuple[Argument | None, Argument | None]:
    """The arguments for the query and its top_k: the mapped ones, else those of known names."""
    query = _find_argument("query", arguments, mapping)
    return query, _find_argument("top_k", arguments, mapping, query.path[:-1] if query else None)


def _find_argument(
    key: str,
    arguments: Sequence[Argument],
    mapping: Mapping[str, str],
    beside: tuple[str, ...] | None = None,
) -> Argument | None:
    if key in mapping:
        return next((each for each in arguments if each.name == mapping[key]), None)
    names, types = _ARGUMENTS[key]
    candidates = []
    for argument in arguments:
        bare = re.sub(r"[_ -]", "", argument.path[-1]).lower()
        if bare in names and argument.types & types:
            # First of the object with the query, then of outer ones, then by the best known name.
            apart = beside is not None and argument.path[:-1] != beside
            list_last = key == "query" and argument.takes_list
            rank = apart, len(argument.path), list_last, names.index(bare)
            candidates.append((rank, argument))
    return min(candidates, key=lambda row: row[0])[1] if candidates else None

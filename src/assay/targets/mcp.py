"""Targets `mcp:URL[#tool]` and `mcp-stdio:COMMAND[#tool]`: any MCP server with a search tool.

Without `#tool`, the tool whose name says that it searches is called. `--map query=q` and
`--map top_k=limit` name arguments that cannot be recognized, `--map arg.collection=docs` sets one,
and dots lead into objects: `--map query=params.query`.
"""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import orjson
from mcp_types import CallToolResult, TextContent, Tool

from assay.errors import AgentFailure, FailureKind, TargetError, UsageError
from assay.net.http import MAX_BYTES, too_large
from assay.net.json import JsonObject, parse_json
from assay.net.redact import printable, quote
from assay.targets.answer_reader import CONSTANT, AnswerReader, Received
from assay.targets.http_agent import AgentReadiness
from assay.targets.mcp_connection import McpSession, Server, server_of
from assay.targets.protocol import AgentAnswer, AgentInfo
from assay.targets.target_kinds import OpenContext, Target, redact_target

_MAX_DEPTH = 3
_MAX_ARGUMENTS = 200
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")

# In the order of preference, without case, dashes and underscores.
_QUERY_NAMES = (
    *("query", "q", "question", "querytext", "searchquery", "userquery", "searchtext", "text"),
    *("search", "searchterm", "searchterms", "term", "terms", "keywords", "keyword"),
    *("queries", "querytexts", "questions", "searchqueries", "texts"),
)
_TOP_K_NAMES = (
    *("topk", "k", "limit", "n", "maxresults", "numresults", "nresults", "count", "size", "top"),
    *("pagesize", "perpage", "maxitems", "maxhits", "maxdocs", "maxdocuments", "topn"),
)
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
        tool: str = "",
        mapping: Mapping[str, str] | None = None,
        known: Container[str] = (),
        track: str = "undeclared",
    ) -> None:
        self.info = AgentInfo(name=name, protocol="mcp", track=track)
        self._session = McpSession(server)
        self._mapping = mapping or {}
        self.reader = AnswerReader(self._mapping, known)
        self._wanted = tool
        self._tool: SearchTool | None = None
        self.input_schema: Mapping[str, Any] = {}

    async def open(self) -> None:
        try:
            spoken, tools = await self._session.open()
        except TargetError as error:
            stderr = self._session.server.stderr_tail
            detail = f"; its stderr ends with: {stderr}" if stderr else self._session.server.advice
            raise type(error)(f"{self.info.name}: {error}{detail}") from error
        self._tool = self._choose_tool(tools)
        self.input_schema = next(t.input_schema for t in tools if t.name == self._tool.name)
        self.info = replace(self.info, details=f"{spoken}, {self._tool.describe()}")

    # A method, because that of Nextcloud has a fixed name.
    def _choose_tool(self, tools: Sequence[Tool]) -> "SearchTool":
        return find_search_tool(tools, self._wanted, self._mapping)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        assert self._tool is not None, "call open() before ask()"
        _, answer = await self.call(self._tool.arguments(query, top_k))
        if self._tool.top_k is None:  # the tool takes no number of results
            return replace(answer, doc_ids=answer.doc_ids[:top_k])
        return answer

    def query_in(self, arguments: Mapping[str, Any]) -> str:
        """What the arguments of another client search for; empty if they do not say."""
        assert self._tool is not None, "call open() before query_in()"
        value = _at(arguments, self._tool.query.path)
        return value if isinstance(value, str) else " ".join(map(str, value or ()))

    async def call(self, arguments: JsonObject) -> tuple[CallToolResult, AgentAnswer]:
        """Call the search tool with these arguments: its result, and what it says."""
        assert self._tool is not None, "call open() before call()"
        result = await self._session.call(self._tool.name, arguments)
        return result, read_result(result, self.reader)

    async def readiness(self) -> AgentReadiness:
        return await self._session.server.readiness()

    async def close(self) -> None:
        await self._session.close()


def mcp_agent(target: Target, context: OpenContext) -> McpAgent:
    """The agent of `mcp:URL` or `mcp-stdio:COMMAND`, either with `#tool`."""
    return McpAgent(
        redact_target(str(target)),
        server_of(target, context.policy),
        tool=target.fragment,
        mapping=context.mapping,
        known=context.dataset.known_ids,
        track=context.track,
    )


def read_result(result: CallToolResult, reader: AnswerReader) -> AgentAnswer:
    """The answer in the result of a search tool. Raises `AgentFailure` if there is none."""
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if result.is_error:
        message = "the tool answered with an error"
        raise AgentFailure(FailureKind.AGENT_ERROR, message, said=quote(" ".join(texts)))
    if sum(map(len, texts)) > MAX_BYTES:
        raise too_large(MAX_BYTES)
    structured = result.structured_content
    if structured is not None:
        # The SDK puts what a tool returns into {"result": ...} if it is not an object, and a string
        # so whether it is JSON or not; others use another name.
        value = next(iter(structured.values())) if len(structured) == 1 else structured
        if value is None:
            return reader.read(Received("", []))  # a tool that returns nothing has found nothing
        if not isinstance(value, str):
            return reader.read(Received("\n".join(texts) or json.dumps(structured), structured))
        texts = [value]
    elif result.content and not texts:
        problem = "the result has neither text nor structured content"
        return reader.read(Received("", problem=problem))
    if len(texts) == 1:
        return reader.read(Received.from_text(texts[0]))
    # The SDK up to 1.9 makes a block of each item of a list; some put "Found 2 documents:" first.
    values: list[Any] = []
    for block in texts:
        with suppress(orjson.JSONDecodeError):
            values.append(parse_json(block))
    if len(values) < len(texts):
        values = [value for value in values if isinstance(value, dict | list)]
    if len(values) == 1:
        return reader.read(Received("\n".join(texts), values[0]))
    return reader.read(Received("\n".join(texts), values or texts, messages=bool(values)))


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool: the `path` to it, and the JSON `types` it takes, with `any` if it
    declares none and `texts` for a list of strings.
    """

    path: tuple[str, ...]
    types: frozenset[str]
    required: bool = False
    maximum: int | None = None

    @property
    def name(self) -> str:
        return ".".join(self.path)

    @property
    def bare_name(self) -> str:
        """The last step, without case, dashes and underscores."""
        return re.sub(r"[_ -]", "", self.path[-1]).lower()

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
        steps = list(filter(None, reference.removeprefix("#").split("/")))
        yield from _variants(_at(root, steps), root, depth - 1)
    for name in _ALTERNATIVES:
        for each in schema.get(name, ()) if isinstance(schema.get(name), list) else ():
            yield from _variants(each, root, depth - 1)


@dataclass(frozen=True, slots=True)
class SearchTool:
    """A search tool and its arguments; `constants` are sent with every call."""

    name: str
    query: Argument
    top_k: Argument | None
    constants: Mapping[str, Any]

    def arguments(self, query: str, top_k: int) -> JsonObject:
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


def find_search_tool(tools: Sequence[Tool], wanted: str, mapping: Mapping[str, str]) -> SearchTool:
    """The tool named `wanted`, else the first whose name says that it searches.

    Raises `TargetError` if there is none, or if it needs an argument that is not mapped.
    """
    if wanted:
        chosen = [tool for tool in tools if tool.name == wanted]
    else:
        chosen = [t for t in tools if _SEARCHES.search(t.name) and not _DOES_MORE.search(t.name)]
        # Some servers have tools that search by something else, such as search_by_tag.
        chosen.sort(key=lambda tool: _find_query(arguments_of(tool.input_schema), mapping) is None)
    if not chosen:
        missing = f"no tool {wanted!r}"
        if not wanted:
            missing = "no tool that looks like a search, append one to the target (...#TOOL)"
        names = _listed(tool.name for tool in tools)
        raise TargetError(f"the server has {missing}; it has: {names}")
    tool = chosen[0]
    arguments = arguments_of(tool.input_schema)
    query = _find_query(arguments, mapping)
    beside = [each for each in arguments if query and each.path[:-1] == query.path[:-1]]
    near = arguments if "top_k" in mapping else beside
    top_k = _find("top_k", near, mapping, _TOP_K_NAMES, {"integer", "number"})
    if query is None or (top_k is None and "top_k" in mapping):
        key = "query" if query is None else "top_k"
        given = f" {mapping[key]!r}" if key in mapping else " that looks like a query"
        takes = _listed(each.name for each in arguments)
        raise TargetError(
            f"tool {tool.name!r} has no argument{given}; name one with --map {key}=NAME. "
            f"It takes: {takes}"
        )
    search = SearchTool(tool.name, query, top_k, _constants(arguments, mapping))
    sent = search.arguments("", 1)
    for argument in arguments:
        holder = _at(sent, argument.path[:-1])
        if argument.required and isinstance(holder, dict) and argument.path[-1] not in holder:
            raise TargetError(
                f"tool {tool.name!r} requires {argument.name!r}; set it with: "
                f"--map arg.{argument.name}=VALUE"
            )
    return search


def _listed(names: Iterable[str]) -> str:
    return printable(", ".join(islice(names, 20))) or "none"


def _at(value: Any, path: Sequence[str]) -> Any:
    """What lies at `path` in nested objects; None if nothing does."""
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


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


def _find_query(arguments: Sequence[Argument], mapping: Mapping[str, str]) -> Argument | None:
    return _find("query", arguments, mapping, _QUERY_NAMES, {"string", "any", "texts"})


def _find(
    key: str,
    arguments: Sequence[Argument],
    mapping: Mapping[str, str],
    names: Sequence[str],
    types: Container[str],
) -> Argument | None:
    """The mapped argument, else the outermost with the best known name that has one of `types`."""
    if key in mapping:
        return next((each for each in arguments if each.name == mapping[key]), None)
    named = [each for each in arguments if each.bare_name in names]
    return min(
        (each for each in named if any(name in types for name in each.types)),
        key=lambda each: (len(each.path), each.takes_list, names.index(each.bare_name)),
        default=None,
    )

"""The search tool of an MCP server: found by its schema, called, and its result read."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, ContentBlock, TextContent, Tool

from assay.errors import AgentFailure, FailureKind, TargetError
from assay.targets import AgentAnswer
from assay.targets.answer_reader import AnswerReader, parse_mapping
from assay.targets.mcp import McpAgent, find_search_tool, read_result
from assay.targets.mcp_connection import Server

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def tool(name: str, about: str = "", required: tuple[str, ...] = (), **arguments: Any) -> Tool:
    schema = {"type": "object", "properties": arguments, "required": list(required)}
    return Tool(name=name, description=about, input_schema=schema)


@pytest.mark.parametrize(
    ("arguments", "query", "top_k"),
    [
        ({"filter": TEXT, "question": TEXT, "numResults": NUMBER}, "question", "numResults"),
        ({"query": {"anyOf": [TEXT, {"type": "null"}]}, "n": NUMBER}, "query", "n"),
        ({"query": {"type": ["string", "null"]}, "limit": TEXT}, "query", None),
        ({"query": TEXT, "more": {"$ref": "#"}}, "query", None),
    ],
)
def test_usual_names_are_found(arguments: dict[str, Any], query: str, top_k: str | None) -> None:
    found = find_search_tool([tool("search", **arguments)], "", {})
    assert (found.query.name, found.top_k and found.top_k.name) == (query, top_k)


def test_the_tool_is_named_or_the_first_that_looks_most_like_a_search() -> None:
    tools = [tool(name, query=TEXT) for name in ("delete_by_query", "search_a", "retrieve")]
    assert find_search_tool(tools, "", {}).name == "search_a"
    assert find_search_tool(tools, "retrieve", {}).name == "retrieve"
    with pytest.raises(TargetError, match="no tool 'x'; it has: delete_by_query, search_a"):
        find_search_tool(tools, "x", {})


def test_a_server_without_a_search_tool_is_refused() -> None:
    with pytest.raises(TargetError, match=r"no tool that looks like a search.*it has: add"):
        find_search_tool([tool("add", a=NUMBER)], "", {})
    with pytest.raises(TargetError, match="has no argument that looks like a query"):
        find_search_tool([tool("add", a=NUMBER)], "add", {})
    for key in ("query", "top_k"):
        with pytest.raises(TargetError, match="tool 'search' has no argument 'words'"):
            find_search_tool([tool("search", query=TEXT)], "", {key: "words"})


def test_the_user_can_say_what_is_what() -> None:
    given = ["query=words", "top_k=amount", "arg.lang=en", "arg.deep=true", "arg.filter.from=2020"]
    limited = {**NUMBER, "maximum": 20}
    tools = [tool("x", "", ("words", "lang"), words=TEXT, amount=limited, lang=TEXT)]
    found = find_search_tool(tools, "x", parse_mapping(given))
    asked = {"words": "coffee", "amount": 20, "lang": "en", "deep": True, "filter": {"from": 2020}}
    assert found.arguments("coffee", 300) == asked


def test_arguments_of_an_inner_object_are_found_through_references() -> None:
    inner = tool("", "", ("query", "index"), query=TEXT, limit=NUMBER, index=TEXT).input_schema
    params = {"anyOf": [{"$ref": "#/$defs/Params"}, {"type": "null"}]}
    tools = [tool("search", "", ("params",), params=params)]
    tools[0].input_schema["$defs"] = {"Params": inner}
    with pytest.raises(TargetError, match=r"requires 'params.index'.*--map arg\.params\.index="):
        find_search_tool(tools, "", {})
    found = find_search_tool(tools, "", {"arg.params.index": "5"})
    assert found.query.name == "params.query"
    assert found.arguments("x", 3) == {"params": {"index": "5", "query": "x", "limit": 3}}


FOUND = ("note-7", "note-2", "note-5")


def search_markdown(query: str, limit: int = 3) -> str:
    return "# Results\n" + "\n".join(f"1. **Tea** (id: {each})" for each in FOUND[:limit])


def search_blocks(query: str) -> CallToolResult:
    texts = ["Found 3 notes:", *(json.dumps({"doc_id": each}) for each in FOUND)]
    return CallToolResult(content=[TextContent(type="text", text=each) for each in texts])


def query_documents(
    collection_name: str, query_texts: list[str], n_results: int = 3
) -> dict[str, Any]:
    ids = [list(FOUND[:n_results]) for _ in query_texts]
    return {"ids": ids, "documents": [["Tea"] * 3], "distances": [[0.1] * 3]}


class InProcess(Server):
    handshakes = ("legacy",)

    def __init__(self, tool: Callable[..., Any]) -> None:
        self._server: MCPServer[Any] = MCPServer("notes")
        self._server.add_tool(tool, structured_output=None if tool != search_blocks else False)

    def connect(self) -> AbstractAsyncContextManager[Any]:
        return InMemoryTransport(self._server)


@asynccontextmanager
async def opened(tool: Callable[..., Any], *mapping: str) -> AsyncIterator[McpAgent]:
    agent = McpAgent("x", InProcess(tool), mapping=parse_mapping(mapping), known=FOUND)
    try:
        await agent.open()
        yield agent
    finally:
        await agent.close()


@pytest.mark.parametrize(
    ("tool", "mapping", "used"),
    [
        (search_markdown, (r"ids=re:\(id: ([^)]+)\)",), "top_k as 'limit'"),
        (search_blocks, (), "query as 'query', no top_k"),
        (query_documents, ("arg.collection_name=notes",), "query as 'query_texts' (a list)"),
    ],
)
async def test_a_tool(tool: Callable[..., Any], mapping: tuple[str, ...], used: str) -> None:
    async with opened(tool, *mapping) as agent:
        assert used in agent.info.details
        assert (await agent.ask("coffee", 2)).doc_ids == FOUND[:2]


KNOWN = {"MED-1", "MED-2"}
ROWS = [{"doc_id": "MED-1", "score": 1.0}, {"doc_id": "MED-2", "score": 0.5}]


def structured(value: Any) -> CallToolResult:
    return CallToolResult(content=[], structured_content=value)


def texts(*values: str) -> CallToolResult:
    content: list[ContentBlock] = [TextContent(type="text", text=value) for value in values]
    return CallToolResult(content=content)


def read(result: CallToolResult, **mapping: str) -> AgentAnswer:
    return read_result(result, AnswerReader(mapping, KNOWN))


@pytest.mark.parametrize(
    "value",
    [
        {"results": ROWS},
        {"result": {"documents": ROWS, "total": 2}},
        {"doc_ids": ["MED-1", "MED-2"]},
        {"hits": [{"_id": "MED-1", "id": "MED-2"}, {"_id": "MED-2", "id": 8}]},
        {"items": [{"uri": "doc://MED-1"}, {"uri": "doc://MED-2"}]},
        {"matches": [{"document": {"id": "MED-1"}}, {"document": {"id": "MED-2"}}]},
        {"chunks": [{"id": "c1", "metadata": {"source": "MED-1"}}, {"source": "MED-2"}]},
        {"entities": [{"name": "MED-1"}, {"name": "MED-2"}], "relations": []},
        {"ids": [["MED-1", "MED-2"]], "documents": [["a text", "another"]], "distances": [[1, 2]]},
    ],
)
def test_the_field_with_the_ids_is_found(value: dict[str, Any]) -> None:
    assert read(structured(value)).doc_ids == ("MED-1", "MED-2")
    assert read(texts(json.dumps(value))).doc_ids == ("MED-1", "MED-2")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (structured({"total": 3}), "no list of documents"),
        (structured({"results": [{"id": "MED-1"}, {"no": 1}]}), "result 2 has no id in 'id'"),
        (structured({"results": [{"id": 1.5, "title": "Tea"}]}), "no ids were found"),
        (texts("I found MED-1 for you."), "not JSON"),
        (texts('["MED-1"]'.ljust(500_000), " " * 500_001), "larger than 1,000,000 bytes"),
    ],
)
def test_other_shapes_are_invalid_answers(result: CallToolResult, message: str) -> None:
    with pytest.raises(AgentFailure, match=message) as caught:
        read(result)
    assert caught.value.kind is FailureKind.INVALID_ANSWER

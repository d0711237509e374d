"""Tools as people write them with the SDK: each is measured, or refused with what is missing."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel

from assay.errors import AgentFailure, FailureKind, TargetError
from assay.targets.answer_reader import parse_mapping
from assay.targets.mcp import McpAgent
from assay.targets.mcp_connection import Server

FOUND = ("note-7", "note-2", "note-5")


def hits(limit: int) -> list[dict[str, Any]]:
    return [{"doc_id": each, "title": "Tea", "score": 0.5} for each in FOUND[:limit]]


class Note(BaseModel):
    note_id: str


class Notes(BaseModel):
    total: int
    notes: list[Note]


class SearchParams(BaseModel):
    query: str
    limit: int = 3


def search(query: str, limit: int = 3) -> str:
    return json.dumps({"results": hits(limit)})


def search_dicts(query: str, limit: int = 3) -> list[dict[str, Any]]:
    return hits(limit)


def find_ids(q: str, k: int = 3) -> list[str]:
    return list(FOUND[:k])


def retrieve(question: str, max_results: int = 3) -> Notes:
    return Notes(total=3, notes=[Note(note_id=each) for each in FOUND[:max_results]])


def search_markdown(query: str, limit: int = 3) -> str:
    return "# Results\n" + "\n".join(f"1. **Tea** (id: {each})" for each in FOUND[:limit])


def search_blocks(query: str) -> CallToolResult:
    texts = ["Found 3 notes:", *map(json.dumps, hits(3))]
    return CallToolResult(content=[TextContent(type="text", text=each) for each in texts])


def query_documents(
    collection_name: str, query_texts: list[str], n_results: int = 3
) -> dict[str, Any]:
    ids = [list(FOUND[:n_results]) for _ in query_texts]
    return {"ids": ids, "documents": [["Tea"] * 3], "distances": [[0.1] * 3]}


def search_nested(params: SearchParams) -> list[dict[str, Any]]:
    return hits(params.limit)


def search_tags(tag_name: str) -> list[str]:
    raise AssertionError("a query is not the name of a tag")


class InProcess(Server):
    """A server in this process."""

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
        (search, (), "query as 'query', top_k as 'limit'"),
        (search_dicts, (), "query as 'query', top_k as 'limit'"),
        (find_ids, (), "query as 'q', top_k as 'k'"),
        (retrieve, (), "query as 'question', top_k as 'max_results'"),
        (search_markdown, (r"ids=re:\(id: ([^)]+)\)",), "top_k as 'limit'"),
        (search_blocks, (), "query as 'query', no top_k"),
        (query_documents, ("arg.collection_name=notes",), "query as 'query_texts' (a list)"),
        (search_nested, (), "query as 'params.query', top_k as 'params.limit'"),
    ],
)
async def test_a_tool_is_measured(
    tool: Callable[..., Any], mapping: tuple[str, ...], used: str
) -> None:
    async with opened(tool, *mapping) as agent:
        assert used in agent.info.details
        assert (await agent.ask("coffee", 2)).doc_ids == FOUND[:2]


@pytest.mark.parametrize(
    ("tool", "mapping", "missing"),
    [
        (query_documents, (), "requires 'collection_name'; set it with: --map arg.collection_name"),
        (search_tags, (), "--map query=NAME. It takes: tag_name"),
        (search, ("query=words",), "tool 'search' has no argument 'words'"),
        (search, ("top_k=size",), "tool 'search' has no argument 'size'"),
    ],
)
async def test_the_option_that_is_missing_is_named_before_the_run(
    tool: Callable[..., Any], mapping: tuple[str, ...], missing: str
) -> None:
    with pytest.raises(TargetError, match="tool ") as caught:
        async with opened(tool, *mapping):
            pass
    assert missing in str(caught.value)


async def test_text_is_refused_with_the_pattern_that_reads_it() -> None:
    async with opened(search_markdown) as agent:
        with pytest.raises(AgentFailure, match="--map 'ids=re:") as caught:
            await agent.ask("coffee", 3)
    assert caught.value.kind is FailureKind.INVALID_ANSWER
    suggestion = str(caught.value).rpartition("--map '")[2].rstrip("'")
    async with opened(search_markdown, suggestion) as agent:
        assert (await agent.ask("coffee", 3)).doc_ids == FOUND

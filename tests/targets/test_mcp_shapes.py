"""Shapes of servers in the field: each is measured, or refused with the option that is missing."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from mcp.client._memory import InMemoryTransport
from mcp.server.mcpserver import MCPServer
from tests.targets.mcp_shapes import FOUND, SHAPES, TITLES

from assay.errors import AgentFailure, FailureKind, TargetError
from assay.targets.answer_reader import parse_mapping
from assay.targets.mcp import McpAgent
from assay.targets.mcp_connection import Server


class InProcess(Server):
    """A server in this process."""

    handshakes = ("legacy",)

    def __init__(self, server: MCPServer[Any]) -> None:
        self._server = server

    def connect(self) -> AbstractAsyncContextManager[Any]:
        return InMemoryTransport(self._server)


@asynccontextmanager
async def opened(shape: str, *mapping: str) -> AsyncIterator[McpAgent]:
    server = InProcess(SHAPES[shape]())
    agent = McpAgent(shape, server, mapping=parse_mapping(mapping), known=TITLES)
    try:
        await agent.open()
        yield agent
    finally:
        await agent.close()


@pytest.mark.parametrize(
    ("shape", "mapping", "used"),
    [
        ("json_in_a_string", (), "tool 'search', query as 'query', top_k as 'limit'"),
        ("list_of_dicts", (), "tool 'search_notes', query as 'query', top_k as 'limit'"),
        ("list_of_ids", (), "tool 'find', query as 'q', top_k as 'k'"),
        ("pydantic_model", (), "tool 'retrieve', query as 'question', top_k as 'max_results'"),
        ("dict_with_results", (), "tool 'lookup', query as 'text', top_k as 'n'"),
        ("typed_dict", (), "tool 'search', query as 'search_query', top_k as 'top_k'"),
        ("markdown", (r"ids=re:\(id: ([^)]+)\)",), "tool 'search', query as 'query'"),
        ("a_block_for_each_hit", (), "tool 'search', query as 'query', no top_k"),
        ("list_of_lists", ("arg.collection_name=notes",), "query as 'query_texts' (a list)"),
        ("rows_with_scores", (), "query as 'queries' (a list), no top_k"),
        ("nested_params", (), "query as 'params.query', top_k as 'params.limit'"),
        ("several_tools", (), "tool 'search_notes', query as 'keywords', top_k as 'page_size'"),
        ("entries_as_texts", ('ids=re:"ref": "([^"]+)"',), "tool 'find', query as 'query'"),
    ],
)
async def test_a_shape_is_measured(shape: str, mapping: tuple[str, ...], used: str) -> None:
    async with opened(shape, *mapping) as agent:
        assert used in agent.info.details
        assert (await agent.ask("coffee", 2)).doc_ids == FOUND[:2]
        assert (await agent.ask("another", 2)).doc_ids == FOUND[:2]


@pytest.mark.parametrize(
    ("shape", "missing"),
    [
        (
            "list_of_lists",
            "requires 'collection_name'; set it with: --map arg.collection_name=VALUE",
        ),
        ("only_names", "name it with: --map query=collection_name"),
    ],
)
async def test_the_option_that_is_missing_is_named_before_the_run(shape: str, missing: str) -> None:
    with pytest.raises(TargetError, match="tool ") as caught:
        async with opened(shape):
            pass
    assert missing in str(caught.value)


@pytest.mark.parametrize("shape", ["markdown", "entries_as_texts"])
async def test_text_is_refused_with_the_pattern_that_reads_it(shape: str) -> None:
    async with opened(shape) as agent:
        with pytest.raises(AgentFailure, match="--map 'ids=re:") as caught:
            await agent.ask("coffee", 3)
    assert caught.value.kind is FailureKind.INVALID_ANSWER
    suggestion = str(caught.value).rpartition("--map '")[2].rstrip("'")
    async with opened(shape, suggestion) as agent:
        assert (await agent.ask("coffee", 3)).doc_ids == FOUND


async def test_an_argument_that_the_tool_does_not_have_is_said_to_be_missing() -> None:
    with pytest.raises(TargetError, match=r"query=words: .* no such argument.*: query, limit"):
        async with opened("json_in_a_string", "query=words"):
            pass
    with pytest.raises(
        TargetError, match=r"top_k=size: tool 'search' has no such .*: query, limit"
    ):
        async with opened("json_in_a_string", "top_k=size"):
            pass

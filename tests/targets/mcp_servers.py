"""Somebody else's MCP server, and a client that is open for a block."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from starlette.applications import Starlette

from assay.data import Dataset, Document
from assay.targets import Agent, open_target
from assay.targets.target_kinds import OpenContext

DATA = Dataset("tiny", {f"MED-{n}": Document(f"MED-{n}", "", "") for n in range(9)}, {}, {})


@asynccontextmanager
async def opened(target: str, **mapping: str) -> AsyncIterator[Agent]:
    agent = open_target(target, OpenContext(DATA, mapping=mapping))
    try:
        await agent.open()
        yield agent
    finally:
        await agent.close()


def other_server() -> MCPServer[Any]:
    """Somebody else's server: other names, no structured content, and tools that fail."""
    server: MCPServer[Any] = MCPServer("other")

    @server.tool(structured_output=False)
    async def find_articles(q: str, max_results: int = 10) -> str:
        """Search articles."""
        found = [f'{{"title": "[MED-{n}] about it", "id": {n + 100}}}' for n in (3, 1, 2)]
        return f'{{"articles": [{", ".join(found[:max_results])}]}}'

    @server.tool()
    async def fails(query: str) -> str:
        raise ToolError(f"cannot search for {query}")

    @server.tool(structured_output=False)
    async def large(query: str) -> str:
        return "x" * 1_500_000

    @server.tool()
    async def hangs(query: str) -> str:
        await asyncio.Event().wait()
        return ""

    @server.tool(structured_output=False)
    async def empty(query: str) -> CallToolResult:
        return CallToolResult(content=[], structured_content={"results": []})

    return server


def app_of(server: MCPServer[Any], **options: Any) -> Starlette:
    return server.streamable_http_app(**options)

# mypy: ignore-errors
"""Clients of others that search through an MCP address: `mcp_search_client.py KIND URL QUERY`."""

import asyncio
import json
import sys


async def with_fastmcp(url: str, asked: dict[str, str]) -> str:
    from fastmcp import Client

    async with Client(url) as client:
        return (await client.call_tool("search", asked)).content[0].text


async def with_langchain(url: str, asked: dict[str, str]) -> str:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"tool": {"url": url, "transport": "streamable_http"}})
    (tool,) = await client.get_tools()
    result = await tool.ainvoke(asked)
    return result if isinstance(result, str) else result[0]["text"]


async def with_mcp(url: str, asked: dict[str, str]) -> str:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with (
        streamablehttp_client(url) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        return (await session.call_tool("search", asked)).content[0].text


kinds = {"fastmcp": with_fastmcp, "langchain": with_langchain, "mcp-1.8": with_mcp}
kind, address, query = sys.argv[1:]
found = asyncio.run(kinds[kind](address, {"query": query, "top_k": 3}))
print(json.dumps([hit["doc_id"] for hit in json.loads(found)["results"]]))

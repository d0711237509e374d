# mypy: ignore-errors
"""Clients of others that search through an MCP address: `mcp_search_client.py KIND URL QUERY`."""

import asyncio
import json
import sys


async def with_fastmcp(url: str, query: str) -> list[str]:
    from fastmcp import Client

    async with Client(url) as client:
        result = await client.call_tool("search", {"query": query, "top_k": 3})
    return [hit["doc_id"] for hit in json.loads(result.content[0].text)["results"]]


async def with_langchain(url: str, query: str) -> list[str]:
    from langchain_mcp_adapters.client import MultiServerMCPClient

    client = MultiServerMCPClient({"tool": {"url": url, "transport": "streamable_http"}})
    (tool,) = await client.get_tools()
    result = await tool.ainvoke({"query": query, "top_k": 3})
    text = result if isinstance(result, str) else result[0]["text"]
    return [hit["doc_id"] for hit in json.loads(text)["results"]]


async def with_mcp(url: str, query: str) -> list[str]:
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with (
        streamablehttp_client(url) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        result = await session.call_tool("search", {"query": query, "top_k": 3})
    return [hit["doc_id"] for hit in json.loads(result.content[0].text)["results"]]


kinds = {"fastmcp": with_fastmcp, "langchain": with_langchain, "mcp-1.8": with_mcp}
print(json.dumps(asyncio.run(kinds[sys.argv[1]](*sys.argv[2:]))))

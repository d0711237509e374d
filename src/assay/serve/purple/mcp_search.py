"""Search through an MCP server: its tool over streamable HTTP, or else its REST route.

One HTTP client and one MCP session serve every request; the session is reopened when the
server was restarted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2
import orjson
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from assay.agents.mcp.agent import McpSession
from assay.agents.mcp.connection import open_http
from assay.errors import AgentFailure, SearchError, TargetError
from assay.net.json import parse_json

TOOL = "search_nfcorpus"
MAX_RESULTS = 100
"""How many documents a search server returns at most, unless its tool states another maximum."""

_RETRY_DELAYS_S = (0.5, 1.0, 2.0, 5.0)

Find = Callable[[str, int], Awaitable[list[str]]]


class McpSearch:
    """A search over the MCP server at `url`, which may be given with or without its `/mcp`."""

    def __init__(self, url: str) -> None:
        self._base = url.rstrip("/").removesuffix("/mcp")
        self._http = open_http()
        self._max_results = MAX_RESULTS
        self._session = McpSession(
            lambda: streamable_http_client(f"{self._base}/mcp", http_client=self._http)
        )

    async def open(self) -> Find:
        """Wait for the server, however long it takes: it may be started after us."""
        attempt = 0
        while True:
            if await self._speaks_mcp():
                return self.by_mcp
            if await self._speaks_rest():
                return self.by_rest
            await asyncio.sleep(_RETRY_DELAYS_S[min(attempt, len(_RETRY_DELAYS_S) - 1)])
            attempt += 1

    async def close(self) -> None:
        """Close the session and the HTTP client."""
        await self._session.close()
        await self._http.aclose()

    async def by_mcp(self, query: str, top_k: int) -> list[str]:
        """Search with the server's tool."""
        arguments = {"query": query, "top_k": min(top_k, self._max_results)}
        try:
            result = await self._call_with_reopen(arguments)
        except AgentFailure as failure:
            raise SearchError(f"the search server failed: {failure}") from failure
        if result.is_error:
            raise SearchError(f"the tool {TOOL!r} of the search server returned an error")
        return doc_ids(result.structured_content or _text_json(result))

    async def by_rest(self, query: str, top_k: int) -> list[str]:
        """Search with the server's REST route."""
        wanted = {"query": query, "top_k": min(top_k, self._max_results)}
        try:
            answer = await self._http.post(f"{self._base}/{TOOL}", json=wanted)
        except (httpx2.HTTPError, httpx2.StreamError):
            raise SearchError("the search server's response was cut off or is too large") from None
        if answer.status_code != 200:
            raise SearchError(f"the search server returned status {answer.status_code}")
        try:
            return doc_ids(parse_json(answer.content))
        except orjson.JSONDecodeError:
            raise SearchError("the search server's response is not JSON") from None

    async def _call_with_reopen(self, arguments: dict[str, Any]) -> CallToolResult:
        """A lost session is noticed only by the next call: repeat that one."""
        try:
            return await self._session.call(TOOL, arguments)
        except AgentFailure as failure:
            if not failure.retryable:
                raise
        return await self._session.call(TOOL, arguments)

    async def _speaks_mcp(self) -> bool:
        try:
            _, tools = await self._session.open()
        except TargetError:
            return False
        found = [tool for tool in tools if tool.name == TOOL]
        if found:
            self._max_results = _max_results(found[0].input_schema)
        return bool(found)

    async def _speaks_rest(self) -> bool:
        try:
            await self.by_rest("health", 1)
        except SearchError:
            return False
        return True


def _max_results(schema: Mapping[str, Any]) -> int:
    """The largest `top_k` that the tool accepts."""
    properties = schema.get("properties")
    wanted = properties.get("top_k") if isinstance(properties, dict) else None
    most = wanted.get("maximum") if isinstance(wanted, dict) else None
    return most if isinstance(most, int) and most > 0 else MAX_RESULTS


def doc_ids(answer: Any) -> list[str]:
    """The document ids of a search result, in its order."""
    results = answer.get("results") if isinstance(answer, dict) else None
    if not isinstance(results, list):
        raise SearchError("the search server's response has no list 'results'")
    ids = [hit.get("doc_id") for hit in results if isinstance(hit, dict)]
    return [doc_id for doc_id in ids if isinstance(doc_id, str) and doc_id]


def _text_json(result: CallToolResult) -> Any:
    text = "".join(getattr(part, "text", "") for part in result.content)
    try:
        return parse_json(text)
    except orjson.JSONDecodeError:
        return None

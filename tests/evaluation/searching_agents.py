"""Agents of every kind that search twice through the recorder: `word3`, then `word4`."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from tests.tiny_dataset import tiny_dataset

SIZE = 12
DATASET = tiny_dataset(SIZE, document="word{}", query="word{}")

Search = Callable[[str], Awaitable[list[str]]]


def queries_of(text: str) -> list[str]:
    number = int(text.removeprefix("word"))
    return [f"word{number}", f"word{number + 1}"]


async def search_twice(text: str, search: Search) -> list[str]:
    found = [await search(query) for query in queries_of(text)]
    return [doc_id for ids in found for doc_id in ids]


def over_rest(url: str, headers: dict[str, str] | None = None) -> Search:
    async def search(query: str) -> list[str]:
        async with httpx.AsyncClient() as http:
            answer = await http.post(url, json={"query": query, "top_k": 3}, headers=headers)
        return [each["doc_id"] for each in answer.raise_for_status().json()["results"]]

    return search


def over_mcp(url: str) -> Search:
    async def search(query: str) -> list[str]:
        async with Client(url) as client:
            result = await client.call_tool("search", {"query": query, "top_k": 3})
        assert result.structured_content is not None
        return [each["doc_id"] for each in result.structured_content["results"]]

    return search


class SearchingService:
    """One service that speaks REST, A2A and the contract, and searches where it is told.

    Parameters:
        mcp: search over MCP instead of REST.
        fixed: the address of a tool that does not change, in place of what it is told.
        traces: pass on the `traceparent` of the request.
        strict: refuse requests with fields that it does not know.
    """

    def __init__(
        self, *, mcp: bool = False, fixed: str = "", traces: bool = False, strict: bool = False
    ) -> None:
        self._mcp, self._fixed, self._traces, self._strict = mcp, fixed, traces, strict
        server: MCPServer[Any] = MCPServer("searcher")

        @server.tool(structured_output=False)
        async def find(query: str, ctx: Context[Any, Any], top_k: int = 5) -> str:
            request = ctx.request_context.request
            headers = request.headers if request is not None and self._traces else {}
            trace = {"traceparent": headers["traceparent"]} if headers else {}
            found = await search_twice(query, over_rest(self._fixed, trace))
            return json.dumps({"doc_ids": found})

        self.app: ASGIApp = server.streamable_http_app()
        self.app.router.routes += [
            Route("/search", self._rest, methods=["POST"]),
            Route("/.well-known/agent-card.json", self._card),
            Route("/", self._a2a, methods=["GET", "POST"]),
            Route("/agents/run/sync", self._contract, methods=["POST"]),
        ]

    async def _find(self, request: Request, text: str, told: dict[str, Any]) -> list[str]:
        headers = {}
        if self._traces and "traceparent" in request.headers:
            headers = {"traceparent": request.headers["traceparent"]}
        if self._mcp:
            return await search_twice(text, over_mcp(str(told["mcp_server_url"])))
        return await search_twice(text, over_rest(self._fixed or told["search_url"], headers))

    async def _rest(self, request: Request) -> Response:
        told = await request.json()
        return JSONResponse({"doc_ids": await self._find(request, told["q"], told)})

    async def _card(self, request: Request) -> Response:
        url = str(request.base_url)
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": url}
        return JSONResponse({"name": "searcher", "supportedInterfaces": [interface]})

    async def _a2a(self, request: Request) -> Response:
        call = json.loads(await request.body() or b"{}")
        told = json.loads(call["params"]["message"]["parts"][0]["text"])
        if self._strict and set(told) - {"query", "top_k"}:
            error = {"code": -32602, "message": "unknown fields"}
            return JSONResponse({"jsonrpc": "2.0", "id": call.get("id"), "error": error})
        found = await self._find(request, told["query"], told)
        artifact = {"parts": [{"data": {"doc_ids": found}}]}
        task = {"id": "t", "status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [artifact]}
        return JSONResponse({"jsonrpc": "2.0", "id": call.get("id"), "result": {"task": task}})

    async def _contract(self, request: Request) -> Response:
        call = await request.json()
        told = call["inputs"]
        found = await self._find(request, told["query"], told)
        chunks = [{"chunk_id": f"{each}__chunk_0", "doc_id": each} for each in found]
        outputs = {"chunks": chunks}
        return JSONResponse({"status": "ok", "request_id": call["request_id"], "outputs": outputs})

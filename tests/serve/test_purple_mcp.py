"""The purple agent that searches through somebody else's MCP server."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx
import pytest
import uvicorn
from mcp.server.mcpserver import MCPServer
from pydantic import Field
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send
from tests.serve.serving import send, serving, words

from assay.errors import SearchError
from assay.progress import silent
from assay.serve.purple import McpSearch, doc_ids, mcp_search, purple_app

HITS = [{"doc_id": f"MED-{i}", "score": 1.0, "title": "", "text": ""} for i in (3, 1, 3, 2)]


def mcp_server() -> Starlette:
    server = MCPServer("search")

    @server.tool()
    def search_nfcorpus(query: str, top_k: int = 5) -> dict[str, Any]:
        if query == "broken":
            raise ValueError("on purpose")
        return {"results": HITS}

    return server.streamable_http_app()


@asynccontextmanager
async def purple(search_url: str) -> AsyncIterator[str]:
    load, stop = mcp_search(search_url)
    async with serving(purple_app(load, on_stop=stop)) as url:
        yield url


def found(task: Any) -> list[str]:
    ids: list[str] = task["artifacts"][0]["parts"][0]["data"]["doc_ids"]
    return ids


@pytest.mark.parametrize("suffix", ["", "/", "/mcp"])
async def test_the_tool_of_an_mcp_server_is_asked(http: httpx.AsyncClient, suffix: str) -> None:
    async with serving(mcp_server()) as there, purple(there + suffix) as url:
        answers = await asyncio.gather(*(send(http, url, {"query": "x"}) for _ in range(5)))
    assert [found(task) for task in answers] == [["MED-3", "MED-1", "MED-2"]] * 5


async def test_an_error_of_the_tool_fails_the_task_in_our_words(http: httpx.AsyncClient) -> None:
    async with serving(mcp_server()) as there, purple(there) as url:
        task = await send(http, url, {"query": "broken"})
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert words(task) == "the tool 'search_nfcorpus' of the search server returned an error"


async def test_the_server_may_be_started_after_the_agent(http: httpx.AsyncClient) -> None:
    ready = asyncio.Event()
    inner = mcp_server()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        away = scope["type"] == "http" and not ready.is_set()
        await (JSONResponse({}, 503) if away else inner)(scope, receive, send)

    async with serving(app) as there, purple(there) as url:
        assert (await http.get(f"{url}/health/ready")).json()["index"] == "loading"
        asking = asyncio.create_task(send(http, url, {"query": "x"}))
        ready.set()
        assert found(await asking) == ["MED-3", "MED-1", "MED-2"]


async def test_a_server_that_was_started_anew_is_found_again() -> None:
    async def run(port: int) -> tuple[uvicorn.Server, "asyncio.Task[None]", int]:
        listener = socket.create_server(("127.0.0.1", port))
        server = uvicorn.Server(uvicorn.Config(mcp_server(), log_config=None))
        task = asyncio.create_task(server.serve(sockets=[listener]))
        return server, task, listener.getsockname()[1]

    server, task, port = await run(0)
    search = McpSearch(f"http://127.0.0.1:{port}")
    try:
        find = await search.open(silent)
        assert await find("x", 5) == ["MED-3", "MED-1", "MED-3", "MED-2"]
        server.should_exit = True
        await task
        with pytest.raises(SearchError):
            await find("x", 5)
        server, task, _ = await run(port)
        assert await find("x", 5) == ["MED-3", "MED-1", "MED-3", "MED-2"]
    finally:
        await search.close()
        server.should_exit = True
        await task


async def test_a_server_is_asked_for_no_more_than_it_gives(http: httpx.AsyncClient) -> None:
    server, asked = MCPServer("search"), []

    @server.tool()
    def search_nfcorpus(
        query: str, top_k: Annotated[int, Field(ge=1, le=20)] = 5
    ) -> dict[str, Any]:
        asked.append(top_k)
        return {"results": HITS}

    async with serving(server.streamable_http_app()) as there, purple(there) as url:
        for top_k in (3, 20, 1000):
            task = await send(http, url, {"query": "x", "top_k": top_k})
            assert found(task) == ["MED-3", "MED-1", "MED-2"]
    assert asked == [3, 20, 20]


@pytest.mark.parametrize("answer", [None, [], {}, {"results": "MED-1"}])
def test_an_answer_of_another_shape_is_an_error(answer: Any) -> None:
    with pytest.raises(SearchError, match="results"):
        doc_ids(answer)

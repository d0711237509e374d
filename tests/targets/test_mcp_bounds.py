"""MCP servers that send too much, too long, or compressed: bounded, and the session goes on."""

import asyncio
import functools
import gzip
from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from tests.serve.serving import serving
from tests.targets.mcp_servers import app_of, opened, other_server

from assay.errors import AgentFailure, FailureKind
from assay.targets.mcp.connection import ExchangeRecord, current_exchange, open_http


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_without_end_is_not_read_to_its_end(kind: str) -> None:
    app, hung_up, armed = app_of(other_server()), asyncio.Event(), False

    async def until_hung_up(receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        hung_up.set()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        if not armed or scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        listening = asyncio.create_task(until_hung_up(receive))
        while not hung_up.is_set():
            chunk = b": keep waiting\n\n" * 10_000
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)
        await listening

    async with serving(endless) as url, opened(f"mcp:{url}") as agent:
        armed = True
        with pytest.raises(AgentFailure, match="larger than 1,000,000 bytes"):
            await agent.ask("x", 1)
        armed = False
        assert (await agent.ask("x", 1)).doc_ids == ("MED-3",)
        await hung_up.wait()


@functools.cache
def bomb(layers: int) -> bytes:
    """A few kilobytes that are 30 MB when they are decompressed."""
    return gzip.compress(bomb(layers - 1)) if layers else b" " * 30_000_000


@pytest.mark.parametrize(
    ("encoding", "body", "kind", "words"),
    [
        ("gzip", 1, FailureKind.INVALID_ANSWER, "larger than 1,000,000 bytes"),
        ("gzip, gzip", 2, FailureKind.PROTOCOL, "compressed with 'gzip, gzip'"),
        ("br", b"anything", FailureKind.PROTOCOL, "compressed with 'br'"),
        ("gzip", b"not gzip", FailureKind.PROTOCOL, "does not match its Content-Encoding"),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
async def test_a_compressed_answer_is_bounded(
    encoding: str, body: bytes | int, kind: FailureKind, words: str, content_type: str
) -> None:
    content = bomb(body) if isinstance(body, int) else body
    app, armed = app_of(other_server()), False
    headers = {"content-encoding": encoding}

    async def bombing(scope: Scope, receive: Receive, send: Send) -> None:
        if armed and scope["type"] == "http":
            await Response(content, media_type=content_type, headers=headers)(scope, receive, send)
        else:
            await app(scope, receive, send)

    async with serving(bombing) as url, opened(f"mcp:{url}") as agent:
        armed = True
        with pytest.raises(AgentFailure, match=words) as caught:
            await agent.ask("x", 1)
        assert (caught.value.kind, caught.value.retryable) == (kind, False)
        armed = False
        assert (await agent.ask("x", 1)).doc_ids == ("MED-3",)


async def test_a_small_compressed_answer_is_read() -> None:
    """Nobody asked for it, but some gateways compress whatever passes."""
    app = GZipMiddleware(app_of(other_server(), json_response=True), minimum_size=1)

    async def forced(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            kept = [each for each in scope["headers"] if each[0] != b"accept-encoding"]
            scope = {**scope, "headers": [*kept, (b"accept-encoding", b"gzip")]}
        await app(scope, receive, send)

    async with serving(forced) as url, opened(f"mcp:{url}") as agent:
        assert (await agent.ask("x", 1)).doc_ids == ("MED-3",)


async def test_an_event_stream_beside_the_answers_may_not_be_compressed() -> None:
    """It has no bound of its own: only its events have one."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-encoding": "gzip"}, content=b"")

    exchange = ExchangeRecord()
    current_exchange.set(exchange)
    async with open_http(httpx2.MockTransport(handle)) as http:
        assert (await http.get("http://server/mcp")).status_code == 503
    assert exchange.failure is not None
    assert exchange.failure.kind is FailureKind.PROTOCOL


async def test_an_answer_that_breaks_off_is_not_called_refused() -> None:
    """The SDK passes these words on, and the report quotes them as what the server said."""

    class BreaksOff(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"{"
            raise httpx2.RemoteProtocolError("the peer closed the connection")

    exchange = ExchangeRecord()
    current_exchange.set(exchange)
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, stream=BreaksOff()))
    async with open_http(transport) as http:
        with pytest.raises(httpx2.StreamError, match="the response ended early"):
            await http.post("http://server/mcp")
    assert exchange.failure is not None
    assert exchange.failure.kind is FailureKind.PROTOCOL

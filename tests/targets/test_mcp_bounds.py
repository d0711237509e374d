"""Compressed and broken responses of MCP servers; what is too large is in `tests/hostile`."""

from collections.abc import AsyncIterator

import httpx2
import pytest
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import Receive, Scope, Send
from tests.serve.serving import serving
from tests.targets.mcp_servers import app_of, opened, other_server

from assay.errors import FailureKind
from assay.targets.mcp.connection import ExchangeRecord, current_exchange, open_http


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

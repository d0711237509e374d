"""Connections without complete headers are closed; those with a request are left alone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from tests.serve.serving import serving

from assay.serve import listening


async def _size(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


APP = Starlette(routes=[Route("/", _size, methods=["GET", "POST"])])


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()


@pytest.mark.parametrize("begun", [b"", b"\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_headers_that_do_not_come_are_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(listening, "HEADER_TIMEOUT_S", 0.1)
    async with serving(APP) as url, connected(url) as (reader, writer):
        writer.write(begun)
        async with asyncio.timeout(20):
            assert await reader.read() == b""


async def test_the_next_request_of_a_connection_is_not_waited_for_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "HEADER_TIMEOUT_S", 0.1)
    async with serving(APP) as url, connected(url) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()) == b"HTTP/1.1 200 OK\r\n"
        await reader.readuntil(b"\r\n\r\n0")
        writer.write(b"GET /")
        async with asyncio.timeout(20):
            assert await reader.read() == b""


async def test_headers_without_an_end_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "HEADER_TIMEOUT_S", 600.0)
    async with serving(APP) as url, connected(url) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n")
        async with asyncio.timeout(20):
            with suppress(ConnectionError):
                while not reader.at_eof():
                    writer.write(b"X-More: " + b"x" * 8000 + b"\r\n")
                    await writer.drain()
                    await asyncio.sleep(0)


async def test_a_large_body_and_a_long_answer_are_no_headers(
    monkeypatch: pytest.MonkeyPatch, http: httpx.AsyncClient
) -> None:
    monkeypatch.setattr(listening, "HEADER_TIMEOUT_S", 0.05)

    async def slow_body() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield b"x" * 100_000
            await asyncio.sleep(0.05)

    async with serving(APP) as url:
        for _ in range(2):
            assert (await http.post(url, content=slow_body())).text == "300000"


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers without reading the body."""
    if scope["type"] == "lifespan":
        await APP(scope, receive, send)
    else:
        await PlainTextResponse("no", 403)(scope, receive, send)


async def test_a_client_may_send_the_rest_of_a_refused_body(http: httpx.AsyncClient) -> None:
    """Cut off in the middle of it, it would lose the response, and the connection after it."""
    async with serving(_refuse) as url:
        for _ in range(3):
            answer = await http.post(url, content=b"x" * 3_000_000)
            assert (answer.status_code, answer.text) == (403, "no")


async def test_the_rest_of_a_refused_body_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "HEADER_TIMEOUT_S", 0.2)
    async with serving(_refuse) as url, connected(url) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx")
        assert (await reader.readline()) == b"HTTP/1.1 403 Forbidden\r\n"
        writer.write(b"x")
        async with asyncio.timeout(20):
            assert (await reader.read()).endswith(b"no")

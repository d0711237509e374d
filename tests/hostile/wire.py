"""Misbehaviors on the wire: connections, HTTP framing, encodings, sizes, redirects, event streams.

Each act writes one response to a caller. Endless ones end when the caller leaves, or at a
bound far beyond what any client should read.
"""

import asyncio
import gzip
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cache

from tests.hostile.protocols import RightAnswer

MAX_BYTES = 1_000_000_000
"""What an endless response has at most."""
MAX_SECONDS = 600.0

_PIECE = 64_000
_JSON = "application/json"
_STREAM = "text/event-stream"

Act = Callable[["HostileCall"], Awaitable[None]]


@dataclass(frozen=True)
class HostileCall:
    """One call to answer badly: `json` is what to send in place of the `right` answer."""

    out: asyncio.StreamWriter
    right: RightAnswer
    json: bytes
    url: str

    @property
    def body(self) -> bytes:
        return self.right.frame(self.json) if self.right.streamed else self.json

    @property
    def kind(self) -> str:
        return _STREAM if self.right.streamed else _JSON

    def head(self, *headers: str, status: str = "200 OK", kind: str = "") -> bytes:
        lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind or self.kind}", *headers]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode()

    async def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.out.write(piece)
            await self.out.drain()
        if self.out.is_closing():
            raise ConnectionResetError

    async def send_body(self, body: bytes, *headers: str) -> None:
        await self.send(self.head(f"Content-Length: {len(body)}", *headers), body)

    async def repeat(self, piece: bytes, pause: float = 0.0) -> None:
        async with asyncio.timeout(MAX_SECONDS):
            for _ in range(MAX_BYTES // len(piece)):
                await self.send(piece)
                await asyncio.sleep(pause)


async def send_right(call: HostileCall) -> None:
    await call.send_body(call.body)


def rewritten(change: Callable[[bytes], bytes]) -> Act:
    return lambda call: send_right(replace(call, json=change(call.json)))


def instead(json: bytes) -> Act:
    return rewritten(lambda _right: json)


async def no_answer(call: HostileCall) -> None:
    call.out.close()


async def reset_in_body(call: HostileCall) -> None:
    await call.send(call.head("Content-Length: 5000"), call.body[:20])
    await asyncio.sleep(0.2)  # the caller reads what was sent; a reset may overtake it
    connection: socket.socket = call.out.get_extra_info("socket")
    # With a linger of zero the system sends RST instead of FIN.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    call.out.transport.abort()


async def silence(_call: HostileCall) -> None:
    await asyncio.sleep(MAX_SECONDS)


async def slow_body(call: HostileCall) -> None:
    await call.send(call.head(f"Content-Length: {len(call.body)}"))
    for place in range(len(call.body)):
        await call.send(call.body[place : place + 1])
        await asyncio.sleep(1.0)


async def endless_headers(call: HostileCall) -> None:
    await call.send(b"HTTP/1.1 200 OK\r\n")
    await call.repeat(b"X-Padding: " + b"x" * 1000 + b"\r\n")


def raw(response: bytes) -> Act:
    return lambda call: call.send(response)


async def bad_chunk(call: HostileCall) -> None:
    await call.send(call.head("Transfer-Encoding: chunked"), b"zz\r\n{}")


def wrong_length(more: int) -> Act:
    return lambda call: call.send(call.head(f"Content-Length: {len(call.body) + more}"), call.body)


@cache
def bomb() -> bytes:
    return gzip.compress(b" " * 200_000_000)


def encoded(name: str, encode: Callable[[bytes], bytes]) -> Act:
    return lambda call: call.send_body(encode(call.body), f"Content-Encoding: {name}")


async def endless_body(call: HostileCall) -> None:
    await call.send(call.head(), call.body[:20])
    await call.repeat(b"x" * _PIECE)


def status(line: str, *more: str, body: bytes = b"Traceback: secret query text") -> Act:

    async def act(call: HostileCall) -> None:
        length = f"Content-Length: {len(body)}"
        await call.send(call.head(length, *more, status=line, kind="text/plain"), body)

    return act


def redirect(location: str, line: str = "307 Temporary Redirect") -> Act:
    return lambda call: status(line, f"Location: {location.format(url=call.url)}")(call)


async def html(call: HostileCall) -> None:
    page = b"<!doctype html><title>Log in</title><form></form>"
    length = f"Content-Length: {len(page)}"
    await call.send(call.head(length, kind="text/html"), page)


def events(stream: bytes) -> Act:
    return lambda call: call.send(call.head(kind=_STREAM), stream)


def endless_events(piece: bytes, pause: float = 0.0) -> Act:

    async def act(call: HostileCall) -> None:
        await call.send(call.head(kind=_STREAM))
        await call.repeat(piece, pause)

    return act


async def giant_event(call: HostileCall) -> None:
    await call.send(call.head(kind=_STREAM), b"data: ")
    await call.repeat(b"x" * _PIECE)


async def cut_event(call: HostileCall) -> None:
    cut = call.right.frame(call.json).removesuffix(call.right.closing)[:-12]
    await call.send(call.head(kind=_STREAM), cut)


async def stays_open(call: HostileCall) -> None:
    await call.send(call.head(kind=_STREAM), call.right.frame(call.json))
    await asyncio.sleep(MAX_SECONDS)

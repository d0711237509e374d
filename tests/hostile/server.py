"""Serves the catalogue on a bare socket: a web server would not let it break the rules.

http://HOST:PORT/NAME         the agent opens well, and misbehaves when it is asked
http://HOST:PORT/from-start/NAME   every request gets the misbehavior, cards and health included
"""

import asyncio
import json
import socket
from contextlib import suppress

from tests.hostile.catalogue import MISBEHAVIORS
from tests.hostile.protocols import HttpRequest, RightAnswer, answer_to
from tests.hostile.wire import HostileCall

from assay.net.json import parse_object
from assay.serve.listening import bind, url_of

FROM_START = "from-start"

_MOST_BODY = 1_000_000
_REQUEST_SECONDS = 30.0
_SECONDS_AFTER_LEAVING = 1.0
"""Until a misbehavior ends whose client closed its side: some last for minutes."""
_NO_REQUEST = (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


class HostileServer:
    def __init__(self, url: str) -> None:
        self.url = url

    async def serve(self, listener: socket.socket) -> None:
        server = await asyncio.start_server(self._connection, sock=listener, limit=_MOST_BODY)
        async with server:
            await server.serve_forever()

    async def _connection(self, reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        with suppress(*_NO_REQUEST, asyncio.CancelledError):
            async with asyncio.timeout(_REQUEST_SECONDS):
                request = await _read(reader)
            watching = asyncio.create_task(_cancel_when_left(reader, asyncio.current_task()))
            try:
                await self._respond(request, out)
            finally:
                watching.cancel()
        out.close()
        with suppress(OSError):
            await out.wait_closed()

    async def _respond(self, request: HttpRequest, out: asyncio.StreamWriter) -> None:
        name, from_start, request, prefix = _choose(request)
        chosen = MISBEHAVIORS.get(name)
        if chosen is None:
            await _send(out, 404, None)
            return
        url = self.url + prefix
        right = answer_to(request, url)
        if from_start and not isinstance(right, RightAnswer):
            document = right if isinstance(right, dict) else {}
            right = RightAnswer(lambda _content: document)
        if isinstance(right, RightAnswer):
            await chosen.act(HostileCall(out, right, right.encode(chosen.content), url))
        elif isinstance(right, int):
            await _send(out, right, None)
        else:
            await _send(out, 200, right)


def _choose(request: HttpRequest) -> tuple[str, bool, HttpRequest, str]:
    parts = request.path.split("?")[0].strip("/").split("/")
    from_start = parts[0] == FROM_START
    prefix, parts = (f"/{FROM_START}", parts[1:]) if from_start else ("", parts)
    name, *below = parts or [""]
    path = "".join(f"/{part}" for part in below if part)
    rest = HttpRequest(request.method, path, request.body)
    return name, from_start, rest, f"{prefix}/{name}"


async def _cancel_when_left(
    reader: asyncio.StreamReader, response: "asyncio.Task[None] | None"
) -> None:
    with suppress(OSError):
        while await reader.read(_MOST_BODY):
            pass
    await asyncio.sleep(_SECONDS_AFTER_LEAVING)
    if response is not None:
        response.cancel()


async def _read(reader: asyncio.StreamReader) -> HttpRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, *_ = [*first.split(), "", ""]
    pairs = (line.partition(":") for line in lines if ":" in line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    declared = headers.get("content-length", "0")
    length = int(declared) if declared.isdecimal() else 0
    body = await reader.readexactly(min(length, _MOST_BODY))
    return HttpRequest(method, path, parse_object(body) or {})


async def _send(out: asyncio.StreamWriter, status: int, document: object) -> None:
    body = b"" if document is None else json.dumps(document).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    out.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    await out.drain()


def main() -> None:
    with bind("127.0.0.1", 0) as listener, suppress(KeyboardInterrupt):
        url = url_of(listener)
        print(url, flush=True)
        asyncio.run(HostileServer(url).serve(listener))

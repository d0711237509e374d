"""A good agent whose answers are changed on their way out: one seeded fault at a time."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.net.sse import EventReader, format_event

CUT = "cut"
OPEN = "open"


@dataclass(frozen=True)
class Reply:
    """`pieces` are sent one by one: a number is a pause, CUT breaks the connection, OPEN keeps it
    open until the client leaves."""

    path: str
    sent: Any
    status: int
    content_type: str
    pieces: tuple[bytes | float | str, ...]
    headers: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def way(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def body(self) -> bytes:
        return b"".join(piece for piece in self.pieces if isinstance(piece, bytes))

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    def with_json(self, value: Any, status: int | None = None) -> "Reply":
        body = (orjson.dumps(value),)
        return replace(
            self, pieces=body, status=status or self.status, content_type="application/json"
        )

    def with_body(self, *pieces: bytes | float | str) -> "Reply":
        return replace(self, pieces=pieces)

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [(e.name, orjson.loads(e.data)) for e in EventReader().feed(self.body)]

    @property
    def terminal(self) -> dict[str, Any]:
        body: dict[str, Any] = self.events[-1][1] if self.way == "stream" else self.json
        return body

    def with_events(self, events: list[tuple[str, dict[str, Any]]]) -> "Reply":
        return self.with_body(*(format_event(name, data).encode() for name, data in events))


Tamper = Callable[[Reply], Reply]


class Tampered:
    """The inner agent answers in full; `tamper` makes of it what goes over the wire."""

    def __init__(self, app: ASGIApp, tamper: Tamper) -> None:
        self._app = app
        self._tamper = tamper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        reply = self._tamper(await _ask(self._app, scope, body))
        await send(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": [(b"content-type", reply.content_type.encode()), *reply.headers],
            }
        )
        for piece in reply.pieces:
            if isinstance(piece, float):
                await asyncio.sleep(piece)
            elif piece == OPEN:
                await wait_for_disconnect(receive)
            elif piece == CUT:
                raise ConnectionAbortedError("on purpose")
            else:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def read_body(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _ask(app: ASGIApp, scope: Scope, body: bytes) -> Reply:
    sent: list[Message] = []
    asked = False

    async def receive() -> Message:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}
        return await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = dict(sent[0]["headers"])
    return Reply(
        path=scope["path"],
        sent=_json_or_none(body),
        status=sent[0]["status"],
        content_type=headers.get(b"content-type", b"").decode(),
        pieces=tuple(message["body"] for message in sent[1:] if message.get("body")),
    )


def _json_or_none(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


async def wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

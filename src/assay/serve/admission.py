"""Turns new work away while there is too much of it: 503 and when to come back.

Only what starts work is turned away. Asking after a task, or ending one, always gets through.
"""

from collections.abc import Callable

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.serve.guards import refuse

_STARTING = frozenset({"message/send", "message/stream", "SendMessage", "SendStreamingMessage"})
_STARTING_PATHS = ("/message:send", "/message:stream")


class Admission:
    def __init__(self, app: ASGIApp, is_full: Callable[[], bool], retry_after: int) -> None:
        self._app = app
        self._is_full = is_full
        self._retry_after = retry_after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not self._is_full():
            await self._app(scope, receive, send)
            return
        body = await _read(receive)
        if _starts_work(scope["path"], body):
            await refuse(
                send, 503, "too much work at the moment", {"retry-after": str(self._retry_after)}
            )
        else:
            await self._app(scope, _replay(body, receive), send)


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _starts_work(path: str, body: bytes) -> bool:
    if path.endswith(_STARTING_PATHS):
        return True
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(request, dict) and request.get("method") in _STARTING

"""Turns new work away while there is too much of it: 503 and when to come back.

Only what starts work is turned away. Asking after a task, or ending one, always gets through.
"""

from collections.abc import Callable

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from assay.serve.guards import refuse
from assay.serve.whole_body import read_whole, replay

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
        body = await read_whole(receive)
        if _starts_work(scope["path"], body):
            await refuse(
                send, 503, "too much work at the moment", {"retry-after": str(self._retry_after)}
            )
        else:
            await self._app(scope, replay(body, receive), send)


def _starts_work(path: str, body: bytes) -> bool:
    if path.endswith(_STARTING_PATHS):
        return True
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(request, dict) and request.get("method") in _STARTING

"""Checks A2A requests before the SDK sees them: well-formed JSON, and room for new work.

The SDK accepts more than JSON allows (NaN, half a surrogate pair) and fails on it later with an
internal error.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.net.json import JsonObject
from assay.serve.guards import refuse, send_json

NOT_JSON = "the body is not valid JSON (UTF-8, finite numbers)"
_MIXED_VERSIONS = "A2A-Version: this method belongs to 0.3; omit the header or send 0.3"
_PARSE_ERROR, _INVALID_REQUEST = -32700, -32600
OVERLOADED = "too many requests in progress; try again later"
_STARTING_METHODS = frozenset(
    {"message/send", "message/stream", "SendMessage", "SendStreamingMessage"}
)
_STARTING_PATHS = ("/message:send", "/message:stream")


class Slot:
    """Room for one piece of work. Calls `give_back` once, however often it is released."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back
        self.is_claimed = False

    def release(self) -> None:
        """Give the slot back."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


Admit = Callable[[], Slot | None]
"""Returns a slot for new work, or None if there is no room."""


class Capacity:
    """At most `limit` slots at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0

    def admit(self) -> Slot | None:
        """A slot, or None if all are taken."""
        if self.held >= self._limit:
            return None
        self.held += 1
        return Slot(self._give_back)

    def _give_back(self) -> None:
        self.held -= 1


# The SDK runs an executor in a copy of the context of the request that started it.
_slot: ContextVar[Slot | None] = ContextVar("slot", default=None)


def claim_slot() -> Slot | None:
    """The slot that the current request was given. The caller that claims it has to release it."""
    slot = _slot.get()
    if slot is None or slot.is_claimed:
        return None
    slot.is_claimed = True
    return slot


class RequestGate:
    """Refuses what is not a valid request to JSON-RPC at `/` or to REST below `rest_prefix`, and
    with 503 and Retry-After what would start work if `admit` has no slot for it. Asking for a
    task or canceling one always gets through."""

    def __init__(self, app: ASGIApp, rest_prefix: str, admit: Admit, retry_after: int) -> None:
        self._app = app
        self._rest_prefix = f"{rest_prefix}/"
        self._admit = admit
        self._retry_after = retry_after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        is_rest = scope["path"].startswith(self._rest_prefix)
        if not is_rest and scope["path"] != "/":
            await self._app(scope, receive, send)
            return
        body = await _receive_body(receive)
        receive = _replay(body, receive)
        version = dict(scope["headers"]).get(b"a2a-version", b"")
        request = None
        try:
            if body or not is_rest:  # canceling a task over REST needs no body
                request = orjson.loads(body)
            refusal = None if is_rest else _rpc_refusal(request, version)
        except orjson.JSONDecodeError:
            refusal = _rest_error(NOT_JSON) if is_rest else _rpc_error(_PARSE_ERROR, NOT_JSON)
        if refusal is not None:
            await send_json(send, 400 if is_rest else 200, refusal)
        elif _starts_work(scope["path"], request):
            await self._start_work(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _start_work(self, scope: Scope, receive: Receive, send: Send) -> None:
        slot = self._admit()
        if slot is None:
            await refuse(send, 503, OVERLOADED, {"retry-after": str(self._retry_after)})
            return
        token = _slot.set(slot)
        try:
            await self._app(scope, receive, send)
        finally:
            _slot.reset(token)
            if not slot.is_claimed:
                slot.release()


def _starts_work(path: str, request: object) -> bool:
    if path != "/":
        return path.endswith(_STARTING_PATHS)
    method = request.get("method") if isinstance(request, Mapping) else None
    return isinstance(method, str) and method in _STARTING_METHODS


def _rpc_refusal(request: object, version: bytes) -> JsonObject | None:
    """For a method of 0.3 under a newer version, which the SDK calls an internal error."""
    if not isinstance(request, Mapping) or not version or version.startswith(b"0."):
        return None
    method = request.get("method")
    if not isinstance(method, str) or "/" not in method:  # no method of 1.0 has a slash
        return None
    return _rpc_error(_INVALID_REQUEST, _MIXED_VERSIONS, request.get("id"))


def _rest_error(message: str) -> JsonObject:
    return {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": message}}


def _rpc_error(code: int, message: str, request_id: Any = None) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}}


async def _receive_body(receive: Receive) -> bytes:
    """The whole body of a request; the guards in front have bounded it."""
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives `body` at once, and then whatever the caller sends afterwards."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again

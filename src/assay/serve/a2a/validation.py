"""Checks A2A requests before the SDK sees them: well-formed JSON, valid ids, and room for new work.

The SDK accepts more than JSON allows (NaN, half a surrogate pair) and fails on it later with an
internal error, and it keeps ids of any length.
"""

from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.net.json import JsonObject, parse_object
from assay.serve.guards import refuse, send_json

MAX_ID_LENGTH = 128
MAX_DEPTH = 64
"""How deeply objects and lists may be nested; protobuf gives up at 100."""

NOT_JSON = "the body is not valid JSON (UTF-8, finite numbers)"
_MIXED_VERSIONS = "A2A-Version: this method belongs to 0.3; omit the header or send 0.3"
_IDS = frozenset({"id", "messageId", "contextId", "taskId", "message_id", "context_id", "task_id"})
_PARSE_ERROR, _INVALID_REQUEST, _INVALID_PARAMS = -32700, -32600, -32602


@dataclass(frozen=True, slots=True)
class RequestProblem:
    """Why a request is refused: a JSON-RPC error code, a message, and the request's own id."""

    code: int
    message: str
    request_id: str | int | None = None


class RequestValidation:
    """Validates what is posted to JSON-RPC at `/` and to the REST binding below `rest_prefix`."""

    def __init__(self, app: ASGIApp, rest_prefix: str) -> None:
        self._app = app
        self._rest_prefix = f"{rest_prefix}/"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        is_rest = scope["path"].startswith(self._rest_prefix)
        if not is_rest and scope["path"] != "/":
            await self._app(scope, receive, send)
            return
        body = await receive_body(receive)
        version = dict(scope["headers"]).get(b"a2a-version", b"")
        problem = _rest_problem(body) if is_rest else _rpc_problem(body, version)
        if problem is None:
            await self._app(scope, replay(body, receive), send)
        elif is_rest:
            await send_json(send, 400, _rest_answer(problem))
        else:
            await send_json(send, 200, _rpc_answer(problem))


def _rpc_problem(body: bytes, version: bytes) -> RequestProblem | None:
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return RequestProblem(_PARSE_ERROR, NOT_JSON)
    if not isinstance(request, Mapping):
        return None  # the SDK refuses batches and everything else itself
    request_id = request.get("id")
    if not _is_rpc_id(request_id):
        message = f"id: must be a string of at most {MAX_ID_LENGTH} characters, an integer or null"
        return RequestProblem(_INVALID_REQUEST, message)
    if _is_old_method(request.get("method")) and version and not version.startswith(b"0."):
        return RequestProblem(_INVALID_REQUEST, _MIXED_VERSIONS, request_id)
    message = _nesting_problem(body, request) or _id_problem(request.get("params"))
    return RequestProblem(_INVALID_PARAMS, message, request_id) if message else None


def _is_old_method(method: object) -> bool:
    """`message/send` and the like; no method of 1.0 has a slash."""
    return isinstance(method, str) and "/" in method


def _rest_problem(body: bytes) -> RequestProblem | None:
    if not body:
        return None  # canceling a task needs none
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return RequestProblem(_PARSE_ERROR, NOT_JSON)
    message = _nesting_problem(body, request) or _id_problem(request)
    return RequestProblem(_INVALID_PARAMS, message) if message else None


def _is_rpc_id(value: object) -> bool:
    """What JSON-RPC allows, within a length limit. Integers beyond 64 bits were read as floats."""
    if isinstance(value, str):
        return len(value) <= MAX_ID_LENGTH
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _nesting_problem(body: bytes, request: object) -> str:
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return ""  # nearly always, and saves the walk
    return f"nested more than {MAX_DEPTH} deep" if _is_deeper(request, MAX_DEPTH) else ""


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    if levels == 0:
        return True
    return any(_is_deeper(each, levels - 1) for each in _children(value))


def _children(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value)


def _id_problem(params: object) -> str:
    """Ids are in the parameters themselves and in the message among them."""
    if not isinstance(params, Mapping):
        return ""
    for holder, prefix in ((params, ""), *_objects_in(params)):
        for name in _IDS & holder.keys():
            if isinstance(holder[name], str) and len(holder[name]) > MAX_ID_LENGTH:
                return f"{prefix}{name}: at most {MAX_ID_LENGTH} characters"
    return ""


def _objects_in(params: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    for name in ("message", "request"):
        if isinstance(params.get(name), Mapping):
            yield params[name], f"{name}."


def _rpc_answer(problem: RequestProblem) -> JsonObject:
    error = {"code": problem.code, "message": problem.message}
    return {"jsonrpc": "2.0", "id": problem.request_id, "error": error}


def _rest_answer(problem: RequestProblem) -> JsonObject:
    error = {"code": 400, "status": "INVALID_ARGUMENT", "message": problem.message}
    return {"error": error}


async def receive_body(receive: Receive) -> bytes:
    """The whole body of a request; the guards in front have bounded it."""
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


def replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives `body` at once, and then whatever the caller sends afterwards."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


OVERLOADED = "too many requests in progress; try again later"
_STARTING_METHODS = frozenset(
    {"message/send", "message/stream", "SendMessage", "SendStreamingMessage"}
)
_STARTING_PATHS = ("/message:send", "/message:stream")


class Place:
    """Room for one piece of work. Calls `give_back` once, however often it is released."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back
        self.is_claimed = False

    def release(self) -> None:
        """Give the place back."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


Admit = Callable[[], Place | None]
"""Returns a place for new work, or None where there is no room."""


class Capacity:
    """At most `limit` places at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0

    def admit(self) -> Place | None:
        """A place, or None if all are taken."""
        if self.held >= self._limit:
            return None
        self.held += 1
        return Place(self._give_back)

    def _give_back(self) -> None:
        self.held -= 1


# The SDK runs an executor in a copy of the context of the request that started it.
_place: ContextVar[Place | None] = ContextVar("place", default=None)


def claim_place() -> Place | None:
    """The place that the current request was given. The caller that claims it has to release it."""
    place = _place.get()
    if place is None or place.is_claimed:
        return None
    place.is_claimed = True
    return place


class AdmissionControl:
    """503 with Retry-After for requests that would start work where `admit` has no place for it.
    Asking for a task or canceling one always gets through."""

    def __init__(self, app: ASGIApp, admit: Admit, retry_after: int) -> None:
        self._app = app
        self._admit = admit
        self._retry_after = retry_after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await receive_body(receive)
        receive = replay(body, receive)
        if not _starts_work(scope["path"], body):
            await self._app(scope, receive, send)
            return
        place = self._admit()
        if place is None:
            await refuse(send, 503, OVERLOADED, {"retry-after": str(self._retry_after)})
            return
        token = _place.set(place)
        try:
            await self._app(scope, receive, send)
        finally:
            _place.reset(token)
            if not place.is_claimed:
                place.release()


def _starts_work(path: str, body: bytes) -> bool:
    if path.endswith(_STARTING_PATHS):
        return True
    request = parse_object(body) if path == "/" else None
    return request is not None and request.get("method") in _STARTING_METHODS

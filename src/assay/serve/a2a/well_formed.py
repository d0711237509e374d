"""Refuses what is no well-formed request before the SDK sees it.

The SDK takes more than JSON allows (NaN, half a surrogate pair) and fails over it later with an
internal error, and it keeps ids as long as they come.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from assay.serve.guards import send_json
from assay.serve.whole_body import read_whole, replay

LONGEST_ID = 128
NOT_JSON = "the body is not JSON, in UTF-8 and with finite numbers"
DEEPEST = 64
"""How far objects and lists may be nested; protobuf gives up at 100."""

_MIXED = "A2A-Version: the method is one of 0.3; leave the header out or send 0.3"
_IDS = frozenset({"id", "messageId", "contextId", "taskId", "message_id", "context_id", "task_id"})
_NOT_JSON, _BAD_REQUEST, _BAD_PARAMETERS = -32700, -32600, -32602


@dataclass(frozen=True, slots=True)
class Problem:
    code: int
    message: str
    request_id: str | int | None = None


class WellFormed:
    """Before JSON-RPC at `/` and the REST binding below `rest_prefix`."""

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
        body = await read_whole(receive)
        version = dict(scope["headers"]).get(b"a2a-version", b"")
        problem = _rest_problem(body) if is_rest else _rpc_problem(body, version)
        if problem is None:
            await self._app(scope, replay(body, receive), send)
        elif is_rest:
            await send_json(send, 400, _rest_answer(problem))
        else:
            await send_json(send, 200, _rpc_answer(problem))


def _rpc_problem(body: bytes, version: bytes) -> Problem | None:
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Problem(_NOT_JSON, NOT_JSON)
    if not isinstance(request, Mapping):
        return None  # the SDK has an answer for batches and for anything else
    request_id = request.get("id")
    if not _is_rpc_id(request_id):
        words = f"id: a string of at most {LONGEST_ID} characters, an integer or null"
        return Problem(_BAD_REQUEST, words)
    if _is_old_method(request.get("method")) and version and not version.startswith(b"0."):
        return Problem(_BAD_REQUEST, _MIXED, request_id)
    words = _flaw_in(body, request) or _long_id(request.get("params"))
    return Problem(_BAD_PARAMETERS, words, request_id) if words else None


def _is_old_method(method: object) -> bool:
    """`message/send` and the like; no method of 1.0 has a slash."""
    return isinstance(method, str) and "/" in method


def _rest_problem(body: bytes) -> Problem | None:
    if not body:
        return None  # ending a task needs none
    try:
        request = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Problem(_NOT_JSON, NOT_JSON)
    words = _flaw_in(body, request) or _long_id(request)
    return Problem(_BAD_PARAMETERS, words) if words else None


def _is_rpc_id(value: object) -> bool:
    """What JSON-RPC allows, of a length to keep. A number beyond 64 bits was read as a float."""
    if isinstance(value, str):
        return len(value) <= LONGEST_ID
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def _flaw_in(body: bytes, request: object) -> str:
    if body.count(b"{") + body.count(b"[") <= DEEPEST:
        return ""  # as good as always, and the walk is spared
    return f"nested more than {DEEPEST} deep" if _is_deeper(request, DEEPEST) else ""


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    if levels == 0:
        return True
    return any(_is_deeper(each, levels - 1) for each in _children(value))


def _children(value: dict[str, Any] | list[Any]) -> Iterator[Any]:
    return iter(value.values() if isinstance(value, dict) else value)


def _long_id(params: object) -> str:
    """Ids stand in the parameters themselves and in the message among them."""
    if not isinstance(params, Mapping):
        return ""
    for holder, prefix in ((params, ""), *_objects_in(params)):
        for name in _IDS & holder.keys():
            if isinstance(holder[name], str) and len(holder[name]) > LONGEST_ID:
                return f"{prefix}{name}: at most {LONGEST_ID} characters"
    return ""


def _objects_in(params: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    for name in ("message", "request"):
        if isinstance(params.get(name), Mapping):
            yield params[name], f"{name}."


def _rpc_answer(problem: Problem) -> dict[str, Any]:
    error = {"code": problem.code, "message": problem.message}
    return {"jsonrpc": "2.0", "id": problem.request_id, "error": error}


def _rest_answer(problem: Problem) -> dict[str, Any]:
    error = {"code": 400, "status": "INVALID_ARGUMENT", "message": problem.message}
    return {"error": error}

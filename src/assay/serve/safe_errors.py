"""Takes out of error answers what the SDKs of A2A and MCP quote from the request.

Their parse errors repeat the value that did not fit, and A2A's internal errors the text of the
exception: either may hold what nobody else may read. What is left is the code and a sentence.
"""

import json
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

ONE_MESSAGE = "a task takes one message; send a new one"
NOT_LISTED = "tasks are listed only to holders of a token"
_OURS = frozenset({ONE_MESSAGE, NOT_LISTED})

# The reasons by which the SDK's clients tell its errors apart, and the codes of JSON-RPC for them.
_CODES = {
    "TASK_NOT_FOUND": -32001,
    "TASK_NOT_CANCELABLE": -32002,
    "PUSH_NOTIFICATION_NOT_SUPPORTED": -32003,
    "UNSUPPORTED_OPERATION": -32004,
    "CONTENT_TYPE_NOT_SUPPORTED": -32005,
    "INVALID_AGENT_RESPONSE": -32006,
    "EXTENDED_AGENT_CARD_NOT_CONFIGURED": -32007,
    "EXTENSION_SUPPORT_REQUIRED": -32008,
    "VERSION_NOT_SUPPORTED": -32009,
    "INVALID_PARAMS": -32602,
    "INVALID_REQUEST": -32600,
    "METHOD_NOT_FOUND": -32601,
    "INTERNAL_ERROR": -32603,
}
_SENTENCES = {
    -32700: "the body is not JSON",
    -32600: "not a request that A2A describes",
    -32601: "there is no such method",
    -32602: "the parameters do not have the shape that A2A describes",
    -32603: "internal error",
    -32001: "there is no such task, or it has been forgotten",
    -32002: "the task has ended and cannot be canceled any more",
    -32003: "this agent sends no push notifications",
    -32004: "this agent does not offer that",
    -32005: "this agent does not take that kind of content",
    -32006: "internal error",
    -32007: "this agent has no extended card",
    -32008: "the agent asks for an extension that the request does not name",
    -32009: "this agent speaks A2A 1.0 and 0.3; send A2A-Version 1.0, or 0.3 with its methods",
    400: "the request does not have the shape that A2A describes",
    404: "there is no such thing here",
    500: "internal error",
}
_OTHERWISE = "the request could not be carried out"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_NOT_MCP = "the body is not a message that MCP describes"
_DETAILS = ("data", "details")
_MARK = b'"error"'

Error = dict[str, Any]


class SafeErrors:
    """JSON answers and events of a stream pass through; the ones that hold an error are mended,
    by `safe`."""

    def __init__(self, app: ASGIApp, safe: Callable[[Error], Error] | None = None) -> None:
        self._app = app
        self._safe = safe or safe_a2a_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        is_stream = False

        async def mend(message: Message) -> None:
            nonlocal start, is_stream
            if message["type"] == "http.response.start":
                kind = dict(message["headers"]).get(b"content-type", b"")
                is_stream = kind.startswith(b"text/event-stream")
                if kind.startswith(b"application/json"):
                    start = message  # its length is known with the body
                else:
                    await send(message)
                return
            if message["type"] == "http.response.body":
                body = message.get("body", b"")
                if start is not None:
                    mended = _mended(body, self._safe)
                    await send(start if mended is body else _with_length(start, mended))
                    start, body = None, mended
                elif is_stream and _MARK in body:
                    body = _mended_events(body, self._safe)
                message = {**message, "body": body}
            await send(message)

        await self._app(scope, receive, mend)


def _mended(body: bytes, safe: Callable[[Error], Error]) -> bytes:
    if _MARK not in body:
        return body
    document = _read(body)
    if not isinstance(document, dict) or not isinstance(document.get("error"), dict):
        return body  # or a part of a larger answer, which is no error of the SDK's
    mended = {**document, "error": safe(document["error"])}
    return json.dumps(mended, separators=(",", ":")).encode()


def _read(body: bytes) -> Any:
    """Python's own reader also takes numbers of any size, which a caller's id may be."""
    try:
        return json.loads(body)
    except ValueError:
        return None


def safe_a2a_error(error: Error) -> Error:
    """Words of ours for the code, and of the details what the SDK alone can have written."""
    details = [each for key in _DETAILS for each in _safe_details(error.get(key))]
    kept = {key: value for key, value in error.items() if key not in _DETAILS}
    kept["message"] = _sentence(error, details)
    name = next((key for key in _DETAILS if isinstance(error.get(key), list)), None)
    return kept | ({name: details} if name and details else {})


def _sentence(error: Error, details: list[Any]) -> str:
    if error.get("message") in _OURS:
        return str(error["message"])
    codes = [_CODES[each["reason"]] for each in details if "reason" in each]
    code = codes[0] if codes else error.get("code")
    return _SENTENCES.get(code, _OTHERWISE) if isinstance(code, int) else _OTHERWISE


def safe_mcp_error(error: Error) -> Error:
    """Messages of our own name fields alone; the SDK's begin with these words, then quote."""
    if str(error.get("message", "")).startswith(("Validation error:", "Parse error:")):
        return {"code": error.get("code", -32600), "message": _NOT_MCP}
    return error


def _safe_details(details: Any) -> list[Any]:
    """The reason, by which clients tell errors apart, and which required fields are missing."""
    known = []
    for each in details if isinstance(details, list) else ():
        if isinstance(each, dict) and "fieldViolations" in each:
            known.append(each)
        elif isinstance(each, dict) and each.get("reason") in _CODES:
            info = {"@type": _ERROR_INFO, "reason": each["reason"], "domain": "a2a-protocol.org"}
            known.append({**info, "metadata": {}})
    return known


def _mended_events(chunk: bytes, safe: Callable[[Error], Error]) -> bytes:
    prefix = b"data: "
    lines = chunk.splitlines(keepends=True)
    for place, line in enumerate(lines):
        if line.startswith(prefix):
            bare = line.rstrip(b"\r\n")
            lines[place] = prefix + _mended(bare[len(prefix) :], safe) + line[len(bare) :]
    return b"".join(lines)


def _with_length(start: Message, body: bytes) -> Message:
    kept = [(name, value) for name, value in start["headers"] if name != b"content-length"]
    return {**start, "headers": [*kept, (b"content-length", str(len(body)).encode())]}

"""Takes out of error answers what the SDKs of A2A and MCP quote from the request.

Their parse errors repeat the value that did not fit, and A2A's internal errors the text of the
exception: either may hold what nobody else may read. What is left is the code and a sentence.
"""

from collections.abc import Callable
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# JSON-RPC 2.0 and the A2A specification; HTTP codes for the REST binding.
_SENTENCES = {
    -32700: "the body is not JSON",
    -32600: "not a request that A2A describes",
    -32602: "the parameters do not have the shape that A2A describes",
    -32603: "internal error",
    400: "the request does not have the shape that A2A describes",
    500: "internal error",
}
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
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body  # a part of a larger answer, which is no error of the SDK's
    if not isinstance(document, dict) or not isinstance(document.get("error"), dict):
        return body
    return orjson.dumps({**document, "error": safe(document["error"])})


def safe_a2a_error(error: Error) -> Error:
    kept = {key: value for key, value in error.items() if key not in _DETAILS}
    sentence = _SENTENCES.get(error.get("code", 0))
    if sentence:
        kept["message"] = sentence
    return kept | {key: _fields(error[key]) for key in _DETAILS if _fields(error.get(key))}


def safe_mcp_error(error: Error) -> Error:
    """Messages of our own name fields alone; the SDK's begin with these words, then quote."""
    if str(error.get("message", "")).startswith(("Validation error:", "Parse error:")):
        return {"code": error.get("code", -32600), "message": _NOT_MCP}
    return error


def _fields(details: Any) -> list[Any]:
    """Which required fields are missing: names alone, which the SDK knows and the caller needs."""
    if not isinstance(details, list):
        return []
    return [each for each in details if isinstance(each, dict) and "fieldViolations" in each]


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

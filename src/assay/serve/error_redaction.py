"""Redacts error responses of the A2A and MCP SDKs, which quote the request.

Their parse errors repeat the invalid value, and A2A's internal errors the text of the exception:
either may hold confidential data. Only the code and a message of our own remain.
"""

import json
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.net.json import JsonObject

ONE_MESSAGE = "a task takes one message; send it without a task id to start a new task"
PUSH_URL = "pushNotificationConfig.url: not an http(s) URL such as https://host/path"
PUSH_REFUSED = (
    "pushNotificationConfig.url: a private or special address, which this server may not call; "
    "its operator can allow it with --allow-hosts or ASSAY_ALLOWED_HOSTS"
)
PUSH_LIMIT = "pushNotificationConfig: this task has as many webhooks as one may have"
PUSH_FIELDS = (
    "pushNotificationConfig: token, scheme and credentials have to be printable ASCII of at most "
    "4096 characters each"
)
_OURS = frozenset({ONE_MESSAGE, PUSH_URL, PUSH_REFUSED, PUSH_LIMIT, PUSH_FIELDS})

# The reason by which the SDK's clients distinguish an error, its JSON-RPC code, and our message.
_ERRORS = (
    ("TASK_NOT_FOUND", -32001, "task not found; finished tasks are kept only for a while"),
    ("TASK_NOT_CANCELABLE", -32002, "the task has already ended and cannot be canceled"),
    ("PUSH_NOTIFICATION_NOT_SUPPORTED", -32003, "this agent does not send push notifications"),
    ("UNSUPPORTED_OPERATION", -32004, "this agent does not support that operation"),
    ("CONTENT_TYPE_NOT_SUPPORTED", -32005, "this agent does not accept that content type"),
    ("INVALID_AGENT_RESPONSE", -32006, "internal error"),
    ("EXTENDED_AGENT_CARD_NOT_CONFIGURED", -32007, "this agent has no extended card"),
    (
        *("EXTENSION_SUPPORT_REQUIRED", -32008),
        "the agent requires an extension that the request does not name",
    ),
    (
        *("VERSION_NOT_SUPPORTED", -32009),
        "this agent speaks A2A 1.0 and 0.3; send A2A-Version 1.0, or 0.3 with its methods",
    ),
    ("INVALID_PARAMS", -32602, "invalid parameters for this A2A method"),
    ("INVALID_REQUEST", -32600, "not a valid A2A request"),
    ("METHOD_NOT_FOUND", -32601, "method not found"),
    ("INTERNAL_ERROR", -32603, "internal error"),
)
_CODES = {reason: code for reason, code, _ in _ERRORS}
_MESSAGES = {code: message for _, code, message in _ERRORS} | {
    -32700: "the body is not valid JSON",
    400: "not a valid A2A request",
    404: "not found",
    500: "internal error",
}
_OTHER_MESSAGE = "the request failed"
_ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_NOT_MCP = "the body is not a valid MCP message"
_DETAILS = ("data", "details")
_MARK = b'"error"'

Redact = Callable[[JsonObject], JsonObject]


class ErrorRedaction:
    """Applies `redact` to the `error` object of JSON responses and of events in a stream."""

    def __init__(self, app: ASGIApp, redact: Redact) -> None:
        self._app = app
        self._redact = redact

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        is_stream = False

        async def send_redacted(message: Message) -> None:
            nonlocal start, is_stream
            if message["type"] == "http.response.start":
                kind = dict(message["headers"]).get(b"content-type", b"")
                is_stream = kind.startswith(b"text/event-stream")
                if kind.startswith(b"application/json"):
                    start = message  # its length is known only with the body
                else:
                    await send(message)
                return
            if message["type"] == "http.response.body":
                body = message.get("body", b"")
                if start is not None:
                    redacted = _redact_body(body, self._redact)
                    await send(start if redacted is body else _with_length(start, redacted))
                    start, body = None, redacted
                elif is_stream and _MARK in body:
                    body = _redact_events(body, self._redact)
                message = {**message, "body": body}
            await send(message)

        await self._app(scope, receive, send_redacted)


def _redact_body(body: bytes, redact: Redact) -> bytes:
    if _MARK not in body:
        return body
    document = _read(body)
    if not isinstance(document, dict) or not isinstance(document.get("error"), dict):
        return body  # also a part of a larger response, which is no error of the SDK
    redacted = {**document, "error": redact(document["error"])}
    return json.dumps(redacted, separators=(",", ":")).encode()


def _read(body: bytes) -> Any:
    """With Python's own parser, which takes numbers of any size: a caller's id may be one."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def redact_a2a_error(error: JsonObject) -> JsonObject:
    """Our own message for the code, and only those details that the SDK itself writes."""
    details = [each for key in _DETAILS for each in _safe_details(error.get(key))]
    kept = {key: value for key, value in error.items() if key not in _DETAILS}
    kept["message"] = _message_for(error, details)
    name = next((key for key in _DETAILS if isinstance(error.get(key), list)), None)
    return kept | ({name: details} if name and details else {})


def _message_for(error: JsonObject, details: list[Any]) -> str:
    if error.get("message") in _OURS:
        return str(error["message"])
    codes = [_CODES[each["reason"]] for each in details if "reason" in each]
    code = codes[0] if codes else error.get("code")
    return _MESSAGES.get(code, _OTHER_MESSAGE) if isinstance(code, int) else _OTHER_MESSAGE


def redact_mcp_error(error: JsonObject) -> JsonObject:
    """Replaces the messages of the SDK that begin in this way: they quote the request."""
    if str(error.get("message", "")).startswith(("Validation error:", "Parse error:")):
        return {"code": error.get("code", -32600), "message": _NOT_MCP}
    return error


def _safe_details(details: Any) -> list[Any]:
    """The reason, by which clients distinguish errors, and which required fields are missing."""
    known = []
    for each in details if isinstance(details, list) else ():
        if isinstance(each, dict) and "fieldViolations" in each:
            known.append(each)
        elif isinstance(each, dict) and each.get("reason") in _CODES:
            info = {"@type": _ERROR_INFO, "reason": each["reason"], "domain": "a2a-protocol.org"}
            known.append({**info, "metadata": {}})
    return known


def _redact_events(chunk: bytes, redact: Redact) -> bytes:
    prefix = b"data: "
    lines = chunk.splitlines(keepends=True)
    for place, line in enumerate(lines):
        if line.startswith(prefix):
            bare = line.rstrip(b"\r\n")
            lines[place] = prefix + _redact_body(bare[len(prefix) :], redact) + line[len(bare) :]
    return b"".join(lines)


def _with_length(start: Message, body: bytes) -> Message:
    kept = [(name, value) for name, value in start["headers"] if name != b"content-length"]
    return {**start, "headers": [*kept, (b"content-length", str(len(body)).encode())]}

"""One line for each request that a server answered, with nothing in it that a caller wrote.

Method, route, status, duration, sizes and the request id: never a query string, a header, a body
or the text of an exception, since any of these may hold what nobody may read (PHI).
"""

import logging
import re
import sys
import time
import uuid
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_logger = logging.getLogger("assay.serve.requests")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_QUIET = ("httpx", "httpcore", "mcp", "sse_starlette", "asyncio", "uvicorn.access")
# The A2A SDK's warnings quote what did not parse. What of it matters, our own loggers say.
_SILENT = ("a2a",)


class RequestLog:
    """Pure ASGI, outermost: streams pass through untouched."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status, bytes_out = 500, 0
        request_id = _request_id(scope)

        async def note(message: Message) -> None:
            nonlocal status, bytes_out
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
                message = {**message, "headers": headers}
            elif message["type"] == "http.response.body":
                bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, note)
        finally:
            _write(scope, request_id, status, bytes_out, time.perf_counter() - started)


class JsonLines(logging.Formatter):
    """A log line for machines. Of an exception it keeps the class alone."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        fields = getattr(record, "fields", None)
        line |= fields if isinstance(fields, dict) else {"message": record.getMessage()}
        if record.exc_info and record.exc_info[0]:
            line["exception"] = record.exc_info[0].__name__
        return orjson.dumps(line, default=str).decode()


def set_up_logging(level: str = "info") -> None:
    """JSON lines on stderr. Libraries speak from warnings on, and never of payloads."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _write(scope: Scope, request_id: str, status: int, bytes_out: int, seconds: float) -> None:
    route = scope.get("route")
    fields = {
        "request_id": request_id,
        "method": scope["method"],
        "route": getattr(route, "path", None) or "unmatched",
        "status": status,
        "duration_ms": round(seconds * 1000, 1),
        "bytes_in": _length(scope),
        "bytes_out": bytes_out,
    }
    _logger.info("request", extra={"fields": fields})


def _request_id(scope: Scope) -> str:
    given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
    return given if _ID.fullmatch(given) else uuid.uuid4().hex


def _length(scope: Scope) -> int | None:
    given = dict(scope["headers"]).get(b"content-length", b"")
    return int(given) if given.isdigit() else None

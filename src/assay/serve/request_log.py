"""Logging of all servers: one JSON line for each request, and no payloads.

A line has method, route, status, duration, sizes and the request id: never a query string, a
header, a body or the text of an exception, any of which may hold confidential data (PHI). The same
is enforced for the libraries below.
"""

import logging
import re
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Not the module's name: operators choose the lines about requests by it.
_logger = logging.getLogger("assay.serve.requests")
# An id goes into a header and a log line: no caller may write anything else there.
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
# Libraries that quote payloads, in messages or in the reprs of tasks.
_LIBRARIES = ("a2a", "mcp", "httpx", "httpx2", "httpcore", "sse_starlette", "asyncio", "starlette")
# Silenced: one quotes in each warning what did not parse, the other logs complete URLs.
_SILENT = ("a2a", "uvicorn.access")
# Its messages are fixed; only the tracebacks quote.
_FIXED = ("uvicorn.error",)
_FILTERED = (*_LIBRARIES, *_SILENT, *_FIXED)
_NO_OUTPUT = logging.NullHandler()
_HEADER = b"x-request-id"
_REQUEST_ID = "request_id"
_SCRUBBED = "assay_scrubbed"  # set on a record, which may pass the filter twice


class RequestLog:
    """Logs each request and gives its response an `X-Request-ID`: the caller's if it is usable,
    else a new one, and `headers`. Outermost of the guards; streams pass through untouched.

    The id is in `scope["state"]["request_id"]`. An application that knows a better one (from the
    request's body) puts it there before it answers, and header and log line show that one. What
    it puts into `scope["state"]["log_fields"]` (a dict) is added to the line.
    """

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._headers = [(key.encode(), value.encode()) for key, value in (headers or {}).items()]
        keep_payloads_out()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            keep_payloads_out()  # again: some libraries make loggers when they are first used
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status, bytes_out = 500, 0
        state = scope.setdefault("state", {})
        given = dict(scope["headers"]).get(_HEADER, b"").decode("latin-1")
        state[_REQUEST_ID] = given if _ID.fullmatch(given) else uuid.uuid4().hex

        async def send_with_id(message: Message) -> None:
            nonlocal status, bytes_out
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [pair for pair in message.get("headers", ()) if pair[0] != _HEADER]
                own = (_HEADER, state[_REQUEST_ID].encode().strip())
                message = {**message, "headers": [*headers, own, *self._headers]}
            elif message["type"] == "http.response.body":
                bytes_out += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            length = dict(scope["headers"]).get(b"content-length", b"")
            fields = {
                "request_id": state[_REQUEST_ID],
                "method": scope["method"],
                # The template, `/tasks/{id}`: a path itself may hold what a caller made up.
                "route": getattr(scope.get("route"), "path", None) or "unmatched",
                "status": status,
                "duration_ms": round((time.perf_counter() - started) * 1000, 1),
                "bytes_in": int(length) if length.isdigit() and len(length) < 20 else None,
                "bytes_out": bytes_out,
                **state.get("log_fields", {}),
            }
            _logger.info("request", extra={"fields": fields})


class JsonLines(logging.Formatter):
    """Formats records as JSON. Of an exception only the class is kept."""

    def format(self, record: logging.LogRecord) -> str:
        """One line: time, level, logger, and the record's `fields` or else its message."""
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
    """Log JSON lines to stderr; from libraries only warnings and worse, without payloads."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    # Our own handler also gets records of loggers that a library makes later.
    handler.addFilter(lambda record: not _is_in(record.name, _FILTERED) or _scrub(record))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    keep_payloads_out()


def keep_payloads_out() -> None:
    """Filter the loggers themselves: that holds for every handler, including those of others, and
    also when debugging is turned on for everything."""
    for name in _FILTERED:
        logging.getLogger(name)
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and _is_in(name, _FILTERED):
            logger.addFilter(_scrub)  # adding it twice has no effect
    for name in _SILENT:
        # Filters are not inherited: this stops loggers that are made below these later.
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.addHandler(_NO_OUTPUT)


def _scrub(record: logging.LogRecord) -> bool:
    """Reduce a library's warning to its place in the code and the class of the exception."""
    if _is_in(record.name, _SILENT):
        return False
    if getattr(record, _SCRUBBED, False):
        return True
    setattr(record, _SCRUBBED, True)
    if not _is_in(record.name, _FIXED):
        if record.levelno < logging.WARNING:
            return False
        record.msg, record.args = f"at {record.module}:{record.lineno}", None
    if record.exc_info and record.exc_info[0]:
        record.msg = f"{record.getMessage().strip()} ({record.exc_info[0].__name__})"
        record.args = None
    record.exc_info = record.exc_text = record.stack_info = None
    return True


def _is_in(name: str, libraries: tuple[str, ...]) -> bool:
    return any(name == library or name.startswith(f"{library}.") for library in libraries)

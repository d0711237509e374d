"""One request of a conformance check and all that came back, recorded with its timing."""

import asyncio
import re
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import httpx
import orjson

from assay.contract.responses import TERMINAL_EVENTS, event_name, media_type, success_of
from assay.net.client import EncodingRefused, ResponseTooLarge
from assay.net.http import breach_of
from assay.net.json import JsonObject, parse_json, parse_object
from assay.net.redact import redact_url
from assay.net.sse import Event, EventReader, EventTooLarge

MAX_BODY_BYTES = 4_000_000
"""For one response: those of all requests are held until the rules have seen them."""
INPUTS_VARIABLE = "ASSAY_CHECK_INPUTS"
TOKEN_IN_COMMANDS = "$TOKEN"

# The rest is bounded as a whole, by the seconds that an exchange may take.
_CONNECT_ONLY = httpx.Timeout(None, connect=5.0)
_NO_INPUTS: JsonObject = {}
# An agent's own code is an identifier; anything else in its place may be text of the inputs.
_CODE = re.compile(r"[A-Z][A-Z0-9_]{1,63}")
_PAGES = (b"<!doctype html", b"<html")
_PLACEHOLDER = "assay-inputs-go-here"


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What was sent; `fault` is what is wrong with it ("no request_id"), empty if it is valid."""

    method: str
    url: str
    content: bytes = b""
    fault: str = ""


@dataclass(frozen=True)
class Exchange:
    """One request and all that came back, each piece with the second at which it came.

    `failure` says why the response is not complete; it has no chunks if it was `too_large`.
    """

    sent: SentRequest
    status: int | None = None
    media_type: str = ""
    headers: bytes = b""
    retry_after: str | None = None
    chunks: tuple[tuple[float, bytes], ...] = ()
    seconds: float = 0.0
    failure: str | None = None
    timed_out: bool = False
    too_large: bool = False
    refused_connection: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether the status is 2xx: the contract names no other."""
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_stream(self) -> bool:
        """Whether events were asked for and the request was accepted."""
        return self.succeeded and self.sent.url.endswith("/stream")

    @property
    def outcome(self) -> str:
        """The status, or why there is none."""
        return self.failure or "no answer" if self.status is None else f"HTTP {self.status}"

    @cached_property
    def body(self) -> bytes:
        """All that came, complete or not."""
        return b"".join(chunk for _, chunk in self.chunks)

    @cached_property
    def request(self) -> JsonObject:
        """The body that was sent, {} if it was not a JSON object."""
        return parse_object(self.sent.content) or {}

    @cached_property
    def json(self) -> JsonObject | None:
        """The body if it is a JSON object."""
        return parse_object(self.body)

    @cached_property
    def events(self) -> "StreamView":
        """The body as server-sent events."""
        return StreamView(self)

    @property
    def result(self) -> JsonObject | None:
        """The body, or the data of the last terminal event, which is the one that callers keep."""
        return self.json if self.json is not None else self.events.terminal

    @property
    def reports_success(self) -> bool:
        """Whether the body or any event says that the run succeeded."""
        if self.json is not None:
            return success_of(self.json) is True
        return any(success_of(data) is True for _, data in self.events.objects)

    @property
    def is_web_page(self) -> bool:
        """Whether HTML came in place of JSON, as from a proxy or a catch-all route."""
        if self.json is not None:
            return False
        return "html" in self.media_type or self.body.lstrip()[:14].lower().startswith(_PAGES)

    @property
    def error_code(self) -> str:
        """The agent's own code for what went wrong, empty if it gave none."""
        error = (self.result or {}).get("error")
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, str) and _CODE.fullmatch(code):
            return "" if code.encode() in self.sent.content else code
        return ""


class StreamView:
    """An exchange read as server-sent events, with the time at which the first was complete."""

    def __init__(self, exchange: Exchange) -> None:
        reader = EventReader(MAX_BODY_BYTES)
        self.events: list[Event] = []
        self.first_event_s: float | None = None
        try:
            for moment, chunk in exchange.chunks:
                self.events += reader.feed(chunk)
                if self.events and self.first_event_s is None:
                    self.first_event_s = moment
            if exchange.failure is None:
                reader.close()
            self.problems = reader.problems
        except EventTooLarge as error:
            self.problems = [*reader.problems, str(error)]
        parsed = [parse_object(event.data) for event in self.events]
        both = list(zip(self.events, parsed, strict=True))
        self.names = [event_name(event, data or {}) for event, data in both]
        named = zip(self.names, parsed, strict=True)
        self.objects = [(name, data) for name, data in named if data is not None]
        ends = [data for name, data in self.objects if name in TERMINAL_EVENTS]
        self.terminal = ends[-1] if ends else None
        moments = [moment for moment, _ in exchange.chunks] + [exchange.seconds]
        self.longest_silence_s = max((late - early for early, late in pairwise(moments)), default=0)

    @property
    def terminal_count(self) -> int:
        """How many events are terminal."""
        return sum(name in TERMINAL_EVENTS for name in self.names)

    @property
    def not_json(self) -> int:
        """How many events have data that is not JSON."""
        return sum(not _is_json(event.data) for event in self.events)


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except orjson.JSONDecodeError:
        return False
    return True


async def record_exchange(
    http: httpx.AsyncClient, sent: SentRequest, *, timeout: float, linger_s: float = 5.0
) -> Exchange:
    """Send one request and record what comes back within `timeout` seconds; it never raises.

    `http` is a client of `open_client`, which bounds the size of responses. A stream is left
    `linger_s` seconds after its terminal event.
    """
    clock = asyncio.get_running_loop().time
    started = clock()
    seen: JsonObject = {}
    chunks: list[tuple[float, bytes]] = []
    request_id = str((parse_object(sent.content) or {}).get("request_id", ""))
    headers = {"Content-Type": "application/json"} if sent.content else {}
    if request_id:
        headers["X-Request-ID"] = request_id
    try:
        async with (
            asyncio.timeout(timeout) as limit,
            http.stream(
                sent.method, sent.url, content=sent.content, headers=headers, timeout=_CONNECT_ONLY
            ) as response,
        ):
            seen |= {
                "status": response.status_code,
                "media_type": media_type(response),
                "headers": b"\n".join(value for _, value in response.headers.raw),
                "retry_after": response.headers.get("retry-after"),
            }
            async for chunk, is_terminal in _chunks(response):
                chunks.append((clock() - started, chunk))
                if is_terminal:
                    limit.reschedule(min(limit.when() or 0.0, clock() + linger_s))
    except TimeoutError:
        waited = f"no complete response within {clock() - started:.0f} s"
        seen |= {"failure": waited, "timed_out": True}
    except (ResponseTooLarge, EncodingRefused) as error:
        chunks.clear()
        seen |= {"failure": str(error), "too_large": True}
    except (httpx.ConnectError, httpx.ConnectTimeout):
        seen |= {"failure": "no connection", "refused_connection": True}
    except httpx.RemoteProtocolError as error:
        seen["failure"] = breach_of(error).value
    except (httpx.InvalidURL, UnicodeError):
        seen |= {"failure": "the host is not a name", "refused_connection": True}
    except httpx.HTTPError as error:
        seen["failure"] = f"the connection was lost ({type(error).__name__})"
    return Exchange(sent, **seen, chunks=tuple(chunks), seconds=clock() - started)


async def _chunks(response: httpx.Response) -> AsyncIterator[tuple[bytes, bool]]:
    """The pieces as they come, and whether one completed the first terminal event."""
    reader, open_ended = EventReader(MAX_BODY_BYTES), True
    async for chunk in response.aiter_bytes():
        ended = False
        if open_ended:
            try:
                events = reader.feed(chunk)
            except EventTooLarge:
                events, open_ended = [], False
            named = (event_name(event, parse_object(event.data) or {}) for event in events)
            ended = any(name in TERMINAL_EVENTS for name in named)
            open_ended = open_ended and not ended
        yield chunk, ended


def curl_command(
    exchange: Exchange, *, with_token: bool = False, inputs: JsonObject = _NO_INPUTS
) -> str:
    """The request as a line for a shell. A token is `$TOKEN` in it, never its value.

    The caller's own `inputs` show as a variable: the line is kept in reports, and they may be
    about a patient.
    """
    sent = exchange.sent
    parts = ["curl", "-isSN" if sent.url.endswith("/stream") else "-isS"]
    parts.append(shlex.quote(redact_url(sent.url)))
    if with_token:
        parts += ["-H", f'"Authorization: Bearer {TOKEN_IN_COMMANDS}"']
    if sent.content:
        parts += ["-H", "'Content-Type: application/json'", "-d", _quoted(exchange, inputs)]
    return " ".join(parts)


def _quoted(exchange: Exchange, inputs: JsonObject) -> str:
    """The body for a shell, with `inputs` as a variable."""
    body, sent = exchange.request, exchange.request.get("inputs")
    if not inputs or not isinstance(sent, dict) or not _holds(sent, inputs):
        return shlex.quote(exchange.sent.content.decode())
    text = orjson.dumps({**body, "inputs": _PLACEHOLDER}).decode()
    before, _, after = text.partition(f'"{_PLACEHOLDER}"')
    return f'{shlex.quote(before)}"${INPUTS_VARIABLE}"{shlex.quote(after)}'


def _holds(sent: JsonObject, own: dict[str, Any]) -> bool:
    return all(sent.get(name) == value for name, value in own.items())

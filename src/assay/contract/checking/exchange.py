"""One HTTP exchange with an agent, recorded with the time of each piece, whatever goes wrong."""

import asyncio
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import httpx
import orjson

from assay.contract.calling.answers import media_type
from assay.contract.calling.endpoints import authorization
from assay.contract.calling.reading import event_name
from assay.contract.sse import Event, EventReader, EventTooLarge

MAX_BODY_BYTES = 32_000_000

# The rest is bounded as a whole, by the seconds that an exchange may take.
_CONNECT_ONLY = httpx.Timeout(None, connect=5.0)


@dataclass(frozen=True)
class Exchange:
    """One request and all that came back. `failure` says why there is no complete answer."""

    request_id: str
    status: int | None = None
    media_type: str = ""
    headers: bytes = b""
    chunks: tuple[tuple[float, bytes], ...] = ()
    seconds: float = 0.0
    failure: str | None = None
    timed_out: bool = False
    refused_connection: bool = False

    @cached_property
    def body(self) -> bytes:
        return b"".join(chunk for _, chunk in self.chunks)

    @cached_property
    def json(self) -> dict[str, Any] | None:
        return _object_in(self.body)

    @cached_property
    def stream(self) -> "StreamView":
        return StreamView(self)


class StreamView:
    """An exchange read as server-sent events, with the time at which each was complete."""

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
        parsed = [_object_in(event.data) for event in self.events]
        both = zip(self.events, parsed, strict=True)
        self.names = [event_name(event, data or {}) for event, data in both]
        named = zip(self.names, parsed, strict=True)
        self.objects = [(name, data) for name, data in named if data is not None]
        self.ended = exchange.failure is None
        moments = [moment for moment, _ in exchange.chunks] + [exchange.seconds]
        self.longest_silence_s = max((late - early for early, late in pairwise(moments)), default=0)


def _object_in(text: str | bytes) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None


async def exchange(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    seconds: float,
    content: bytes = b"",
    request_id: str = "",
    token: str | None = None,
) -> Exchange:
    clock = asyncio.get_running_loop().time
    started = clock()
    seen: dict[str, Any] = {"request_id": request_id}
    chunks: list[tuple[float, bytes]] = []
    try:
        async with (
            asyncio.timeout(seconds),
            http.stream(
                method,
                url,
                content=content,
                headers=_headers(request_id) | authorization(token),
                timeout=_CONNECT_ONLY,
            ) as answer,
        ):
            seen |= _head_of(answer)
            size = 0
            async for chunk in answer.aiter_bytes():
                chunks.append((clock() - started, chunk))
                size += len(chunk)
                if size > MAX_BODY_BYTES:
                    seen["failure"] = f"the answer is larger than {MAX_BODY_BYTES} bytes"
                    break
    except TimeoutError:
        seen |= {"failure": f"no complete answer within {seconds:g} s", "timed_out": True}
    except (httpx.ConnectError, httpx.ConnectTimeout):
        seen |= {"failure": "no connection", "refused_connection": True}
    except httpx.HTTPError as error:
        seen["failure"] = f"the connection broke ({type(error).__name__})"
    return Exchange(**seen, chunks=tuple(chunks), seconds=clock() - started)


def _headers(request_id: str) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
    return {**headers, "X-Request-ID": request_id} if request_id else headers


def _head_of(answer: httpx.Response) -> dict[str, Any]:
    return {
        "status": answer.status_code,
        "media_type": media_type(answer),
        "headers": b"\n".join(value for _, value in answer.headers.raw),
    }

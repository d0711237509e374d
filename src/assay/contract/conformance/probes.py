"""One HTTP exchange with an agent, recorded with the time of each piece, whatever goes wrong."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import httpx
import orjson

from assay.contract.endpoints import authorization
from assay.contract.envelope import to_json
from assay.contract.responses import event_name, media_type, success_of
from assay.net.sse import Event, EventReader, EventTooLarge

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


_QUERY = {"query": "Does vitamin D lower blood pressure?", "topK": 5}

_SAMPLES: dict[str, dict[str, Any]] = {
    "RAG_RETRIEVE": _QUERY,
    "RAG_ANSWER": _QUERY,
    "LIT_RETRIEVAL": {"query": "vitamin D and blood pressure", "max_results": 5},
    "RAG_INGEST": {
        "documents": [
            {
                "docId": "assay-check-1",
                "title": "A document of the conformance check",
                "source": "assay check",
                "text": "Vitamin D was given for a year. Blood pressure did not change.",
                "metadata": {"kind": "conformance check"},
            }
        ],
        "knowledgeBase": "assay-check",
    },
    "CLAIM_VERIFY": {
        "claims": ["Blood pressure did not change."],
        "groundingPack": {
            "chunks": [
                {
                    "chunk_id": "assay-check-1__chunk_0",
                    "doc_id": "assay-check-1",
                    "text": "Vitamin D was given for a year. Blood pressure did not change.",
                    "score": 1.0,
                }
            ]
        },
    },
    "POLICY_REVIEW": {
        "resource_id": "assay-check",
        "domain": "clinical",
        "resource": {"id": "assay-check", "type": "dataset", "description": "public literature"},
    },
}


def sample_inputs(task_type: str) -> dict[str, Any]:
    """A task that is not known gets a query, which most of them take."""
    return _SAMPLES.get(task_type, _QUERY)


UNKNOWN_TASK = "ASSAY_CHECK_UNKNOWN_TASK"
WAYS = ("sync", "stream")


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Seconds, as callers in the field have them."""

    sync_s: float = 15.0
    first_event_s: float = 10.0
    stream_s: float = 30.0
    heartbeat_s: float = 15.0


@dataclass(frozen=True)
class Observation:
    """Everything that was asked of one agent. Dictionaries are by way: sync and stream."""

    task_type: str
    canary: str
    canary_key: str
    limits: CheckLimits
    health: Exchange
    ready: Exchange
    run: Mapping[str, Exchange]
    repeated: Exchange
    reused: Exchange
    unknown_task: Mapping[str, Exchange]
    broken_json: Mapping[str, Exchange]
    missing: Mapping[str, Mapping[str, Exchange]]
    wrong_type: Mapping[str, Exchange]
    no_inputs: Mapping[str, Exchange]

    def errors(self) -> list[Exchange]:
        """The answers to requests that should not have succeeded, and did not."""
        groups = [self.unknown_task, self.broken_json, self.wrong_type, self.no_inputs]
        groups += self.missing.values()
        return [each for group in groups for each in group.values() if not _succeeded(each)]


def _succeeded(exchange: Exchange) -> bool:
    if exchange.json is not None:
        return success_of(exchange.json) is True
    return any(success_of(data) is True for _, data in exchange.stream.objects)


@dataclass
class Prober:
    http: httpx.AsyncClient
    base: str
    task_type: str
    inputs: Mapping[str, Any]
    limits: CheckLimits
    token: str | None = None
    canary: str = field(default_factory=lambda: f"canary-{uuid.uuid4().hex}")
    canary_key: str = field(default_factory=lambda: f"canary_key_{uuid.uuid4().hex}")

    async def observe(self, health: Exchange) -> Observation:
        body = self._body()
        sync = await self._post("sync", body)
        return Observation(
            task_type=self.task_type,
            canary=self.canary,
            canary_key=self.canary_key,
            limits=self.limits,
            health=health,
            ready=await self.get("/health/ready"),
            run={"sync": sync, "stream": await self._post("stream", self._body())},
            repeated=await self._post("sync", body),
            reused=await self._post("sync", {**body, "domain_id": "assay-check-other"}),
            unknown_task=await self._both(task_type=UNKNOWN_TASK, inputs=self._secret()),
            broken_json={way: await self._post_broken_json(way) for way in WAYS},
            missing={way: await self._post_missing(way) for way in WAYS},
            wrong_type=await self._both(inputs=self.canary),
            no_inputs=await self._both(inputs=self._secret()),
        )

    async def get(self, path: str) -> Exchange:
        return await exchange(
            self.http, "GET", self.base + path, seconds=self.limits.sync_s, token=self.token
        )

    def _secret(self) -> dict[str, str]:
        return {"assay_check_note": self.canary, self.canary_key: "x"}

    def _body(self, **changes: Any) -> dict[str, Any]:
        return {
            "request_id": f"assay-check-{uuid.uuid4().hex}",
            "task_type": self.task_type,
            "inputs": self.inputs,
            **changes,
        }

    async def _both(self, **changes: Any) -> dict[str, Exchange]:
        return {way: await self._post(way, self._body(**changes)) for way in WAYS}

    async def _post_missing(self, way: str) -> dict[str, Exchange]:
        """Without each required field, and with an id that is there but empty."""
        body = self._body(inputs=self._secret())
        bodies = {
            f"no {name}": {key: value for key, value in body.items() if key != name}
            for name in ("request_id", "task_type")
        }
        bodies["empty request_id"] = {**body, "request_id": ""}
        return {name: await self._post(way, each) for name, each in bodies.items()}

    async def _post_broken_json(self, way: str) -> Exchange:
        return await self._send(way, to_json(self._body(inputs=self._secret()))[:-2], "")

    async def _post(self, way: str, body: Mapping[str, Any]) -> Exchange:
        return await self._send(way, to_json(body), str(body.get("request_id", "")))

    async def _send(self, way: str, content: bytes, request_id: str) -> Exchange:
        return await exchange(
            self.http,
            "POST",
            f"{self.base}/agents/run/{way}",
            content=content,
            request_id=request_id,
            token=self.token,
            seconds=self.limits.sync_s if way == "sync" else self.limits.stream_s,
        )

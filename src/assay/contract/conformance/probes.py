"""Asking an agent everything that the conformance checks need to know, and recording it.

Requests and checks are separate: a check is a function of an `AgentObservation`, so that one
exchange serves many checks and a check never waits for the network.
"""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import httpx
import orjson

from assay.contract.responses import event_name, media_type, success_of
from assay.net.client import EncodingRefused, ResponseTooLarge
from assay.net.json import JsonObject, parse_object
from assay.net.sse import Event, EventReader, EventTooLarge

MAX_BODY_BYTES = 4_000_000
"""For one response: those of all twenty requests are held until the checks have seen them."""
UNKNOWN_TASK = "ASSAY_CHECK_UNKNOWN_TASK"
WAYS = ("sync", "stream")

# The rest is bounded as a whole, by the seconds that an exchange may take.
_CONNECT_ONLY = httpx.Timeout(None, connect=5.0)

_QUERY = {"query": "Does vitamin D lower blood pressure?", "topK": 5}

_SAMPLES: dict[str, JsonObject] = {
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


def sample_inputs(task_type: str) -> JsonObject:
    """Plausible inputs for a task; one that is not known gets a query, which most tasks take."""
    return _SAMPLES.get(task_type, _QUERY)


@dataclass(frozen=True)
class Exchange:
    """One request and all that came back, each piece with the second at which it came.

    `failure` says why the response is not complete.
    """

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
        """All that came, complete or not."""
        return b"".join(chunk for _, chunk in self.chunks)

    @cached_property
    def json(self) -> JsonObject | None:
        """The body where it is a JSON object."""
        return parse_object(self.body)

    @cached_property
    def stream(self) -> "StreamView":
        """The body as server-sent events."""
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
        parsed = [parse_object(event.data) for event in self.events]
        both = zip(self.events, parsed, strict=True)
        self.names = [event_name(event, data or {}) for event, data in both]
        named = zip(self.names, parsed, strict=True)
        self.objects = [(name, data) for name, data in named if data is not None]
        self.ended = exchange.failure is None
        moments = [moment for moment, _ in exchange.chunks] + [exchange.seconds]
        self.longest_silence_s = max((late - early for early, late in pairwise(moments)), default=0)


async def record_exchange(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    timeout: float,
    content: bytes = b"",
    request_id: str = "",
) -> Exchange:
    """Send one request and record what comes back within `timeout` seconds; it never raises.

    `http` is a client of `open_client`, which bounds the size of responses.
    """
    clock = asyncio.get_running_loop().time
    started = clock()
    seen: JsonObject = {"request_id": request_id}
    chunks: list[tuple[float, bytes]] = []
    headers = {"Content-Type": "application/json"}
    if request_id:
        headers["X-Request-ID"] = request_id
    try:
        async with (
            asyncio.timeout(timeout),
            http.stream(
                method, url, content=content, headers=headers, timeout=_CONNECT_ONLY
            ) as response,
        ):
            seen |= {
                "status": response.status_code,
                "media_type": media_type(response),
                "headers": b"\n".join(value for _, value in response.headers.raw),
            }
            async for chunk in response.aiter_bytes():
                chunks.append((clock() - started, chunk))
    except TimeoutError:
        seen |= {"failure": f"no complete response within {timeout:g} s", "timed_out": True}
    except (ResponseTooLarge, EncodingRefused) as error:
        chunks.clear()
        seen["failure"] = str(error)
    except (httpx.ConnectError, httpx.ConnectTimeout):
        seen |= {"failure": "no connection", "refused_connection": True}
    except httpx.HTTPError as error:
        seen["failure"] = f"the connection was lost ({type(error).__name__})"
    return Exchange(**seen, chunks=tuple(chunks), seconds=clock() - started)


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Seconds; the defaults are those of callers in the field."""

    sync_s: float = 15.0
    first_event_s: float = 10.0
    stream_s: float = 30.0
    heartbeat_s: float = 15.0


@dataclass(frozen=True)
class AgentObservation:
    """The responses of one agent to everything it was asked.

    Mappings are by way, sync and stream. `canary` and `canary_key` are text that was sent in inputs
    and must not come back in an error.
    """

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
        """The responses to requests that should not have succeeded, and did not."""
        groups = [self.unknown_task, self.broken_json, self.wrong_type, self.no_inputs]
        groups += self.missing.values()
        return [each for group in groups for each in group.values() if not _succeeded(each)]


def _succeeded(exchange: Exchange) -> bool:
    if exchange.json is not None:
        return success_of(exchange.json) is True
    return any(success_of(data) is True for _, data in exchange.stream.objects)


@dataclass
class Prober:
    """Sends the requests of a conformance check, one after the other.

    `inputs` are such that the agent can succeed.
    """

    http: httpx.AsyncClient
    base: str
    task_type: str
    inputs: Mapping[str, Any]
    limits: CheckLimits
    canary: str = field(default_factory=lambda: f"canary-{uuid.uuid4().hex}")
    canary_key: str = field(default_factory=lambda: f"canary_key_{uuid.uuid4().hex}")

    async def observe(self, health: Exchange) -> AgentObservation:
        """Ask everything; `health` is the response to GET /health, which was asked before."""
        body = self._body()
        sync = await self._post("sync", body)
        return AgentObservation(
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
        """GET a path of the agent."""
        url = self.base + path
        return await record_exchange(self.http, "GET", url, timeout=self.limits.sync_s)

    def _secret(self) -> dict[str, str]:
        return {"assay_check_note": self.canary, self.canary_key: "x"}

    def _body(self, **changes: Any) -> JsonObject:
        return {
            "request_id": f"assay-check-{uuid.uuid4().hex}",
            "task_type": self.task_type,
            "inputs": self.inputs,
            **changes,
        }

    async def _both(self, **changes: Any) -> dict[str, Exchange]:
        return {way: await self._post(way, self._body(**changes)) for way in WAYS}

    async def _post_missing(self, way: str) -> dict[str, Exchange]:
        """Without each required field, and with an id that is present but empty."""
        body = self._body(inputs=self._secret())
        bodies = {
            f"no {name}": {key: value for key, value in body.items() if key != name}
            for name in ("request_id", "task_type")
        }
        bodies["empty request_id"] = {**body, "request_id": ""}
        return {name: await self._post(way, each) for name, each in bodies.items()}

    async def _post_broken_json(self, way: str) -> Exchange:
        return await self._send(way, orjson.dumps(self._body(inputs=self._secret()))[:-2], "")

    async def _post(self, way: str, body: Mapping[str, Any]) -> Exchange:
        return await self._send(way, orjson.dumps(body), str(body.get("request_id", "")))

    async def _send(self, way: str, content: bytes, request_id: str) -> Exchange:
        return await record_exchange(
            self.http,
            "POST",
            f"{self.base}/agents/run/{way}",
            content=content,
            request_id=request_id,
            timeout=self.limits.sync_s if way == "sync" else self.limits.stream_s,
        )

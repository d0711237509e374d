"""Asking an agent everything that the rules need to know, and recording it.

Requests and rules are separate: a rule is a function of exchanges, so that one exchange serves
many rules and a rule never waits for the network.
"""

import asyncio
import math
import secrets
import shlex
import string
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import httpx
import orjson

from assay.contract.client import TERMINAL_EVENTS, event_name, media_type, success_of
from assay.errors import AgentFailure, FailureKind
from assay.net.http import classify_http_errors
from assay.net.json import JsonObject, parse_json, parse_object
from assay.net.redact import redact_url
from assay.net.sse import EventReader

# For one response: those of all requests are held until the rules have seen them.
MAX_BODY_BYTES = 4_000_000

# The rest is bounded as a whole, by the seconds that an exchange may take.
_TIMEOUT = httpx.Timeout(None, connect=5.0)


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What was sent; `fault` is what is wrong with it ("no request_id"), empty if it is valid."""

    method: str
    url: str
    content: bytes = b""
    fault: str = ""


class StreamView:
    """A body read as server-sent events while it comes; times are seconds since the request."""

    def __init__(self) -> None:
        self._reader = EventReader(MAX_BODY_BYTES)
        self._moment: float | None = None
        self.first_event_s = math.inf
        self.longest_silence_s = 0.0
        self.problems: list[str] = []
        self.names: list[str] = []
        self.objects: list[tuple[str, JsonObject]] = []
        self.terminal: JsonObject | None = None
        self.terminal_count = 0

    def feed(self, moment: float, chunk: bytes) -> bool:
        """Take in what came at a moment; True if it completes the first terminal event."""
        self._pass(moment)
        had_ended = self.terminal_count > 0
        for event in self._reader.feed(chunk):
            self.first_event_s = min(self.first_event_s, moment)
            try:
                value = parse_json(event.data)
            except orjson.JSONDecodeError:
                value = None
                self.problems.append("the data of an event is not JSON")
            name = event_name(event, value if isinstance(value, dict) else {})
            self.names.append(name)
            self.terminal_count += name in TERMINAL_EVENTS
            if isinstance(value, dict):
                self.objects.append((name, value))
                self.terminal = value if name in TERMINAL_EVENTS else self.terminal
        return self.terminal_count > 0 and not had_ended

    def finish(self, moment: float, *, complete: bool) -> None:
        """Note how the body ended."""
        if self._moment is not None:
            self._pass(moment)
        if complete:
            self._reader.close()
        self.problems = [*self._reader.problems, *self.problems]

    def _pass(self, moment: float) -> None:
        last = moment if self._moment is None else self._moment
        self.longest_silence_s = max(self.longest_silence_s, moment - last)
        self._moment = moment


@dataclass(frozen=True)
class Exchange:
    """One request and all that came back; `failure` says why the response is not complete."""

    sent: SentRequest
    status: int | None = None
    media_type: str = ""
    headers: bytes = b""
    body: bytes = b""
    events: StreamView = field(default_factory=StreamView)
    seconds: float = 0.0
    failure: str | None = None
    timed_out: bool = False
    too_large: bool = False

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
    def request(self) -> JsonObject:
        """The body that was sent, {} if it was not a JSON object."""
        return parse_object(self.sent.content) or {}

    @cached_property
    def json(self) -> JsonObject | None:
        """The body if it is a JSON object."""
        return parse_object(self.body)

    @property
    def result(self) -> JsonObject | None:
        """The body, or the data of the last terminal event, which is the one that callers keep."""
        return self.json if self.json is not None else self.events.terminal

    @property
    def fields(self) -> JsonObject:
        """The fields of `result`, none if there is no result."""
        return self.result or {}

    @property
    def output_tokens(self) -> int | None:
        """What the response says that it used."""
        usage = self.fields.get("usage")
        value = usage.get("output_tokens") if isinstance(usage, dict) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def reports_success(self) -> bool:
        """Whether the body or any event says that the run succeeded."""
        if self.json is not None:
            return success_of(self.json) is True
        return any(success_of(data) is True for _, data in self.events.objects)


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
    body, view = bytearray(), StreamView()
    headers = {"Content-Type": "application/json"} if sent.content else {}
    if request_id := (parse_object(sent.content) or {}).get("request_id"):
        headers["X-Request-ID"] = str(request_id)
    options: JsonObject = {"content": sent.content, "headers": headers, "timeout": _TIMEOUT}
    try:
        async with asyncio.timeout(timeout) as limit:
            with classify_http_errors():
                async with http.stream(sent.method, sent.url, **options) as response:
                    seen |= {
                        "status": response.status_code,
                        "media_type": media_type(response),
                        "headers": b"\n".join(value for _, value in response.headers.raw),
                    }
                    async for chunk in response.aiter_bytes():
                        body += chunk
                        if view.feed(clock() - started, chunk):
                            limit.reschedule(min(limit.when() or 0.0, clock() + linger_s))
    except TimeoutError:
        waited = f"no complete response within {clock() - started:.0f} s"
        seen |= {"failure": waited, "timed_out": True}
    except AgentFailure as failure:
        too_large = failure.kind is FailureKind.INVALID_ANSWER
        seen |= {"failure": str(failure), "too_large": too_large}
    seconds = clock() - started
    view.finish(seconds, complete="failure" not in seen)
    return Exchange(sent, **seen, body=bytes(body), events=view, seconds=seconds)


def curl_command(exchange: Exchange, *, with_token: bool = False, hide_inputs: bool = False) -> str:
    """The request as a line for a shell, with `$TOKEN` for a token.

    With `hide_inputs`, "..." stands for the inputs: the line is kept in reports, and the caller's
    own inputs may be about a patient.
    """
    sent = exchange.sent
    parts = ["curl", "-isSN" if sent.url.endswith("/stream") else "-isS"]
    parts.append(shlex.quote(redact_url(sent.url)))
    if with_token:
        parts += ["-H", '"Authorization: Bearer $TOKEN"']
    if not sent.content:
        return " ".join(parts)
    content = sent.content
    if hide_inputs and "inputs" in exchange.request:
        content = orjson.dumps({**exchange.request, "inputs": "..."})
    body = shlex.quote(content.decode())
    return " ".join([*parts, "-H", "'Content-Type: application/json'", "-d", body])


UNKNOWN_TASK = "ASSAY_CHECK_UNKNOWN_TASK"
WAYS = ("sync", "stream")

# What a server says if it does not have the contract's endpoint.
_NO_ENDPOINT = (404, 405, 410, 501)

_QUERY = {"query": "Does vitamin D lower blood pressure?", "topK": 5}

_SAMPLES: dict[str, JsonObject] = {
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


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """Seconds; the defaults are those of callers in the field.

    `grace_s` is what a run may take beyond its budget before that is called a fault; budgets
    are tested on runs that take at least twice as long.
    """

    sync_s: float = 15.0
    first_event_s: float = 10.0
    stream_s: float = 30.0
    heartbeat_s: float = 15.0
    grace_s: float = 1.0


@dataclass(frozen=True)
class AgentObservation:
    """The responses of one agent to everything it was asked.

    `canaries` are text that was sent in inputs and must not come back in an error. What is None
    was not asked, because no run succeeded that it could be compared with. `refusals` are the
    responses to requests that should not succeed; `sent.fault` says why.
    """

    task_type: str
    canaries: tuple[str, ...]
    limits: CheckLimits
    health: Exchange
    ready: Exchange
    run: Mapping[str, Exchange]
    short_time: Exchange | None = None
    few_tokens: Exchange | None = None
    refusals: tuple[Exchange, ...] = ()

    def refused(self, *faults: str) -> list[Exchange]:
        """The responses to requests with one of `faults`, in both ways."""
        return [answer for answer in self.refusals if answer.sent.fault in faults]


def endpoint_missing(run: Exchange) -> bool:
    """Whether a valid request met no agent: there is no such path, or a redirect."""
    return run.status is not None and (run.status in _NO_ENDPOINT or 300 <= run.status < 400)


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

    def __post_init__(self) -> None:
        # No digits, in which a change of case would not show.
        letters = string.ascii_lowercase
        random = ["".join(secrets.choice(letters) for _ in range(32)) for _ in range(3)]
        self.canaries: tuple[str, ...] = tuple(random)

    async def observe(self, health: Exchange) -> AgentObservation:
        """Ask everything; `health` is the response to GET /health, which was asked before."""
        ready = await self.get("/health/ready")
        run = {"sync": await self._post("sync", self._body())}
        run["stream"] = await self._post("stream", self._body())
        short_time = few_tokens = None
        if run["sync"].reports_success:
            usual_s = run["sync"].seconds
            if usual_s >= 2 * self.limits.grace_s:  # else a budget would not show
                tenth = {"timeout_ms": round(usual_s * 100)}
                short_time = await self._post("sync", self._body(budgets=tenth))
            budgets = {"max_output_tokens": 1, "max_escalations": 0}
            few_tokens = await self._post("sync", self._body(budgets=budgets))
        ways = [way for way in WAYS if not endpoint_missing(run[way])]
        return AgentObservation(
            task_type=self.task_type,
            canaries=self.canaries,
            limits=self.limits,
            health=health,
            ready=ready,
            run=run,
            short_time=short_time,
            few_tokens=few_tokens,
            refusals=tuple([answer for way in ways for answer in await self._refusals(way)]),
        )

    async def get(self, path: str) -> Exchange:
        """GET a path of the agent."""
        sent = SentRequest("GET", self.base + path)
        return await record_exchange(self.http, sent, timeout=self.limits.sync_s)

    async def _refusals(self, way: str) -> list[Exchange]:
        """The responses to requests that have one fault each, and secret text in their inputs."""
        begin, middle, end = self.canaries
        filler = " of the conformance check "
        # Values come at both ends of what a quotation keeps if it is cut: keys are short.
        secret = {"a": begin, "m": f"text{filler}{middle}{filler}", "z": end}
        inputs = {"a": begin, **self.inputs, **secret}
        body = self._body(inputs=inputs)
        bodies: dict[str, JsonObject] = {
            "unknown task": self._body(task_type=UNKNOWN_TASK, inputs=inputs),
            "no request_id": {name: body[name] for name in body if name != "request_id"},
            "no task_type": {name: body[name] for name in body if name != "task_type"},
            "empty request_id": {**body, "request_id": ""},
            "wrong type": self._body(inputs=f"{begin}{filler}{middle}{filler}{end}"),
            "no inputs": self._body(inputs=secret),
            "inputs of other types": self._body(inputs=dict.fromkeys(self.inputs, secret)),
        }
        answers = [await self._post(way, each, fault) for fault, each in bodies.items()]
        truncated = orjson.dumps(self._body(inputs=secret))[:-2]
        return [*answers, await self._post(way, truncated, "broken JSON")]

    def _body(self, **changes: Any) -> JsonObject:
        return {
            "request_id": f"assay-check-{uuid.uuid4().hex}",
            "task_type": self.task_type,
            "inputs": self.inputs,
            **changes,
        }

    async def _post(self, way: str, body: JsonObject | bytes, fault: str = "") -> Exchange:
        content = body if isinstance(body, bytes) else orjson.dumps(body)
        sent = SentRequest("POST", f"{self.base}/agents/run/{way}", content, fault)
        timeout = self.limits.sync_s if way == "sync" else self.limits.stream_s
        return await record_exchange(self.http, sent, timeout=timeout)


def _results(seen: AgentObservation, *ways: str) -> list[Exchange]:
    runs = [seen.run[way] for way in ways]
    return [run for run in runs if run.succeeded and run.result is not None]


def _failed_runs(way: str, seen: AgentObservation) -> list[Exchange]:
    """A task may run without its inputs; if it fails, it must fail in the contract's shape."""
    asked = seen.refused("no inputs", "inputs of other types")
    return [run for run in asked if run.sent.url.endswith(way) and not run.reports_success]


def _errors(seen: AgentObservation) -> list[Exchange]:
    return [answer for answer in seen.refusals if not answer.reports_success]


def _failures(seen: AgentObservation) -> list[Exchange]:
    """Errors in some dialect of the contract; other bodies are the matter of other rules."""
    return [answer for answer in _errors(seen) if {"outputs", "request_id"} & {*answer.fields}]


_MISSING = ("no request_id", "empty request_id", "no task_type")

SELECTORS: dict[str, Callable[[AgentObservation], list[Exchange]]] = {
    "health": lambda seen: [seen.health],
    "readiness": lambda seen: [seen.ready],
    "sync": lambda seen: [seen.run["sync"]],
    "sync result": lambda seen: _results(seen, "sync"),
    "stream": lambda seen: [seen.run["stream"]],
    "events": lambda seen: [x for x in [seen.run["stream"]] if x.succeeded and x.events.names],
    "terminal event": lambda seen: _results(seen, "stream"),
    "results": lambda seen: _results(seen, *WAYS),
    "short time budget": lambda seen: [seen.short_time] if seen.short_time else [],
    # Not a run that succeeded without saying how many tokens it used.
    "token budget": lambda seen: [
        x for x in [seen.few_tokens] if x and (x.output_tokens is not None or not x.reports_success)
    ],
    # The contract allows a refusal and says how it looks; it does not demand one.
    "refused task": lambda seen: [x for x in seen.refused("unknown task") if not x.succeeded],
    "unknown task": lambda seen: seen.refused("unknown task"),
    "missing field": lambda seen: seen.refused(*_MISSING),
    "malformed request": lambda seen: seen.refused(*_MISSING, "broken JSON", "wrong type"),
    "failed sync run": partial(_failed_runs, "/sync"),
    "failed stream": partial(_failed_runs, "/stream"),
    "failures": _failures,
    "results and failures": lambda seen: _results(seen, *WAYS) + _failures(seen),
    "errors": _errors,
}

"""Asking an agent everything that the rules need to know, and recording it.

Requests and rules are separate: a rule is a function of exchanges, so that one exchange serves
many rules and a rule never waits for the network.
"""

import asyncio
import secrets
import string
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from assay.contract.conformance.exchange import Exchange, SentRequest, record_exchange
from assay.net.json import JsonObject
from assay.net.retry import parse_retry_after

UNKNOWN_TASK = "ASSAY_CHECK_UNKNOWN_TASK"
WAYS = ("sync", "stream")

# What a server says if it does not have the contract's endpoint.
_NO_ENDPOINT = (404, 405, 410, 501)
_OVERLOADED = (429, 503)
_MAX_RETRY_AFTER_S = 5.0
# A longer run is not started again to see whether it ends with its budget.
_MAX_REPEATED_S = 5.0
_LATE_ATTEMPTS = 3

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

    `canaries` and `canary_key` are text that was sent in inputs and must not come back in an
    error. What is None was not asked, because no run succeeded that it could be compared with.
    `refusals` are the responses to requests that should not succeed; `sent.fault` says why.
    """

    task_type: str
    canaries: tuple[str, ...]
    canary_key: str
    limits: CheckLimits
    health: Exchange
    ready: Exchange
    run: Mapping[str, Exchange]
    repeated: Exchange | None = None
    reused: Exchange | None = None
    short_time: Exchange | None = None
    few_tokens: Exchange | None = None
    refusals: tuple[Exchange, ...] = ()

    def refused(self, *faults: str) -> list[Exchange]:
        """The responses to requests with one of `faults`, in both ways."""
        return [each for each in self.refusals if each.sent.fault in faults]


def endpoint_missing(run: Exchange) -> bool:
    """Whether a valid request met no agent: no such path, a redirect or a web page."""
    if run.status is None:
        return False
    # With 5xx it is the page of a framework whose agent crashed, or of a gateway without one.
    page = run.is_web_page and run.status < 500
    return run.status in _NO_ENDPOINT or 300 <= run.status < 400 or page


def _random_letters() -> str:
    """Letters alone: of digits, nobody could tell that they came back in another case."""
    return "".join(secrets.choice(string.ascii_lowercase) for _ in range(32))


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
    canaries: tuple[str, ...] = field(
        default_factory=lambda: tuple(_random_letters() for _ in range(3))
    )
    canary_key: str = field(default_factory=lambda: f"Canary_Key_{_random_letters()}")

    async def observe(self, health: Exchange) -> AgentObservation:
        """Ask everything; `health` is the response to GET /health, which was asked before."""
        body = self._body()
        ready = await self.get("/health/ready")
        run = {"sync": await self._post("sync", body)}
        run["stream"] = await self._post("stream", self._body())
        after = await self._after(run["sync"], body) if run["sync"].reports_success else {}
        ways = [way for way in WAYS if not endpoint_missing(run[way])]
        return AgentObservation(
            task_type=self.task_type,
            canaries=self.canaries,
            canary_key=self.canary_key,
            limits=self.limits,
            health=health,
            ready=ready,
            run=run,
            refusals=tuple([each for way in ways for each in await self._refusals(way)]),
            **after,
        )

    async def get(self, path: str) -> Exchange:
        """GET a path of the agent."""
        sent = SentRequest("GET", self.base + path)
        return await record_exchange(self.http, sent, timeout=self.limits.sync_s)

    async def _after(self, run: Exchange, body: JsonObject) -> JsonObject:
        """What can be asked only of an agent that runs the task."""
        few = {"max_output_tokens": 1, "max_escalations": 0}
        return {
            "repeated": await self._post("sync", body),
            "reused": await self._post("sync", {**body, "domain_id": "assay-check-other"}),
            "short_time": await self._short_time(run.seconds),
            "few_tokens": await self._post("sync", self._body(budgets=few)),
        }

    async def _short_time(self, usual_s: float) -> Exchange | None:
        """The quickest response to a request with a tenth of the usual time as its budget.

        One late response may be due to a busy machine; an agent that ignores its budget is late
        each time. None if runs are too short for their budget to show.
        """
        if usual_s < 2 * self.limits.grace_s:
            return None
        tenth_ms = round(usual_s * 100)
        answers: list[Exchange] = []
        for _ in range(_LATE_ATTEMPTS):
            answer = await self._post("sync", self._body(budgets={"timeout_ms": tenth_ms}))
            answers.append(answer)
            late = answer.seconds > tenth_ms / 1000 + self.limits.grace_s
            if not late or answer.seconds > _MAX_REPEATED_S:
                break
        return min(answers, key=lambda each: each.seconds)

    async def _refusals(self, way: str) -> list[Exchange]:
        """The responses to requests that have one fault each, and secret text in their inputs."""
        begin, middle, end = self.canaries
        filler = " of the conformance check "
        # Values come at both ends of what a quotation keeps if it is cut: keys are short.
        secret = {"a": begin, "m": f"text{filler}{middle}{filler}", self.canary_key: "x", "z": end}
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
        return [*answers, await self._send(way, truncated, "broken JSON")]

    def _body(self, **changes: Any) -> JsonObject:
        return {
            "request_id": f"assay-check-{uuid.uuid4().hex}",
            "task_type": self.task_type,
            "inputs": self.inputs,
            **changes,
        }

    async def _post(self, way: str, body: Mapping[str, Any], fault: str = "") -> Exchange:
        return await self._send(way, orjson.dumps(body), fault)

    async def _send(self, way: str, content: bytes, fault: str) -> Exchange:
        """An agent that says it is busy is asked once more: that is no fault of its answers."""
        sent = SentRequest("POST", f"{self.base}/agents/run/{way}", content, fault)
        timeout = self.limits.sync_s if way == "sync" else self.limits.stream_s
        answer = await record_exchange(self.http, sent, timeout=timeout)
        pause = parse_retry_after(answer.retry_after)
        if answer.status in _OVERLOADED and pause is not None and pause <= _MAX_RETRY_AFTER_S:
            await asyncio.sleep(pause)
            answer = await record_exchange(self.http, sent, timeout=timeout)
        return answer

"""Asking an agent everything that the conformance checks need to know, and recording it.

Requests and checks are separate: a check is a function of an `AgentObservation`, so that one
exchange serves many checks and a check never waits for the network.
"""

import asyncio
import secrets
import string
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import orjson

from assay.contract.conformance.exchange import Exchange, SentRequest, record_exchange
from assay.contract.responses import success_of
from assay.net.json import JsonObject
from assay.net.retry import parse_retry_after

UNKNOWN_TASK = "ASSAY_CHECK_UNKNOWN_TASK"
WAYS = ("sync", "stream")

# What a server says where the contract's endpoint is not.
_NO_ENDPOINT = (404, 405, 410, 501)
_OVERLOADED = (429, 503)
_LONGEST_RETRY_AFTER_S = 5.0
# A longer run is not started again to see whether it ends with its client or with its budget.
_LONGEST_REPEATED_S = 5.0
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

    `grace_s` is what a run may take beyond its budget before that is called a fault; budgets and
    cancellation are judged on runs that take at least twice as long.
    """

    sync_s: float = 15.0
    first_event_s: float = 10.0
    stream_s: float = 30.0
    heartbeat_s: float = 15.0
    grace_s: float = 1.0


RefusedRequests = Mapping[str, Mapping[str, Exchange]]
"""Responses to requests that should not succeed: by way, then by what was wrong with them."""


@dataclass(frozen=True)
class AgentObservation:
    """The responses of one agent to everything it was asked.

    `canary` and `canary_key` are text that was sent in inputs and must not come back in an error.
    What is None was not asked, because no run succeeded that it could be compared with.
    """

    task_type: str
    canary: str
    canary_key: str
    limits: CheckLimits
    health: Exchange
    ready: Exchange
    run: Mapping[str, Exchange]
    repeated: Exchange | None = None
    reused: Exchange | None = None
    short_time: Exchange | None = None
    few_tokens: Exchange | None = None
    abandoned: Exchange | None = None
    refusals: RefusedRequests = field(default_factory=dict)

    def refused(self, way: str, fault: str) -> Exchange | None:
        """The response to a faulty request; None where there is no such endpoint."""
        return self.refusals.get(way, {}).get(fault)

    def errors(self) -> list[Exchange]:
        """The responses to requests that should not have succeeded, and did not."""
        answers = [each for group in self.refusals.values() for each in group.values()]
        return [each for each in answers if not reports_success(each)]


def reports_success(exchange: Exchange) -> bool:
    """Whether the response, sync or stream, says that the run succeeded."""
    if exchange.json is not None:
        return success_of(exchange.json) is True
    return any(success_of(data) is True for _, data in exchange.stream.objects)


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
    canary: str = field(default_factory=lambda: f"Canary-{_random_letters()}")
    canary_key: str = field(default_factory=lambda: f"Canary_Key_{_random_letters()}")

    async def observe(self, health: Exchange) -> AgentObservation:
        """Ask everything; `health` is the response to GET /health, which was asked before."""
        body = self._body()
        ready = await self.get("/health/ready")
        run = {"sync": await self._post("sync", body)}
        run["stream"] = await self._post("stream", self._body())
        after = await self._after(run, body) if reports_success(run["sync"]) else {}
        ways = [way for way in WAYS if not endpoint_missing(run[way])]
        return AgentObservation(
            task_type=self.task_type,
            canary=self.canary,
            canary_key=self.canary_key,
            limits=self.limits,
            health=health,
            ready=ready,
            run=run,
            refusals={way: await self._refusals(way) for way in ways},
            **after,
        )

    async def get(self, path: str) -> Exchange:
        """GET a path of the agent."""
        sent = SentRequest("GET", self.base + path)
        return await record_exchange(self.http, sent, timeout=self.limits.sync_s)

    async def _after(self, run: Mapping[str, Exchange], body: JsonObject) -> JsonObject:
        """What can be asked only of an agent that runs the task."""
        repeated = await self._post("sync", body)
        return {
            "repeated": repeated,
            "reused": await self._post("sync", {**body, "domain_id": "assay-check-other"}),
            "short_time": await self._short_time(run["sync"].seconds),
            "few_tokens": await self._post(
                "sync", self._body(budgets={"max_output_tokens": 1, "max_escalations": 0})
            ),
            "abandoned": await self._abandoned(run, repeated),
        }

    async def _short_time(self, usual_s: float) -> Exchange:
        """The quickest response to a request with a tenth of the usual time as its budget.

        One late response may be due to a busy machine; an agent that ignores its budget is late
        each time.
        """
        tenth_ms = max(1, round(usual_s * 100))
        answers: list[Exchange] = []
        for _ in range(_LATE_ATTEMPTS):
            answer = await self._post("sync", self._body(budgets={"timeout_ms": tenth_ms}))
            answers.append(answer)
            late = answer.seconds > tenth_ms / 1000 + self.limits.grace_s
            if not late or answer.seconds > _LONGEST_REPEATED_S:
                break
        return min(answers, key=lambda each: each.seconds)

    async def _abandoned(self, run: Mapping[str, Exchange], repeated: Exchange) -> Exchange | None:
        """Hang up on a stream, wait until the run would be over, and send the request again.

        A run that went on without its client is answered at once, from the agent's memory. None
        where that cannot be seen: the agent keeps no results, or a run is too short or too long.
        """
        usual = run["stream"].seconds
        remembers = reports_success(repeated) and repeated.seconds < run["sync"].seconds / 2
        in_range = 2 * self.limits.grace_s <= usual <= _LONGEST_REPEATED_S
        if not (remembers and in_range and reports_success(run["stream"])):
            return None
        body = self._body()
        await self._post("stream", body, leave_after_s=usual / 4)
        await asyncio.sleep(usual)
        again = await self._post("stream", body)
        return replace(again, sent=replace(again.sent, left_before_s=usual / 4))

    async def _refusals(self, way: str) -> dict[str, Exchange]:
        """By the name of the fault. Each request has that one only, and secret text in it."""
        inputs = {**self.inputs, **self._secret()}
        body = self._body(inputs=inputs)
        truncated = orjson.dumps(self._body(inputs=self._secret()))[:-2]
        bodies: dict[str, JsonObject] = {
            "unknown task": self._body(task_type=UNKNOWN_TASK, inputs=inputs),
            **{
                f"no {name}": {key: value for key, value in body.items() if key != name}
                for name in ("request_id", "task_type")
            },
            "empty request_id": {**body, "request_id": ""},
            "wrong type": self._body(inputs=self.canary),
            "no inputs": self._body(inputs=self._secret()),
        }
        answers = {name: await self._post(way, each) for name, each in bodies.items()}
        return {**answers, "broken JSON": await self._send(way, truncated, "")}

    def _secret(self) -> dict[str, str]:
        return {"assay_check_note": self.canary, self.canary_key: "x"}

    def _body(self, **changes: Any) -> JsonObject:
        return {
            "request_id": f"assay-check-{uuid.uuid4().hex}",
            "task_type": self.task_type,
            "inputs": self.inputs,
            **changes,
        }

    async def _post(
        self, way: str, body: Mapping[str, Any], leave_after_s: float | None = None
    ) -> Exchange:
        request_id = str(body.get("request_id", ""))
        return await self._send(way, orjson.dumps(body), request_id, leave_after_s)

    async def _send(
        self, way: str, content: bytes, request_id: str, leave_after_s: float | None = None
    ) -> Exchange:
        """An agent that says it is busy is asked once more: that is no fault of its answers."""
        sent = SentRequest("POST", f"{self.base}/agents/run/{way}", content)
        limit = self.limits.sync_s if way == "sync" else self.limits.stream_s
        timeout = limit if leave_after_s is None else leave_after_s
        answer = await record_exchange(self.http, sent, timeout=timeout, request_id=request_id)
        pause = parse_retry_after(answer.retry_after)
        if answer.status in _OVERLOADED and pause is not None and pause <= _LONGEST_RETRY_AFTER_S:
            await asyncio.sleep(pause)
            answer = await record_exchange(self.http, sent, timeout=timeout, request_id=request_id)
        return answer

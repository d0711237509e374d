"""Asking an agent everything that the conformance checks want to know, and writing it down.

Asking and judging are apart: a check is a function of an Observation, so that one exchange can
serve many checks and a check never waits for the network.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from assay.contract.calling.reading import success_of
from assay.contract.checking.exchange import Exchange, exchange
from assay.contract.envelope import to_json

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

"""The routes of one agent: its work behind the endpoints of the contract.

    app = agent_app(AgentService("rag-retrieve", "RAG_RETRIEVE", work))

Sync and stream run the same work and end in the same response. A request that is not accepted is
an HTTP error; a run that fails is HTTP 200 with status "error", in both ways of asking.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ExceptionHandler, Receive

from assay.contract.envelope import AgentRunRequest, ErrorCode, to_json
from assay.contract.server.requests import Accepted, Refused, refused, take_request, usable_id
from assay.contract.server.run_log import RunRecord, log_failure, log_run
from assay.contract.server.runs import Conflict, Execution, Outcome, ReplayLimits, RunStore, Work
from assay.contract.server.streaming import RunStream

_CLIENT_LEFT = 499  # sent to nobody; the number that proxies log for a client that went away


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """`run_s` bounds every run, also one whose caller set no `budgets.timeout_ms`; `body_s` is how
    long a request may take to come in, which would hold its connection for as long as it likes."""

    max_body_bytes: int = 1_000_000
    body_s: float = 30.0
    max_running: int = 256
    run_s: float = 300.0
    heartbeat_s: float = 10.0
    replay: ReplayLimits = field(default_factory=ReplayLimits)


@dataclass(frozen=True, slots=True)
class Readiness:
    """`details` are shown to anyone who asks: counts and names, no internal addresses."""

    ready: bool
    details: Mapping[str, str | int | bool] = field(default_factory=dict)


async def always_ready() -> Readiness:
    return Readiness(True)


@dataclass(frozen=True)
class AgentService:
    name: str
    task_type: str
    work: Work
    ready: Callable[[], Awaitable[Readiness]] = always_ready
    limits: ServingLimits = field(default_factory=ServingLimits)


def agent_app(service: AgentService) -> Starlette:
    return Starlette(routes=agent_routes(service), exception_handlers=EXCEPTION_HANDLERS)


def agent_routes(service: AgentService) -> list[BaseRoute]:
    """For an application of their own, or for a Mount where several agents share a process."""
    endpoints = _Endpoints(service)
    return [
        Route("/agents/run/sync", endpoints.sync, methods=["POST"]),
        Route("/agents/run/stream", endpoints.stream, methods=["POST"]),
        Route("/health", endpoints.health),
        Route("/health/ready", endpoints.ready),
    ]


async def _no_such_endpoint(http: Request, error: Exception) -> Response:
    """Another path, or another method than POST, in the shape of every other refusal."""
    assert isinstance(error, HTTPException)
    given = usable_id(http.headers.get("x-request-id")) or uuid.uuid4().hex
    message = "an agent takes POST /agents/run/sync, POST /agents/run/stream and GET /health"
    refusal = refused(error.status_code, ErrorCode.VALIDATION_ERROR, message, given)
    body = to_json(refusal.response.to_wire())
    return Response(body, error.status_code, error.headers, "application/json")


EXCEPTION_HANDLERS: Mapping[Any, ExceptionHandler] = {HTTPException: _no_such_endpoint}
"""For an application that has `agent_routes`."""


class _Endpoints:
    def __init__(self, service: AgentService) -> None:
        self._service = service
        self._limits = service.limits
        self._runs = RunStore(service.limits.replay)

    async def sync(self, http: Request) -> Response:
        started = time.perf_counter()
        try:
            accepted = await self._take(http)
            outcome = await _outcome(self._join_or_start(accepted), http.receive)
        except Refused as refusal:
            return self._refuse(refusal, "sync", started)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_LEFT)
        if outcome is None:
            self._log(accepted, "sync", started, "cancelled", 0)
            return Response(status_code=_CLIENT_LEFT)
        self._log(accepted, "sync", started, outcome.status, len(outcome.body))
        return Response(outcome.body, media_type="application/json")

    async def stream(self, http: Request) -> Response | RunStream:
        started = time.perf_counter()
        try:
            accepted = await self._take(http)
            run = self._join_or_start(accepted)
        except Refused as refusal:
            return self._refuse(refusal, "stream", started)
        except ClientDisconnect:
            return Response(status_code=_CLIENT_LEFT)
        return RunStream(
            accepted.request,
            run,
            heartbeat_s=self._limits.heartbeat_s,
            ended=partial(self._log, accepted, "stream", started),
        )

    async def health(self, _http: Request) -> Response:
        return JSONResponse({"status": "ok", "service": self._service.name})

    async def ready(self, _http: Request) -> Response:
        try:
            readiness = await self._service.ready()
        except Exception as error:
            log_failure("health/ready", self._service.task_type, error)
            readiness = Readiness(False)
        body = {
            **readiness.details,
            "status": "ready" if readiness.ready else "degraded",
            "service": self._service.name,
        }
        return JSONResponse(body, status_code=200 if readiness.ready else 503)

    async def _take(self, http: Request) -> Accepted:
        limits = self._limits
        return await take_request(
            http, self._service.task_type, limits.max_body_bytes, limits.body_s
        )

    def _join_or_start(self, accepted: Accepted) -> Execution | Outcome:
        request = accepted.request
        try:
            known = self._runs.find(request.request_id, accepted.fingerprint)
        except Conflict:
            message = "request_id was already used with another body; give each request its own"
            raise refused(409, ErrorCode.VALIDATION_ERROR, message, request.request_id) from None
        if known is not None:
            return known
        if self._runs.running >= self._limits.max_running:
            message = f"{self._limits.max_running} runs are under way; try again later"
            raise refused(503, ErrorCode.OVERLOADED, message, request.request_id, retry_after_s=1)
        execution = Execution(request, self._service.work, self._time_for(request))
        self._runs.add(execution, accepted.fingerprint)
        return execution

    def _time_for(self, request: AgentRunRequest) -> float:
        asked_ms = request.budgets.timeout_ms
        return self._limits.run_s if asked_ms is None else min(asked_ms / 1000, self._limits.run_s)

    def _refuse(self, refusal: Refused, way: str, started: float) -> Response:
        body = to_json(refusal.response.to_wire())
        record = RunRecord(
            request_id=refusal.response.request_id,
            task_type=self._service.task_type,
            way=way,
            status="refused",
            http_status=refusal.http_status,
            duration_ms=_milliseconds_since(started),
            bytes_in=0,
            bytes_out=len(body),
        )
        log_run(record)
        return Response(body, refusal.http_status, refusal.headers, "application/json")

    def _log(
        self, accepted: Accepted, way: str, started: float, status: str, bytes_out: int
    ) -> None:
        record = RunRecord(
            request_id=accepted.request.request_id,
            task_type=self._service.task_type,
            way=way,
            status=status,
            http_status=200,
            duration_ms=_milliseconds_since(started),
            bytes_in=accepted.size,
            bytes_out=bytes_out,
        )
        log_run(record)


async def _outcome(run: Execution | Outcome, receive: Receive) -> Outcome | None:
    """Wait for the run, but no longer than the client does; None when it has left."""
    if isinstance(run, Outcome):
        return run
    with run.watch():
        gone = asyncio.create_task(_disconnected(receive))
        try:
            await asyncio.wait({run.task, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        return run.task.result() if run.task.done() else None


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _milliseconds_since(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)

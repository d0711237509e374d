"""The routes of one agent: its work behind the endpoints of the contract.

    app = agent_app(AgentService("rag-retrieve", "RAG_RETRIEVE", work))

Sync and stream run the same work and end in the same response. A request that is not accepted is
an HTTP error; a run that fails is HTTP 200 with status "error", sync or streamed.

The request log in front of the app (`assay.serve.request_log`) writes one line for each request.
The app puts the `request_id` of the run into the `state` of the ASGI scope and, as `log_fields`,
the task and how the run ended.
"""

import asyncio
import hashlib
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import orjson
from pydantic import TypeAdapter, ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ExceptionHandler, Receive, Scope, Send

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    Identifier,
    error_response,
    validation_error_response,
)
from assay.contract.openapi import agent_operations, openapi_route
from assay.contract.server.health import (
    Readiness,
    always_ready,
    health_response,
    ready_response,
)
from assay.contract.server.runs import (
    Execution,
    ReplayLimits,
    RequestIdConflict,
    RunResult,
    RunStore,
    Watch,
    Work,
)
from assay.net.json import JsonObject, is_too_deep
from assay.net.request_body import REQUEST_TIMEOUT, BodyRejected, LimitedBody
from assay.net.sse import format_event
from assay.privacy import log_exception

_logger = logging.getLogger(__name__)

# How long a server that shuts down waits until the terminal events of open streams are sent.
_SHUTDOWN_GRACE_S = 2.0


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


# The library's debug messages quote what is sent. A filter, unlike a level, still holds when
# debug logging is turned on for everything.
logging.getLogger("sse_starlette.sse").addFilter(_above_debug)


_identifier = TypeAdapter(Identifier)


# --- from the bytes of a request to what the agent will run, or a rejection -----------------------


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A valid request, and the fingerprint of its body."""

    request: AgentRunRequest
    fingerprint: bytes


class RequestRejected(Exception):
    """The request is not run; `response` is what its sender gets."""

    def __init__(
        self, http_status: int, response: AgentRunResponse, *, retry_after_s: int | None = None
    ) -> None:
        super().__init__(http_status)
        self.http_status = http_status
        self.response = response
        self.headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        if http_status == REQUEST_TIMEOUT:
            self.headers["Connection"] = "close"  # the rest of the body is still to come


def rejected(
    http_status: int,
    code: ErrorCode,
    message: str,
    request_id: str,
    *,
    details: JsonObject | None = None,
    retry_after_s: int | None = None,
) -> RequestRejected:
    """A rejection without `task_type`, which would repeat the caller's text."""
    response = error_response(code, message, request_id=request_id, details=details)
    return RequestRejected(http_status, response, retry_after_s=retry_after_s)


def assign_request_id(http: Request, given: object = None) -> str:
    """Set the id under which the request is answered and logged: `scope["state"]["request_id"]`.

    It is `given` (from the body) where that is usable, else the one that the request log has
    assigned, else the header `X-Request-ID`, else a new one.
    """
    request_id = (
        _usable_id(given)
        or getattr(http.state, "request_id", None)
        or _usable_id(http.headers.get("x-request-id"))
        or uuid.uuid4().hex
    )
    http.state.request_id = request_id
    return request_id


async def accept_request(
    http: Request, task_type: str, max_bytes: int, timeout_s: float
) -> AcceptedRequest:
    """Read and validate a request for `task_type`. Raises `RequestRejected`."""
    request_id = assign_request_id(http)
    limited = LimitedBody(http.receive, max_bytes, timeout_s)
    try:
        body = await Request(http.scope, limited.receive).body()
    except BodyRejected as error:
        code = ErrorCode.VALIDATION_ERROR
        raise rejected(error.status, code, error.message, request_id) from None
    value = _parse(body, request_id)
    if isinstance(value, dict):
        request_id = assign_request_id(http, value.get("request_id"))
    request = _validate(value, request_id)
    if request.task_type != task_type:
        raise rejected(
            400,
            ErrorCode.UNSUPPORTED_TASK_TYPE,
            f"this agent supports only {task_type}",
            request_id,
            details={"supported": [task_type]},
        )
    if is_too_deep(value, body):
        message = "the body is nested too deeply"
        raise rejected(422, ErrorCode.VALIDATION_ERROR, message, request_id)
    return AcceptedRequest(request, _fingerprint(value))


def _parse(body: bytes, request_id: str) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass  # left before raising: the exception holds the whole document
    raise rejected(400, ErrorCode.VALIDATION_ERROR, "the body is not valid JSON", request_id)


def _validate(value: Any, request_id: str) -> AgentRunRequest:
    try:
        return AgentRunRequest.model_validate(value)
    except ValidationError as error:
        response = validation_error_response(error, AgentRunRequest, request_id=request_id)
    raise RequestRejected(422, response)


def _usable_id(request_id: object) -> str | None:
    try:
        return _identifier.validate_python(request_id, strict=True)
    except ValidationError:
        return None


def _fingerprint(value: Any) -> bytes:
    """The order of keys and the spacing of the JSON do not make another request."""
    return hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).digest()


# --- responses ------------------------------------------------------------------------------------


class RunStream:
    """The ASGI response to one streaming request.

    Parameters:
        request: what is run.
        run: the run in progress, or its result where that is already known.
        heartbeat_s: seconds between comments, so that no proxy takes the stream for dead.
        on_end: called with the status of the run, or "cancelled" when the client disconnected
            before the end: its connection closing is what cancels the run.
    """

    def __init__(
        self,
        request: AgentRunRequest,
        run: Execution | RunResult,
        *,
        heartbeat_s: float,
        on_end: Callable[[str], None],
    ) -> None:
        self._request = request
        self._run = run
        self._heartbeat_s = heartbeat_s
        self._on_end = on_end
        self._status = "cancelled"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if isinstance(self._run, RunResult):
                await self._respond(self._replay(self._run), anyio.Event())(scope, receive, send)
            else:
                await self._respond_live(self._run, scope, receive, send)
        finally:
            self._on_end(self._status)

    async def _respond_live(
        self, run: Execution, scope: Scope, receive: Receive, send: Send
    ) -> None:
        stopping = anyio.Event()
        with run.watch() as watch:
            stopper = asyncio.create_task(_stop_when(stopping, run))
            try:
                await self._respond(self._follow(run, watch), stopping)(scope, receive, send)
            finally:
                stopper.cancel()

    def _respond(self, events: AsyncIterator[bytes], stopping: anyio.Event) -> EventSourceResponse:
        return EventSourceResponse(
            events,
            sep="\n",
            ping=self._heartbeat_s,
            ping_message_factory=lambda: ServerSentEvent(comment="heartbeat", sep="\n"),
            shutdown_event=stopping,
            shutdown_grace_period=_SHUTDOWN_GRACE_S,
        )

    async def _follow(self, run: Execution, watch: Watch) -> AsyncIterator[bytes]:
        yield self._started()
        async for progress in watch.progress():
            yield _event("progress", {**progress, "request_id": self._request.request_id})
        yield self._final(run.task.result())

    async def _replay(self, result: RunResult) -> AsyncIterator[bytes]:
        yield self._started()
        yield self._final(result)

    def _started(self) -> bytes:
        request = self._request
        return _event("started", {"request_id": request.request_id, "task_type": request.task_type})

    def _final(self, result: RunResult) -> bytes:
        self._status = result.status
        return _event("final", orjson.loads(result.body))


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return format_event(name, data).encode()


async def _stop_when(stopping: anyio.Event, run: Execution) -> None:
    await stopping.wait()
    run.stop()


_CLIENT_DISCONNECTED = 499  # the client is gone; proxies log this status for such requests


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """What one agent accepts.

    Parameters:
        max_body_bytes: the largest request body.
        body_timeout_s: how long a body may take to arrive; it occupies its connection until then.
        max_running: runs at the same time; further requests get 503.
        run_timeout_s: bounds every run, also one whose caller set no `budgets.timeout_ms`.
        heartbeat_s: seconds between the comments in a stream.
        replay: which results are kept for repeated requests.
    """

    max_body_bytes: int = 1_000_000
    body_timeout_s: float = 30.0
    max_running: int = 256
    run_timeout_s: float = 300.0
    heartbeat_s: float = 10.0
    replay: ReplayLimits = field(default_factory=ReplayLimits)


@dataclass(frozen=True)
class AgentService:
    """One agent: its name in /health, the task that it does, and the work."""

    name: str
    task_type: str
    work: Work
    ready: Callable[[], Awaitable[Readiness]] = always_ready
    limits: ServingLimits = field(default_factory=ServingLimits)


def agent_app(service: AgentService) -> Starlette:
    """The agent as an application of its own."""
    return Starlette(routes=agent_routes(service), exception_handlers=EXCEPTION_HANDLERS)


def agent_routes(service: AgentService) -> list[BaseRoute]:
    """For an application of their own, or for a Mount where several agents share a process."""
    endpoints = _Endpoints(service)
    return [
        Route("/agents/run/sync", endpoints.sync, methods=["POST"]),
        Route("/agents/run/stream", endpoints.stream, methods=["POST"]),
        Route("/health", endpoints.health),
        Route("/health/ready", endpoints.ready),
        openapi_route(service.name, agent_operations(service.task_type)),
    ]


async def _no_such_endpoint(http: Request, error: Exception) -> Response:
    """Another path, or another method than POST, in the shape of every other rejection."""
    assert isinstance(error, HTTPException)
    message = "an agent serves POST /agents/run/sync, POST /agents/run/stream and GET /health"
    request_id = assign_request_id(http)
    rejection = rejected(error.status_code, ErrorCode.VALIDATION_ERROR, message, request_id)
    rejection.headers |= error.headers or {}
    return _rejection_response(rejection)


EXCEPTION_HANDLERS: Mapping[Any, ExceptionHandler] = {HTTPException: _no_such_endpoint}
"""For an application that has `agent_routes`."""


class _Endpoints:
    def __init__(self, service: AgentService) -> None:
        self._service = service
        self._limits = service.limits
        self._runs = RunStore(service.limits.replay)

    async def sync(self, http: Request) -> Response:
        """POST /agents/run/sync"""
        try:
            accepted = await self._read(http)
            result = await _wait_for(self._join_or_start(accepted), http.receive)
        except RequestRejected as rejection:
            self._log(http, "rejected")
            return _rejection_response(rejection)
        except ClientDisconnect:
            result = None
        if result is None:
            self._log(http, "cancelled")
            return Response(status_code=_CLIENT_DISCONNECTED)
        self._log(http, result.status)
        return Response(result.body, media_type="application/json")

    async def stream(self, http: Request) -> Response | RunStream:
        """POST /agents/run/stream"""
        try:
            accepted = await self._read(http)
            run = self._join_or_start(accepted)
        except RequestRejected as rejection:
            self._log(http, "rejected")
            return _rejection_response(rejection)
        except ClientDisconnect:
            self._log(http, "cancelled")
            return Response(status_code=_CLIENT_DISCONNECTED)
        return RunStream(
            accepted.request,
            run,
            heartbeat_s=self._limits.heartbeat_s,
            on_end=partial(self._log, http),
        )

    async def health(self, _http: Request) -> Response:
        """GET /health"""
        return health_response(self._service.name)

    async def ready(self, _http: Request) -> Response:
        """GET /health/ready"""
        try:
            readiness = await self._service.ready()
        except Exception as error:
            log_exception(
                _logger, "readiness check failed", error, task_type=self._service.task_type
            )
            readiness = Readiness(False)
        return ready_response(self._service.name, readiness)

    async def _read(self, http: Request) -> AcceptedRequest:
        limits = self._limits
        return await accept_request(
            http, self._service.task_type, limits.max_body_bytes, limits.body_timeout_s
        )

    def _join_or_start(self, accepted: AcceptedRequest) -> Execution | RunResult:
        request = accepted.request
        try:
            known = self._runs.find(request.request_id, accepted.fingerprint)
        except RequestIdConflict:
            message = "request_id was already used with another body; use a new id for each request"
            raise rejected(409, ErrorCode.VALIDATION_ERROR, message, request.request_id) from None
        if known is not None:
            return known
        if self._runs.running >= self._limits.max_running:
            message = f"{self._limits.max_running} runs are in progress; try again later"
            raise rejected(503, ErrorCode.OVERLOADED, message, request.request_id, retry_after_s=1)
        execution = Execution(request, self._service.work, self._timeout_for(request))
        self._runs.add(execution, accepted.fingerprint)
        return execution

    def _timeout_for(self, request: AgentRunRequest) -> float:
        asked_ms, most = request.budgets.timeout_ms, self._limits.run_timeout_s
        return most if asked_ms is None else min(asked_ms / 1000, most)

    def _log(self, http: Request, run_status: str) -> None:
        """`task_type` is the agent's own: the caller's may be any text."""
        http.state.log_fields = {
            "task_type": self._service.task_type,
            "run_status": run_status,
        }


def _rejection_response(rejection: RequestRejected) -> Response:
    body = orjson.dumps(rejection.response.to_wire())
    return Response(body, rejection.http_status, rejection.headers, "application/json")


async def _wait_for(run: Execution | RunResult, receive: Receive) -> RunResult | None:
    """The result, or None when the client disconnects before there is one."""
    if isinstance(run, RunResult):
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

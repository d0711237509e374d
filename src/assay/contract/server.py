"""The server of the contract: any agent's work behind its endpoints. It needs no other layer.

    app = agent_app(AgentService("rag-retrieve", "RAG_RETRIEVE", work))

Sync and stream run the same work and end in the same response. A request that is not accepted is
an HTTP error; a run that fails is HTTP 200 with status "error", sync or streamed.

The request log in front of the app (`assay.serve.request_log`) writes one line for each request.
The app puts the `request_id` of the run into the `state` of the ASGI scope and, as `log_fields`,
the task and how the run ended.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import orjson
from pydantic import TypeAdapter, ValidationError
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, ExceptionHandler, Receive, Scope, Send

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    Identifier,
    TaskError,
    error_response,
    validate_fields,
)
from assay.net.http import REQUEST_TIMEOUT, BodyRejected, LimitedBody
from assay.net.json import JsonObject, is_too_deep
from assay.net.sse import format_event
from assay.privacy import log_exception

MAX_QUEUED_PROGRESS = 1000

# How long a server that shuts down waits until the terminal events of open streams are sent.
_SHUTDOWN_GRACE_S = 2.0
_CLIENT_DISCONNECTED = 499  # the client is gone; proxies log this status for such requests

_logger = logging.getLogger(__name__)
_identifier = TypeAdapter(Identifier)


# The library's debug messages quote what is sent. A filter, unlike a level, still holds when
# debug logging is turned on for everything.
logging.getLogger("sse_starlette.sse").addFilter(lambda record: record.levelno > logging.DEBUG)


class ReportProgress(Protocol):
    """Reports a step that was done, e.g. `report("candidates found", percent=40, candidates=120)`.

    It may be called from any thread. Callers of the agent see it: no input text in `step`.
    """

    def __call__(self, step: str, *, percent: float | None = None, **counts: int) -> None: ...


# What an agent does for one request. `TaskError` ends it with a chosen error.
Work = Callable[[AgentRunRequest, ReportProgress], Awaitable[AgentRunResponse]]


@dataclass(frozen=True, slots=True)
class Readiness:
    """`details` are shown to everyone: counts and names, no internal addresses."""

    ready: bool
    details: Mapping[str, object] = field(default_factory=dict)


def health_response(service: str) -> JSONResponse:
    """To `GET /health`: the process is there."""
    return JSONResponse({"status": "ok", "service": service})


def ready_response(service: str, readiness: Readiness) -> JSONResponse:
    """To `GET /health/ready`: 200 if requests are answered, else 503; no detail hides that."""
    state = {"status": "ready" if readiness.ready else "degraded", "service": service}
    body = {**state, **readiness.details, **state}
    return JSONResponse(body, status_code=200 if readiness.ready else 503)


class Execution:
    """One run of an agent's work for one caller. It starts at once; `task` returns the status and
    the response as the bytes that go over the wire, also if the work fails or takes longer than
    `timeout_s`.
    """

    def __init__(self, request: AgentRunRequest, work: Work, timeout_s: float) -> None:
        self.request = request
        self._timeout_s = timeout_s
        self._stopping = False
        self._steps: asyncio.Queue[JsonObject | None] = asyncio.Queue(MAX_QUEUED_PROGRESS)
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Task[tuple[str, bytes]] = self._loop.create_task(self._run(work))
        self.task.add_done_callback(lambda _task: self._publish(None))

    async def progress(self) -> AsyncIterator[JsonObject]:
        """Each reported step, until the run has ended."""
        while (step := await self._steps.get()) is not None:
            yield step

    async def stop_when(self, stopping: anyio.Event) -> None:
        """End the run with an error that its caller gets, when the server shuts down."""
        await stopping.wait()
        self._stopping = True
        self.task.cancel()

    def _report(self, step: str, *, percent: float | None = None, **counts: int) -> None:
        known = {} if percent is None else {"percent": percent}
        self._loop.call_soon_threadsafe(self._publish, {"step": step, **counts, **known})

    def _publish(self, step: JsonObject | None) -> None:
        if self._steps.full():  # a slow reader misses the oldest progress
            self._steps.get_nowait()
        self._steps.put_nowait(step)

    async def _run(self, work: Work) -> tuple[str, bytes]:
        started = time.perf_counter()
        limit = asyncio.timeout(self._timeout_s)
        try:
            async with limit:
                response = await work(self.request, self._report)
            return self._result(response, started)
        except asyncio.CancelledError:
            if not self._stopping:
                raise  # the caller has gone: nobody is left to answer
            failure = TaskError(ErrorCode.TASK_FAILED, "the agent is shutting down")
        except TaskError as error:
            failure = error
        except Exception as error:
            if limit.expired():
                message = f"the run took longer than its budget of {self._timeout_s * 1000:.0f} ms"
                failure = TaskError(ErrorCode.BUDGET_EXCEEDED, message)
            else:
                ids = {"request_id": self.request.request_id, "task_type": self.request.task_type}
                log_exception(_logger, "work failed", error, **ids)
                message = "the task failed; the agent's log has the cause under this request id"
                failure = TaskError(ErrorCode.TASK_FAILED, message)
        response = error_response(failure, request_id=self.request.request_id)
        return self._result(response, started)

    def _result(self, response: AgentRunResponse, started: float) -> tuple[str, bytes]:
        """The echoed ids and the duration are always set here, not by the work."""
        usage = response.usage
        if usage.duration_ms is None:
            duration_ms = round((time.perf_counter() - started) * 1000)
            usage = usage.model_copy(update={"duration_ms": duration_ms})
        update: JsonObject = {
            "request_id": self.request.request_id,
            "task_type": self.request.task_type,
            "usage": usage,
            "outputs": response.outputs if response.ok else {},
        }
        wire = response.model_copy(update=update).to_wire()
        return response.status, orjson.dumps(wire)


class RequestRejected(Exception):
    """The request is not run; `response` is what its sender gets."""

    def __init__(self, status: int, reason: TaskError, request_id: str) -> None:
        super().__init__(status)
        # Without a task_type, which would repeat the caller's text.
        body = orjson.dumps(error_response(reason, request_id=request_id).to_wire())
        self.response = Response(body, status, media_type="application/json")
        if status == REQUEST_TIMEOUT:
            self.response.headers["Connection"] = "close"  # the rest of the body is still to come


def assign_request_id(http: Request, given: object = None) -> str:
    """Set the id under which the request is answered and logged: `scope["state"]["request_id"]`.

    It is `given` (from the body) if that is usable, else the one that the request log has
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


def _usable_id(request_id: object) -> str | None:
    try:
        return _identifier.validate_python(request_id, strict=True)
    except ValidationError:
        return None


async def accept_request(
    http: Request, task_type: str, max_bytes: int, timeout_s: float
) -> AgentRunRequest:
    """Read and validate a request for `task_type`. Raises `RequestRejected`."""
    request_id = assign_request_id(http)

    def rejected(status: int, message: str) -> RequestRejected:
        error = TaskError(ErrorCode.VALIDATION_ERROR, message)
        return RequestRejected(status, error, request_id)

    limited = LimitedBody(http.receive, max_bytes, timeout_s)
    try:
        body = await Request(http.scope, limited.receive).body()
    except BodyRejected as error:
        raise rejected(error.status, error.message) from None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = ...  # left before raising: the exception holds the whole document
    if value is ...:
        raise rejected(400, "the body is not valid JSON")
    if isinstance(value, dict):
        request_id = assign_request_id(http, value.get("request_id"))
    try:
        request = validate_fields(AgentRunRequest, value)
    except TaskError as error:
        raise RequestRejected(422, error, request_id) from None
    if request.task_type != task_type:
        code, details = ErrorCode.UNSUPPORTED_TASK_TYPE, {"supported": [task_type]}
        wrong = TaskError(code, f"this agent supports only {task_type}", details=details)
        raise RequestRejected(400, wrong, request_id)
    if is_too_deep(value, body):
        raise rejected(422, "the body is nested too deeply")
    return request


@dataclass(frozen=True, slots=True)
class ServingLimits:
    """What one agent accepts."""

    max_body_bytes: int = 1_000_000
    # A body occupies its connection until it has arrived.
    body_timeout_s: float = 30.0
    # Further requests get 503.
    max_running: int = 256
    # Of every run, also one whose caller set no `budgets.timeout_ms`.
    run_timeout_s: float = 300.0
    heartbeat_s: float = 10.0


@dataclass(frozen=True)
class AgentService:
    """One agent: its name in /health, the task that it does, and the work."""

    name: str
    task_type: str
    work: Work
    ready: Callable[[], Awaitable[Readiness]] | None = None
    limits: ServingLimits = field(default_factory=ServingLimits)


def agent_app(service: AgentService) -> Starlette:
    """The application of one agent."""
    return Starlette(routes=agent_routes(service), exception_handlers=EXCEPTION_HANDLERS)


def agent_routes(service: AgentService) -> list[BaseRoute]:
    """The routes of one agent; put them into a Mount if several agents share a process."""
    endpoints = _Endpoints(service)
    return [
        Route("/agents/run/sync", endpoints.sync, methods=["POST"]),
        Route("/agents/run/stream", endpoints.stream, methods=["POST"]),
        Route("/health", endpoints.health),
        Route("/health/ready", endpoints.ready),
    ]


async def _no_such_endpoint(http: Request, error: Exception) -> Response:
    """Another path, or another method than POST, in the shape of every other rejection."""
    assert isinstance(error, HTTPException)
    message = "an agent serves POST /agents/run/sync, POST /agents/run/stream and GET /health"
    reason = TaskError(ErrorCode.VALIDATION_ERROR, message)
    rejection = RequestRejected(error.status_code, reason, assign_request_id(http))
    rejection.response.headers.update(error.headers or {})
    return rejection.response


# For an application that has `agent_routes`.
EXCEPTION_HANDLERS: Mapping[Any, ExceptionHandler] = {HTTPException: _no_such_endpoint}


class _Endpoints:
    def __init__(self, service: AgentService) -> None:
        self._service = service
        self._running: set[asyncio.Task[tuple[str, bytes]]] = set()

    async def sync(self, http: Request) -> Response:
        """POST /agents/run/sync"""
        run = await self._start(http)
        if isinstance(run, Response):
            return run
        # A client that leaves cancels no handler: without this, its run would go on for nobody.
        gone = asyncio.create_task(_disconnected(http.receive))
        try:
            await asyncio.wait({run.task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not run.task.done():
                return self._client_gone(http)
        finally:
            gone.cancel()
            run.task.cancel()
        status, body = run.task.result()
        self._log(http, status)
        return Response(body, media_type="application/json")

    async def stream(self, http: Request) -> Response | ASGIApp:
        """POST /agents/run/stream. The run is canceled when the client disconnects."""
        run = await self._start(http)
        if isinstance(run, Response):
            return run
        status = "cancelled"

        async def events() -> AsyncIterator[bytes]:
            nonlocal status
            named = {"request_id": run.request.request_id}
            started = {**named, "task_type": run.request.task_type}
            yield format_event("started", started).encode()
            async for progress in run.progress():
                yield format_event("progress", progress | named).encode()
            status, body = run.task.result()
            yield format_event("final", orjson.loads(body)).encode()

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            stopping = anyio.Event()
            response = EventSourceResponse(
                events(),
                sep="\n",
                ping=self._service.limits.heartbeat_s,
                ping_message_factory=lambda: ServerSentEvent(comment="heartbeat", sep="\n"),
                shutdown_event=stopping,
                shutdown_grace_period=_SHUTDOWN_GRACE_S,
            )
            stopper = asyncio.create_task(run.stop_when(stopping))
            try:
                await response(scope, receive, send)
            finally:
                stopper.cancel()
                run.task.cancel()
                self._log(http, status)

        return respond

    async def health(self, _http: Request) -> Response:
        """GET /health"""
        return health_response(self._service.name)

    async def ready(self, _http: Request) -> Response:
        """GET /health/ready"""
        readiness = Readiness(True)
        if self._service.ready is not None:
            try:
                readiness = await self._service.ready()
            except Exception as error:
                task_type = self._service.task_type
                log_exception(_logger, "readiness check failed", error, task_type=task_type)
                readiness = Readiness(False)
        return ready_response(self._service.name, readiness)

    async def _start(self, http: Request) -> Execution | Response:
        """The run of a valid request, or the response to one that is not run."""
        limits = self._service.limits
        try:
            request = await accept_request(
                http, self._service.task_type, limits.max_body_bytes, limits.body_timeout_s
            )
            if len(self._running) >= limits.max_running:
                message = f"{limits.max_running} runs are in progress; try again later"
                reason = TaskError(ErrorCode.OVERLOADED, message)
                busy = RequestRejected(503, reason, request.request_id)
                busy.response.headers["Retry-After"] = "1"
                raise busy
        except RequestRejected as rejection:
            self._log(http, "rejected")
            return rejection.response
        except ClientDisconnect:
            return self._client_gone(http)
        asked_ms, timeout_s = request.budgets.timeout_ms, limits.run_timeout_s
        if asked_ms is not None:
            timeout_s = min(asked_ms / 1000, timeout_s)
        run = Execution(request, self._service.work, timeout_s)
        self._running.add(run.task)
        run.task.add_done_callback(self._running.discard)
        return run

    def _client_gone(self, http: Request) -> Response:
        self._log(http, "cancelled")
        return Response(status_code=_CLIENT_DISCONNECTED)

    def _log(self, http: Request, run_status: str) -> None:
        """`task_type` is the agent's own: the caller's may be any text."""
        http.state.log_fields = {"task_type": self._service.task_type, "run_status": run_status}


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass

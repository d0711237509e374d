"""Evaluations over plain REST: `POST /tasks` with an EvalRequest, then get, follow or cancel it.

curl -X POST localhost:9009/tasks -d '{"participants": {...}, "config": {...}}'
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import orjson
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from assay.contract.openapi import (
    ERROR_SHAPE,
    EVENTS_TYPE,
    Operation,
    ResponseDoc,
    health_operations,
    openapi_route,
)
from assay.net.json import JsonObject, parse_json
from assay.serve.a2a.app import STREAM_GRACE_S
from assay.serve.a2a.tasks import ServerUnavailable, TaskRefused
from assay.serve.green.jobs import (
    RETRY_AFTER_S,
    EvaluationJob,
    EvaluationService,
    QueueFull,
)
from assay.serve.green.request import EvalRequest
from assay.serve.green.task_files import JobState, RecalledJob

AnyJob = EvaluationJob | RecalledJob
"""An evaluation of this process, or of an earlier one."""

EVENTS_S = 2.0
_PING_S = 15

_VIEW: JsonObject = {
    "type": "object",
    "required": ["id", "state", "message"],
    "properties": {
        "id": {"type": "string"},
        "state": {"enum": [str(state) for state in JobState]},
        "message": {"type": "string"},
    },
}
_TASK = ResponseDoc("The evaluation.", _VIEW)
_UNKNOWN = ResponseDoc("There is no such task, or no longer.", ERROR_SHAPE)
OPERATIONS = (
    Operation(
        "POST",
        "/tasks",
        "Start an evaluation",
        {
            202: ResponseDoc("It is queued.", _VIEW),
            413: ResponseDoc("The body is too large.", ERROR_SHAPE),
            422: ResponseDoc("Not JSON, or a field is missing or wrong.", ERROR_SHAPE),
            429: ResponseDoc("Too many evaluations are in progress.", ERROR_SHAPE),
            503: ResponseDoc("The data set cannot be loaded.", ERROR_SHAPE),
        },
        EvalRequest,
    ),
    Operation(
        "GET", "/tasks/{id}", "State, and the report", {200: _TASK, 404: _UNKNOWN}, None, ("id",)
    ),
    Operation(
        "DELETE", "/tasks/{id}", "Cancel, keep answers", {200: _TASK, 404: _UNKNOWN}, None, ("id",)
    ),
    Operation(
        "GET",
        "/tasks/{id}/events",
        "Follow an evaluation",
        {200: ResponseDoc("status events, then one final.", None, EVENTS_TYPE), 404: _UNKNOWN},
        None,
        ("id",),
    ),
    *health_operations(),
)
"""What `/openapi.json` describes."""


def task_routes(service: EvaluationService) -> list[BaseRoute]:
    """`/tasks` and what is below it."""

    async def start(request: Request) -> Response:
        try:
            job = await service.submit(_object(await request.body()))
        except QueueFull as refusal:
            return _error(429, str(refusal), {"Retry-After": str(RETRY_AFTER_S)})
        except ServerUnavailable as refusal:
            return _error(503, str(refusal))
        except TaskRefused as refusal:
            return _error(422, str(refusal))
        return _json(_view(job), 202, {"Location": f"/tasks/{job.id}"})

    async def show(request: Request) -> Response:
        job = await _find(service, request)
        report = report_of(job)
        return _json(_view(job) | ({"report": report} if report else {}))

    async def follow(request: Request) -> Response:
        events = _events(await _find(service, request))
        return EventSourceResponse(
            events, sep="\n", ping=_PING_S, shutdown_grace_period=STREAM_GRACE_S
        )

    async def end(request: Request) -> Response:
        job = await _find(service, request)
        job.cancel()
        async for _ in job.updates(EVENTS_S):
            pass
        return _json(_view(job))

    return [
        Route("/tasks", start, methods=["POST"]),
        Route("/tasks/{id}", show, methods=["GET"]),
        Route("/tasks/{id}", end, methods=["DELETE"]),
        Route("/tasks/{id}/events", follow, methods=["GET"]),
        openapi_route("Assay evaluator, evaluations over REST", OPERATIONS),
    ]


def report_of(job: AnyJob) -> JsonObject | None:
    """The report of the run, with warnings about the request and the agent."""
    if job.folder is None or not job.state.is_final or not job.folder.report_file.exists():
        return None
    return job.folder.read_json() | {"run": job.folder.name, "warnings": list(job.warnings())}


async def _events(job: AnyJob) -> AsyncIterator[dict[str, str]]:
    """`status` while it runs, then one `final` with the report. Leaving cancels nothing."""
    async for state in job.updates(EVENTS_S):
        view = _view(job)
        if state.is_final:
            report = report_of(job)
            view |= {"report": report} if report else {}
        yield {"event": "final" if state.is_final else "status", "data": _dump(view).decode()}


def _view(job: AnyJob) -> JsonObject:
    view: JsonObject = {"id": job.id, "state": job.state, "message": job.describe()}
    if job.tick is not None:
        view |= {
            "done": job.tick.done,
            "total": job.tick.total,
            "failed": job.tick.failed,
            "mean": job.tick.mean,
            "metric": job.tick.metric,
        }
    if job.folder is not None and job.state.is_final and job.folder.path.exists():
        view["run"] = job.folder.name
    if warnings := job.warnings():
        view["warnings"] = list(warnings)
    return view


async def _find(service: EvaluationService, request: Request) -> AnyJob:
    job_id = request.path_params["id"]
    job: AnyJob | None = service.queue.get(job_id)
    if job is None:
        job = await asyncio.to_thread(service.queue.recall, job_id)
    if job is None:
        raise HTTPException(404, "task not found; finished tasks are kept only for a while")
    return job


def _object(body: bytes) -> JsonObject:
    try:
        value = parse_json(body)
    except orjson.JSONDecodeError:
        raise TaskRefused("body: not valid JSON") from None
    if not isinstance(value, dict):
        raise TaskRefused("body: not a JSON object")
    return value


def _dump(value: Any) -> bytes:
    return orjson.dumps(value)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_dump(value), status, headers, "application/json")


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)

"""Evaluations without A2A: `POST /tasks` with an EvalRequest, then ask, follow or end it.

curl -X POST localhost:9009/tasks -d '{"participants": {...}, "config": {...}}'
"""

from collections.abc import AsyncIterator
from typing import Any

import orjson
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from assay.serve.a2a.app import STREAM_GRACE_S
from assay.serve.a2a.executor import Refused, Unavailable
from assay.serve.green.desk import Desk, Full
from assay.serve.green.jobs import RETRY_AFTER_S, Job
from assay.serve.green.results import report_of

EVENTS_S = 2.0
_PING_S = 15


def task_routes(desk: Desk) -> list[BaseRoute]:
    async def start(request: Request) -> Response:
        try:
            job = await desk.take(_object(await request.body()))
        except Full as refusal:
            return _error(429, str(refusal), {"Retry-After": str(RETRY_AFTER_S)})
        except Unavailable as refusal:
            return _error(503, str(refusal))
        except Refused as refusal:
            return _error(422, str(refusal))
        return _json(_view(job), 202, {"Location": f"/tasks/{job.id}"})

    async def show(request: Request) -> Response:
        job = _find(desk, request)
        report = report_of(job)
        return _json(_view(job) | ({"report": report} if report else {}))

    async def follow(request: Request) -> Response:
        events = _events(_find(desk, request))
        return EventSourceResponse(
            events, sep="\n", ping=_PING_S, shutdown_grace_period=STREAM_GRACE_S
        )

    async def end(request: Request) -> Response:
        job = _find(desk, request)
        job.cancel()
        async for _ in job.updates(EVENTS_S):
            pass
        return _json(_view(job))

    return [
        Route("/tasks", start, methods=["POST"]),
        Route("/tasks/{id}", show, methods=["GET"]),
        Route("/tasks/{id}", end, methods=["DELETE"]),
        Route("/tasks/{id}/events", follow, methods=["GET"]),
    ]


async def _events(job: Job) -> AsyncIterator[dict[str, str]]:
    """`status` while it goes on, then one `final` with the report. Leaving ends nothing."""
    async for state in job.updates(EVENTS_S):
        view = _view(job)
        if state.is_final:
            report = report_of(job)
            view |= {"report": report} if report else {}
        yield {"event": "final" if state.is_final else "status", "data": _dump(view).decode()}


def _view(job: Job) -> dict[str, Any]:
    view: dict[str, Any] = {"id": job.id, "state": job.state, "message": job.describe()}
    if job.tick is not None:
        view |= {
            "done": job.tick.done,
            "total": job.tick.total,
            "failed": job.tick.failed,
            "mean": job.tick.mean,
            "metric": job.tick.metric,
        }
    if job.outcome is not None:
        view["run"] = job.outcome.folder.name
    if warnings := job.warnings():
        view["warnings"] = list(warnings)
    return view


def _find(desk: Desk, request: Request) -> Job:
    job = desk.jobs.get(request.path_params["id"])
    if job is None:
        raise HTTPException(404, "there is no such task, or it has been forgotten")
    return job


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Refused("body: not JSON") from None
    if not isinstance(value, dict):
        raise Refused("body: not a JSON object")
    return value


def _dump(value: Any) -> bytes:
    return orjson.dumps(value)


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_dump(value), status, headers, "application/json")


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": message}, status, headers)

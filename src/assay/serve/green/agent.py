"""The green agent: EvalRequest in, live progress, `Evaluation Results` out, over A2A and REST.

curl -X POST localhost:9009/tasks -d '{"participants": {...}, "config": {...}}'
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from a2a.helpers import new_data_part, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import AgentCard, AgentSkill, TaskState
from sse_starlette import EventSourceResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from assay.data import Dataset, load_dataset
from assay.net.gather import DaemonThreads
from assay.net.json import JsonObject
from assay.net.outbound import OutboundPolicy
from assay.progress import Progress
from assay.serve.a2a import (
    STREAM_GRACE_S,
    ServerUnavailable,
    TaskExecutor,
    TaskRefused,
    a2a_app,
    parse_request,
    send_status,
)
from assay.serve.green.jobs import (
    KEPT,
    MAX_RUNNING,
    MAX_WAITING,
    EvaluationJob,
    JobQueue,
    JobState,
)
from assay.serve.readiness import Loading

ARTIFACT = "Evaluation Results"
STATUS_S = 5.0
VERBOSE_STATUS_S = 1.0

PROFILE = AgentCard(
    name="NFCorpus Retrieval Evaluator",
    description="Measures how well a retrieval agent ranks documents: nDCG and more, with "
    "confidence intervals, failures by kind and latencies.",
    skills=[
        AgentSkill(
            id="nfcorpus_retrieval_eval",
            name="Evaluate a retrieval agent",
            description="Send the URL of an agent and how to test it; returns the report.",
            tags=["evaluation", "retrieval", "ndcg"],
            examples=[
                '{"participants": {"retrieval_agent": "http://localhost:9010"}, '
                '"config": {"num_queries": 10, "top_k": 5, "random_seed": 42}}'
            ],
        ),
        AgentSkill(
            id="agentic_search",
            name="Evaluate an agent that searches many times",
            description="The agent gets search_url and mcp_server_url with each question; its "
            "searches are recorded, and the report says what they were worth.",
            tags=["evaluation", "retrieval", "agentic search"],
            examples=[
                '{"participants": {"retrieval_agent": "http://localhost:9010"}, '
                '"config": {"num_queries": 10, "search": "bm25", "num_trials": 3}}'
            ],
        ),
    ],
)

_STATES = {state: TaskState.Value(f"TASK_STATE_{state.name}") for state in JobState}

EVENTS_S = 2.0
_PING_S = 15
_RETRY_AFTER_S = 30


def green_app(
    load: Callable[[Progress], Awaitable[Dataset]],
    *,
    source: str,
    out: Path,
    policy: OutboundPolicy,
    card_url: str | None = None,
    token: str | None = None,
    concurrency: int = 8,
    running: int = MAX_RUNNING,
    waiting: int = MAX_WAITING,
) -> ASGIApp:
    """The evaluator over the data set `source`, which `load` reads when the server starts.

    `policy` says which addresses may be evaluated. At most `concurrency` queries of one evaluation
    are in flight at once; `running` evaluations run and `waiting` ones are queued.
    """
    loading: Loading[Dataset] = Loading(lambda: load(loading.note))
    queue = JobQueue(loading, out, policy, source, concurrency, running=running, waiting=waiting)
    return a2a_app(
        PROFILE,
        GreenExecutor(queue),
        loading,
        service="green",
        dataset=source,
        card_url=card_url,
        token=token,
        kept_tasks=KEPT,
        routes=task_routes(queue),
        end_work=queue.close,
        on_stop=queue.close,
    )


def dataset_loader(dataset: str) -> Callable[[Progress], Awaitable[Dataset]]:
    """Loads the data set of that name or path in a thread."""

    async def load(progress: Progress) -> Dataset:
        return await DaemonThreads().run(partial(load_dataset, dataset, progress=progress))

    return load


class GreenExecutor(TaskExecutor):
    """Evaluates over A2A: status updates while it runs, then the report as an artifact."""

    refusal_state = TaskState.TASK_STATE_REJECTED

    def __init__(self, queue: JobQueue) -> None:
        self._queue = queue
        self._reported: dict[str, asyncio.Event] = {}

    async def work(self, request: object, updater: TaskUpdater) -> None:
        """Submit the evaluation and report on it until it has ended."""
        loading = self._queue.loading.start()
        while not (await asyncio.wait({loading}, timeout=STATUS_S))[0]:
            waiting = "the data set is being loaded"
            await send_status(updater, TaskState.TASK_STATE_SUBMITTED, waiting)
        job = await self._queue.submit(request, updater.task_id)
        reported = self._reported[job.id] = asyncio.Event()
        try:
            await _report(job, updater)
        finally:
            reported.set()
            del self._reported[job.id]

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Wait until `work` has reported the end: the SDK cuts it off as soon as this returns."""
        assert context.task_id is not None
        job = self._queue.get(context.task_id)
        reported = self._reported.get(context.task_id)
        if job is None or reported is None:
            await super().cancel(context, event_queue)
            return
        job.cancel()
        await reported.wait()


async def _report(job: EvaluationJob, updater: TaskUpdater) -> None:
    for warning in job.remarks:
        await send_status(updater, TaskState.TASK_STATE_SUBMITTED, f"warning: {warning}")
    async for state in job.updates(VERBOSE_STATUS_S if job.verbose else STATUS_S):
        if state is JobState.COMPLETED:
            # The table begins with a word, so that a platform that collects JSON does not take it
            # for a second result.
            parts = [new_text_part(job.table), new_data_part(report_of(job))]
            await updater.add_artifact(parts, name=ARTIFACT)
        await send_status(updater, _STATES[state], job.describe())


def task_routes(queue: JobQueue) -> list[BaseRoute]:
    """`/tasks` and what is below it."""

    def found(request: Request) -> EvaluationJob:
        job = queue.get(request.path_params["id"])
        if job is None:
            raise HTTPException(404, "task not found; finished tasks are kept only for a while")
        return job

    async def start(request: Request) -> Response:
        try:
            job = await queue.submit(parse_request(await request.body(), "body"))
        except ServerUnavailable as refusal:
            return _json({"error": str(refusal)}, 503, {"Retry-After": str(_RETRY_AFTER_S)})
        except TaskRefused as refusal:
            return _json({"error": str(refusal)}, 422)
        return _json(_view(job), 202, {"Location": f"/tasks/{job.id}"})

    async def show(request: Request) -> Response:
        return _json(_view(found(request)))

    async def follow(request: Request) -> Response:
        job = found(request)

        async def events() -> AsyncIterator[dict[str, str]]:
            """`status` while it runs, then one `final` with the report; leaving cancels nothing."""
            async for state in job.updates(EVENTS_S):
                data = orjson.dumps(_view(job)).decode()
                yield {"event": "final" if state.is_final else "status", "data": data}

        # Lines end with \n, as every client reads them; the library would send \r\n.
        return EventSourceResponse(
            events(), sep="\n", ping=_PING_S, shutdown_grace_period=STREAM_GRACE_S
        )

    async def end(request: Request) -> Response:
        job = found(request)
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


def report_of(job: EvaluationJob) -> JsonObject | None:
    """The report of the run, with warnings about the request and the agent."""
    if job.folder is None or not job.state.is_final or not job.folder.report_file.exists():
        return None
    return job.folder.read_json() | {"run": job.folder.name, "warnings": job.warnings()}


def _view(job: EvaluationJob) -> JsonObject:
    view: JsonObject = {"id": job.id, "state": job.state, "message": job.describe()}
    if job.tick is not None:
        names = ("done", "total", "failed", "mean", "metric")
        view |= {name: getattr(job.tick, name) for name in names}
    if job.folder is not None and job.state.is_final and job.folder.path.exists():
        view["run"] = job.folder.name
    if warnings := job.warnings():
        view["warnings"] = warnings
    if report := report_of(job):
        view["report"] = report
    return view


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")

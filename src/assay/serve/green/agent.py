"""The green agent: EvalRequest in, live progress, `Evaluation Results` out."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from a2a.helpers import new_data_part, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import TaskState
from starlette.types import ASGIApp

from assay.agents.a2a.target import A2AAgent
from assay.agents.daemon_threads import DaemonThreads
from assay.data import Dataset, load_dataset
from assay.net.outbound import OutboundPolicy
from assay.progress import Progress
from assay.serve.a2a.app import a2a_app
from assay.serve.a2a.card import Profile
from assay.serve.a2a.executor import TaskExecutor, say
from assay.serve.green.desk import Desk
from assay.serve.green.jobs import KEPT, RETRY_AFTER_S, Job, Jobs, State
from assay.serve.green.results import report_of, summary_of
from assay.serve.green.tasks import task_routes
from assay.serve.readiness import Loading

ARTIFACT = "Evaluation Results"
STATUS_S = 5.0
VERBOSE_STATUS_S = 1.0

PROFILE = Profile(
    name="NFCorpus Retrieval Evaluator",
    description="Measures how well a retrieval agent ranks documents: nDCG and more, with "
    "confidence intervals, failures by kind and latencies.",
    skill_id="nfcorpus_retrieval_eval",
    skill_name="Evaluate a retrieval agent",
    skill_description="Send the address of an agent and how to test it; the report comes back.",
    tags=("evaluation", "retrieval", "ndcg", "nfcorpus"),
    example='{"participants": {"retrieval_agent": "http://localhost:9010"}, '
    '"config": {"num_queries": 10, "top_k": 5, "random_seed": 42}}',
)

_STATES = {
    State.SUBMITTED: TaskState.TASK_STATE_SUBMITTED,
    State.WORKING: TaskState.TASK_STATE_WORKING,
    State.FAILED: TaskState.TASK_STATE_FAILED,
    State.CANCELED: TaskState.TASK_STATE_CANCELED,
    State.COMPLETED: TaskState.TASK_STATE_COMPLETED,
}


def green_app(
    load: Callable[[Progress], Awaitable[Dataset]],
    *,
    source: str,
    out: Path,
    policy: OutboundPolicy,
    card_url: str | None = None,
    token: str | None = None,
    concurrency: int = 8,
    jobs: Jobs | None = None,
) -> ASGIApp:
    """`load` reads the data set that `source` names; it starts with the server."""
    loading: Loading[Dataset] = Loading(lambda: load(loading.note))
    jobs = jobs or Jobs(lambda url: A2AAgent(url, policy=policy), out)
    desk = Desk(loading, jobs, policy, source, concurrency)
    return a2a_app(
        PROFILE,
        GreenExecutor(desk),
        loading,
        service="green",
        card_url=card_url,
        token=token,
        kept_tasks=KEPT,
        is_full=jobs.is_full,
        retry_after=RETRY_AFTER_S,
        routes=task_routes(desk),
        end_work=jobs.close,
        on_stop=jobs.close,
    )


def reading(dataset: str) -> Callable[[Progress], Awaitable[Dataset]]:
    async def load(progress: Progress) -> Dataset:
        return await DaemonThreads().run(partial(load_dataset, dataset, progress=progress))

    return load


class GreenExecutor(TaskExecutor):
    refusal_state = TaskState.TASK_STATE_REJECTED

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._told: dict[str, asyncio.Event] = {}

    async def work(self, request: dict[str, Any], updater: TaskUpdater) -> None:
        job = await self._taken(request, updater)
        told = self._told[job.id] = asyncio.Event()
        try:
            await _tell(job, updater)
        finally:
            told.set()
            del self._told[job.id]

    async def _taken(self, request: dict[str, Any], updater: TaskUpdater) -> Job:
        """Takes as long as the data set takes to load, which must not be silence either."""
        taking = asyncio.create_task(self._desk.take(request, updater.task_id))
        try:
            while not (await asyncio.wait({taking}, timeout=STATUS_S))[0]:
                await say(updater, TaskState.TASK_STATE_SUBMITTED, "the data set is being loaded")
            return taking.result()
        except asyncio.CancelledError:
            taking.add_done_callback(_cancel_job)  # it may have been taken in this very moment
            raise
        finally:
            taking.cancel()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Wait until `work` has told the end: the SDK cuts it off as soon as this returns."""
        assert context.task_id is not None
        job = self._desk.jobs.get(context.task_id)
        told = self._told.get(context.task_id)
        if job is None or told is None:
            await super().cancel(context, event_queue)
            return
        job.cancel()
        await told.wait()


def _cancel_job(taking: "asyncio.Task[Job]") -> None:
    if not taking.cancelled() and taking.exception() is None:
        taking.result().cancel()


async def _tell(job: Job, updater: TaskUpdater) -> None:
    for warning in job.order.warnings:
        await say(updater, TaskState.TASK_STATE_SUBMITTED, f"warning: {warning}")
    async for state in job.updates(VERBOSE_STATUS_S if job.order.verbose else STATUS_S):
        if state is State.COMPLETED:
            parts = [new_text_part(summary_of(job)), new_data_part(report_of(job))]
            await updater.add_artifact(parts, name=ARTIFACT)
        await say(updater, _STATES[state], job.describe())

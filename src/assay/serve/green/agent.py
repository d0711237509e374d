"""The green agent: EvalRequest in, live progress, `Evaluation Results` out."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from a2a.helpers import new_data_part, new_task, new_text_message, new_text_part
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Artifact, Part, Role, Task, TaskState
from starlette.types import ASGIApp

from assay.agents.a2a.agent import A2AAgent
from assay.agents.threads import DaemonThreads
from assay.data import Dataset, load_dataset
from assay.files import read_text_file
from assay.net.json import JsonObject
from assay.net.outbound import OutboundPolicy
from assay.progress import Progress
from assay.serve.a2a.app import a2a_app
from assay.serve.a2a.card import AgentProfile, Skill
from assay.serve.a2a.tasks import TaskExecutor, send_status
from assay.serve.a2a.validation import Place
from assay.serve.green.jobs import (
    KEPT,
    RETRY_AFTER_S,
    EvaluationJob,
    EvaluationService,
    JobQueue,
    JobState,
)
from assay.serve.green.rest import AnyJob, report_of, task_routes
from assay.serve.green.task_files import RecalledJob
from assay.serve.readiness import Loading

ARTIFACT = "Evaluation Results"
STATUS_S = 5.0
VERBOSE_STATUS_S = 1.0

PROFILE = AgentProfile(
    name="NFCorpus Retrieval Evaluator",
    description="Measures how well a retrieval agent ranks documents: nDCG and more, with "
    "confidence intervals, failures by kind and latencies.",
    skills=(
        Skill(
            id="nfcorpus_retrieval_eval",
            name="Evaluate a retrieval agent",
            description="Send the URL of an agent and how to test it; returns the report.",
            tags=("evaluation", "retrieval", "ndcg"),
            example='{"participants": {"retrieval_agent": "http://localhost:9010"}, '
            '"config": {"num_queries": 10, "top_k": 5, "random_seed": 42}}',
        ),
    ),
)

_STATES = {
    JobState.SUBMITTED: TaskState.TASK_STATE_SUBMITTED,
    JobState.WORKING: TaskState.TASK_STATE_WORKING,
    JobState.FAILED: TaskState.TASK_STATE_FAILED,
    JobState.CANCELED: TaskState.TASK_STATE_CANCELED,
    JobState.COMPLETED: TaskState.TASK_STATE_COMPLETED,
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
    queue: JobQueue | None = None,
) -> ASGIApp:
    """The evaluator.

    load: reads the data set that `source` names; starts with the server.
    out: the folder for run folders.
    policy: which addresses may be evaluated, and notified.
    card_url: the address that the card names; None names the one by which it was requested.
    token: the bearer token that callers need.
    concurrency: how many queries of one evaluation are in flight at once.
    queue: replaces the queue of evaluations, in tests.
    """
    loading: Loading[Dataset] = Loading(lambda: load(loading.note))
    queue = queue or JobQueue(lambda url: A2AAgent(url, policy=policy), out)
    service = EvaluationService(loading, queue, policy, source, concurrency)
    return a2a_app(
        PROFILE.serving(source),
        GreenExecutor(service),
        loading,
        service="green",
        card_url=card_url,
        token=token,
        kept_tasks=KEPT,
        retry_after=RETRY_AFTER_S,
        policy=policy,
        routes=task_routes(service),
        recall=partial(_recall, queue),
        end_work=queue.close,
        on_stop=queue.close,
    )


def _recall(queue: JobQueue, task_id: str) -> Task | None:
    job = queue.recall(task_id)
    return None if job is None else recalled_task(job)


def dataset_loader(dataset: str) -> Callable[[Progress], Awaitable[Dataset]]:
    """Loads the data set of that name or path in a thread of its own."""

    async def load(progress: Progress) -> Dataset:
        return await DaemonThreads().run(partial(load_dataset, dataset, progress=progress))

    return load


class GreenExecutor(TaskExecutor):
    """Evaluates over A2A: status updates while it runs, then the report as an artifact."""

    refusal_state = TaskState.TASK_STATE_REJECTED

    def __init__(self, service: EvaluationService) -> None:
        self._service = service
        self._reported: dict[str, asyncio.Event] = {}

    def admit(self) -> Place | None:
        """A place for one evaluation."""
        return self._service.queue.admit()

    async def work(self, request: JsonObject, updater: TaskUpdater, place: Place) -> None:
        """Submit the evaluation and report on it until it has ended."""
        job = await self._submit(request, updater, place)
        reported = self._reported[job.id] = asyncio.Event()
        try:
            await _report(job, updater)
        finally:
            reported.set()
            del self._reported[job.id]

    async def _submit(
        self, request: JsonObject, updater: TaskUpdater, place: Place
    ) -> EvaluationJob:
        """May take as long as the data set takes to load: send status updates meanwhile."""
        submitting = asyncio.create_task(
            self._service.submit(request, place, updater.task_id, updater.context_id)
        )
        try:
            while not (await asyncio.wait({submitting}, timeout=STATUS_S))[0]:
                await send_status(
                    updater, TaskState.TASK_STATE_SUBMITTED, "the data set is being loaded"
                )
            return submitting.result()
        except asyncio.CancelledError:
            submitting.add_done_callback(_cancel_job)  # it may have started at this very moment
            raise
        finally:
            submitting.cancel()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Wait until `work` has reported the end: the SDK cuts it off as soon as this returns."""
        assert context.task_id is not None
        job = self._service.queue.get(context.task_id)
        reported = self._reported.get(context.task_id)
        if job is None or reported is None:
            await super().cancel(context, event_queue)
            return
        job.cancel()
        await reported.wait()


def _cancel_job(submitting: "asyncio.Task[EvaluationJob]") -> None:
    if not submitting.cancelled() and submitting.exception() is None:
        submitting.result().cancel()


async def _report(job: EvaluationJob, updater: TaskUpdater) -> None:
    for warning in job.spec.warnings:
        await send_status(updater, TaskState.TASK_STATE_SUBMITTED, f"warning: {warning}")
    async for state in job.updates(VERBOSE_STATUS_S if job.spec.verbose else STATUS_S):
        if state is JobState.COMPLETED:
            await updater.add_artifact(_result_parts(job), name=ARTIFACT)
        await send_status(updater, _STATES[state], job.describe())


def _result_parts(job: AnyJob) -> list[Part]:
    """The table that `assay report` shows, and the report. The table begins with a word, so that a
    platform that collects JSON does not take it for a second result."""
    assert job.folder is not None
    file = job.folder.summary_file
    table = read_text_file(file) if file.exists() else job.describe()
    return [new_text_part(table), new_data_part(report_of(job))]


def recalled_task(job: RecalledJob) -> Task | None:
    """A task of an earlier process as A2A shows it; None where it did not come over A2A."""
    if job.context_id is None:
        return None
    task: Task = new_task(job.id, job.context_id, _STATES[job.state])
    task.status.message.CopyFrom(
        new_text_message(
            job.describe(), context_id=job.context_id, task_id=job.id, role=Role.ROLE_AGENT
        )
    )
    if job.state is JobState.COMPLETED:
        artifact = Artifact(artifact_id=job.id, name=ARTIFACT, parts=_result_parts(job))
        task.artifacts.append(artifact)
    return task

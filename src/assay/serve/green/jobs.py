"""The evaluations of the green agent: a few at once, each in its own thread and event loop.

Neither a slow agent nor a report that takes long to compute delays another evaluation's clock.
"""

import asyncio
import logging
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path

from assay.data.dataset import Dataset
from assay.errors import AssayError, RunError, TargetError
from assay.evaluation.evaluation import Events, Tick, run_evaluation
from assay.evaluation.merge import ROLE
from assay.evaluation.run import Run
from assay.net.outbound import OutboundPolicy, OutboundRefused
from assay.net.redact import redact_places
from assay.privacy import log_exception
from assay.report.numbers import figure
from assay.report.terminal import plain_text, render_report
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.models import RunState
from assay.serve.a2a import (
    INTERNAL_ERROR,
    ServerUnavailable,
    TaskRefused,
    read_request,
    wait_until_loaded,
)
from assay.serve.green.request import EvalRequest, agent_url, to_config
from assay.serve.readiness import Loading
from assay.targets.a2a import A2AAgent
from assay.targets.target_kinds import OpenContext, Target

_logger = logging.getLogger(__name__)

# Each has a thread: more would share the same cores, and lengthen the latencies that they measure.
MAX_RUNNING = 4
MAX_WAITING = 16
KEPT = 64
# How often the threads look at each other's state: an asyncio.Event belongs to one event loop.
_POLL_S = 0.05


class JobState(StrEnum):
    """The states of an A2A task that an evaluation passes through."""

    SUBMITTED = "submitted"
    WORKING = "working"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether nothing follows this state."""
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELED)


@dataclass(eq=False)
class EvaluationJob:
    """One evaluation from submission to end. Read from the server's loop, run in a thread."""

    id: str
    config: RunConfig
    remarks: Sequence[str]  # about the request
    verbose: bool
    agent: A2AAgent
    state: JobState = JobState.SUBMITTED
    note: str = "queued"
    folder: RunFolder | None = None
    tick: Tick | None = None
    sanity: Sequence[str] = ()
    table: str = ""  # of a run that has ended
    future: Future[None] | None = None
    canceled: threading.Event = field(default_factory=threading.Event)

    def warnings(self) -> list[str]:
        """What is unusual about the request, then about the agent, then about the figures."""
        return [*self.remarks, *(what for what, _ in self.agent.findings), *self.sanity]

    def describe(self) -> str:
        """The progress of the evaluation, or how it ended, in one sentence."""
        tick = self.tick
        if self.state is not JobState.WORKING or tick is None or not tick.done:
            return self.note
        failed = f", {tick.failed} failed" if tick.failed else ""
        return (
            f"{tick.done} of {tick.total} queries, mean {tick.metric} {figure(tick.mean)}{failed}"
        )

    async def updates(self, interval: float) -> AsyncIterator[JobState]:
        """Yield the state at each change and every `interval` seconds, until the job has ended."""
        clock = asyncio.get_running_loop().time
        while True:
            state, deadline = self.state, clock() + interval
            yield state
            if state.is_final:
                return
            while self.state is state and clock() < deadline:
                await asyncio.sleep(_POLL_S)

    def cancel(self) -> None:
        """Stop sending queries; answers so far are kept. Returns at once: follow `updates`."""
        self.canceled.set()
        if self.future is not None and self.future.cancel():
            self.note, self.state = "canceled before it began", JobState.CANCELED

    def run(self, dataset: Dataset, out: Path) -> None:
        """Evaluate, in a worker thread. Never raises: `state` and `describe` say how it ended."""
        self.note, self.state, end = "preparing", JobState.WORKING, JobState.FAILED
        try:
            end, note = asyncio.run(self._evaluate(dataset, out))
        except TargetError as error:
            note = str(error)
        except AssayError as error:
            log_exception(_logger, "evaluation failed", error, task_id=self.id)
            note = redact_places(str(error))
        except BaseException as error:
            log_exception(_logger, "task failed", error, task_id=self.id)
            note = INTERNAL_ERROR
        self.note, self.state = note, end  # the note first: who follows the state reads it at once

    async def _evaluate(self, dataset: Dataset, out: Path) -> tuple[JobState, str]:
        events = Events(
            tick=partial(setattr, self, "tick"),
            message=partial(setattr, self, "note"),
            opened=partial(setattr, self, "folder"),
        )

        async def stop_when_canceled() -> None:
            while not self.canceled.is_set():
                await asyncio.sleep(_POLL_S)
            events.stop.set()

        stopping = asyncio.create_task(stop_when_canceled())
        try:
            run = await run_evaluation(
                self.config, dataset, agent=self.agent, out=out, events=events
            )
        except (KeyboardInterrupt, RunError):
            if not events.stop.is_set():
                raise
            return JobState.CANCELED, "canceled before the first answer"
        finally:
            stopping.cancel()
        self.sanity = run.report.warnings
        self.table = plain_text(render_report(run.report, path=run.folder.name))
        return _outcome(run)


def _outcome(run: Run) -> tuple[JobState, str]:
    """How a run ended, in one sentence."""
    report, kept = run.report, f"kept as run {run.folder.name}"
    asked, answered = report.summary.total_queries, report.summary.successful_queries
    if run.state == RunState.INTERRUPTED:
        return JobState.CANCELED, f"canceled after {asked} of {report.planned_queries}; {kept}"
    if answered and run.state != RunState.TARGET_LOST:
        number = report.summary.failed_queries
        failed = f", {number} failed" if number else ""
        return JobState.COMPLETED, f"evaluated {asked} queries{failed}"
    # A mean of 0 would be taken for a score: what is missing is the agent.
    what = f"the agent answered none of {asked} queries"
    if answered:
        what = f"the agent was lost after {answered} of {report.planned_queries} queries"
    kinds = ", ".join(f"{kind} {number}" for kind, number in report.failures.items())
    example = "".join(f"; for example {one}" for one in list(report.failure_examples.values())[:1])
    return JobState.FAILED, f"{what}: {kinds}{example}; {kept}"


class JobQueue:
    """Accepts evaluations, over A2A and REST alike, of the data set `source` that is `loading`.

    `running` run at once and `waiting` are queued, each in a run folder below `out`. The most
    recent finished jobs are kept, so that their reports can be fetched.

    Parameters:
        policy: which addresses may be evaluated.
        source: the name or path of the data set, as a run records it.
        concurrency: how many queries of one evaluation are in flight at once.
    """

    def __init__(
        self,
        loading: Loading[Dataset],
        out: Path,
        policy: OutboundPolicy,
        source: str,
        concurrency: int = 8,
        *,
        running: int = MAX_RUNNING,
        waiting: int = MAX_WAITING,
    ) -> None:
        self.loading = loading
        self._out = out
        self._policy = policy
        self._source = source
        self._concurrency = concurrency
        self._limit = running + waiting
        self._threads = ThreadPoolExecutor(running, thread_name_prefix="evaluation")
        self._jobs: dict[str, EvaluationJob] = {}
        self._closed = False

    async def submit(self, request: object, job_id: str | None = None) -> EvaluationJob:
        """Queue an evaluation, or raise `TaskRefused` with the field and the reason.

        `job_id` is the id of an A2A task.
        """
        asked = read_request(EvalRequest, request)
        url = agent_url(asked)
        try:
            self._policy.check_url(url)
        except OutboundRefused as error:
            raise TaskRefused(f"participants.{ROLE}: {error}") from None
        dataset = await wait_until_loaded(self.loading)
        config, remarks = to_config(asked, dataset, self._source, self._concurrency)
        ended = [job.id for job in self._jobs.values() if job.state.is_final]
        if self._closed or len(self._jobs) - len(ended) >= self._limit:
            raise ServerUnavailable("too many evaluations in progress; try again later")
        for old_id in ended[:-KEPT]:
            del self._jobs[old_id]
        agent = A2AAgent(Target("a2a", url), OpenContext(dataset, policy=self._policy))
        new_id = job_id or str(uuid.uuid4())
        job = EvaluationJob(new_id, config, remarks, asked.config.verbose, agent)
        self._jobs[job.id] = job
        job.future = self._threads.submit(job.run, dataset, self._out)
        return job

    def get(self, job_id: str) -> EvaluationJob | None:
        """The job, unless it is unknown or has been dropped."""
        return self._jobs.get(job_id)

    async def close(self) -> None:
        """End running evaluations, keeping their answers, as Ctrl-C does on the command line."""
        self._closed = True
        for job in self._jobs.values():
            job.cancel()
        # In a thread, for it waits: meanwhile clients are sent the last state of their evaluation.
        await asyncio.to_thread(self._threads.shutdown)

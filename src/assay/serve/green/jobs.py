"""The evaluations of the green agent: a few at once, each in its own thread and event loop.

Neither a slow agent nor a report that takes long to compute delays another evaluation's clock.
"""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from assay.data.dataset import Dataset
from assay.errors import AssayError, RunError, TargetError
from assay.evaluation.agentbeats import ROLE
from assay.evaluation.evaluation import Events, run_evaluation
from assay.evaluation.results import Tick
from assay.evaluation.run import Run
from assay.net.json import JsonObject
from assay.net.outbound import OutboundPolicy, OutboundRefused
from assay.net.redact import redact_places
from assay.privacy import log_exception
from assay.report.numbers import figure
from assay.report.terminal import plain_text, render_report
from assay.run.folder import RunFolder
from assay.run.state import RunState
from assay.serve.a2a import INTERNAL_ERROR, ServerUnavailable, TaskRefused, wait_until_loaded
from assay.serve.green.request import (
    EvaluationSpec,
    agent_url,
    parse_eval_request,
    redact_agent,
    to_spec,
)
from assay.serve.readiness import Loading
from assay.targets.a2a import A2AAgent
from assay.targets.protocol import Agent

_logger = logging.getLogger(__name__)

OpenAgent = Callable[[str], Agent]

MAX_RUNNING = 4
MAX_WAITING = 16
KEPT = 64
RETRY_AFTER_S = 30


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


class EvaluationJob:
    """One evaluation from submission to end. Read from the server's loop, run in a thread."""

    def __init__(self, job_id: str, spec: EvaluationSpec) -> None:
        self.id = job_id
        self.spec = spec
        self.folder: RunFolder | None = None
        self.state = JobState.SUBMITTED
        self.tick: Tick | None = None
        self.note = ""
        self._message = ""
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._lock = Lock()
        self._stop: Callable[[], None] | None = None
        self._canceled = False
        self.future: Future[None] | None = None
        self._agent: Agent | None = None
        self._sanity: Sequence[str] = ()

    def warnings(self) -> tuple[str, ...]:
        """What is unusual about the request, then about the agent, then about the figures."""
        agent = self._agent
        if not isinstance(agent, A2AAgent):
            return (*self.spec.warnings, *self._sanity)
        found = (finding.what for finding in agent.findings)
        return (*self.spec.warnings, *found, *self._sanity)

    def describe(self) -> str:
        """The progress of the evaluation in one sentence."""
        if self.note:
            return self.note
        if self.state is JobState.SUBMITTED:
            return "queued"
        if self.tick is None or not self.tick.done:
            return self._message or "preparing"
        failed = f", {self.tick.failed} failed" if self.tick.failed else ""
        return (
            f"{self.tick.done} of {self.tick.total} queries, "
            f"mean {self.tick.metric} {figure(self.tick.mean)}{failed}"
        )

    async def updates(self, interval: float) -> AsyncIterator[JobState]:
        """Yield the state at each change and every `interval` seconds, until the job has ended."""
        while True:
            changed, state = self._changed, self.state
            yield state
            if state.is_final:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await changed.wait()

    def cancel(self) -> None:
        """Stop sending queries; answers so far are kept. Returns at once: follow `updates`."""
        with self._lock:
            self._canceled = True
            stop = self._stop
        if stop is not None:
            stop()
        elif self.future is not None and self.future.cancel():
            self._end(JobState.CANCELED, "canceled before it began")

    def run(self, dataset: Dataset, open_agent: OpenAgent, out: Path) -> None:
        """Evaluate, in a worker thread. Never raises: `state` and `note` say how it ended."""
        try:
            if self._canceled:
                self._end(JobState.CANCELED, "canceled before it began")
                return
            asyncio.run(self._evaluate(dataset, open_agent, out))
        except TargetError as error:
            self._end(JobState.FAILED, redact_agent(str(error), self.spec.agent_url))
        except AssayError as error:
            log_exception(_logger, "evaluation failed", error, task_id=self.id)
            self._end(JobState.FAILED, redact_places(str(error)))
        except BaseException as error:
            log_exception(_logger, "task failed", error, task_id=self.id)
            self._end(JobState.FAILED, INTERNAL_ERROR)

    async def _evaluate(self, dataset: Dataset, open_agent: OpenAgent, out: Path) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._lock:
            self._stop = lambda: _call_soon(loop, stop.set)
            if self._canceled:
                stop.set()
        self._set_state(JobState.WORKING)
        self._agent = agent = open_agent(self.spec.agent_url)
        events = Events(
            tick=partial(setattr, self, "tick"),
            message=self._note_message,
            opened=partial(setattr, self, "folder"),
            stop=stop,
        )
        try:
            outcome = await run_evaluation(
                self.spec.config, dataset, agent=agent, out=out, events=events
            )
        except (KeyboardInterrupt, RunError):
            if not stop.is_set():
                raise
            self._end(JobState.CANCELED, "canceled before the first answer")
            return
        self._sanity = outcome.report.warnings
        self._finish(outcome)

    def _finish(self, outcome: Run) -> None:
        text = plain_text(render_report(outcome.report, path=outcome.folder.name))
        outcome.folder.write_summary(text)
        self.folder = outcome.folder
        summary = outcome.report.summary
        if outcome.state == RunState.INTERRUPTED:
            asked, planned = summary.total_queries, outcome.report.planned_queries
            name = outcome.folder.name
            self._end(JobState.CANCELED, f"canceled after {asked} of {planned}; kept as run {name}")
        elif not summary.successful_queries or outcome.state == RunState.TARGET_LOST:
            self._end(JobState.FAILED, redact_agent(_why_failed(outcome), self.spec.agent_url))
        else:
            failed = f", {summary.failed_queries} failed" if summary.failed_queries else ""
            self._end(JobState.COMPLETED, f"evaluated {summary.total_queries} queries{failed}")

    def _note_message(self, message: str) -> None:
        """What the evaluation says while it waits for the agent, without the agent's address."""
        self._message = redact_agent(message, self.spec.agent_url)

    def _end(self, state: JobState, note: str) -> None:
        self.note = note
        self._set_state(state)

    def _set_state(self, state: JobState) -> None:
        self.state = state
        _call_soon(self._loop, self._announce)

    def _announce(self) -> None:
        """Each change has its own event, so that no listener can miss one or clear it."""
        self._changed.set()
        self._changed = asyncio.Event()


class JobQueue:
    """Runs evaluations: `running` at once and `waiting` queued, each in a run folder below `out`.
    The most recent finished jobs are kept, so that their reports can be fetched.
    """

    def __init__(
        self,
        open_agent: OpenAgent,
        out: Path,
        *,
        running: int = MAX_RUNNING,
        waiting: int = MAX_WAITING,
    ) -> None:
        self._open_agent = open_agent
        self._out = out
        self._limit = running + waiting
        self._threads = ThreadPoolExecutor(running, thread_name_prefix="evaluation")
        self._jobs: dict[str, EvaluationJob] = {}
        self._closed = False

    def is_full(self) -> bool:
        """Whether no further evaluation is accepted now."""
        unfinished = sum(not job.state.is_final for job in self._jobs.values())
        return self._closed or unfinished >= self._limit

    def submit(
        self,
        spec: EvaluationSpec,
        dataset: Dataset,
        job_id: str | None = None,
    ) -> EvaluationJob:
        """Queue an evaluation; `job_id` is that of an A2A task, and must be new."""
        if job_id in self._jobs:
            raise ValueError("a task is evaluated once")
        job_id = job_id or str(uuid.uuid4())
        job = EvaluationJob(job_id, spec)
        self._jobs[job.id] = job
        self._evict()
        job.future = self._threads.submit(job.run, dataset, self._open_agent, self._out)
        return job

    def get(self, job_id: str) -> EvaluationJob | None:
        """The job, unless it is unknown or has been dropped."""
        self._evict()
        return self._jobs.get(job_id)

    async def close(self) -> None:
        """End running evaluations, keeping their answers, as Ctrl-C does on the command line."""
        self._closed = True
        for job in self._jobs.values():
            job.cancel()
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=False)

    def _evict(self) -> None:
        ended = [job.id for job in self._jobs.values() if job.state.is_final]
        for job_id in ended[:-KEPT]:
            del self._jobs[job_id]


class QueueFull(ServerUnavailable):
    """A valid request when the queue is full."""


@dataclass(frozen=True)
class EvaluationService:
    """Accepts evaluation requests, over A2A and REST alike.

    source: the name or path of the data set, as a run records it.
    concurrency: how many queries of one evaluation are in flight at once.
    """

    loading: Loading[Dataset]
    queue: JobQueue
    policy: OutboundPolicy
    source: str
    concurrency: int

    async def submit(self, request: JsonObject, job_id: str | None = None) -> EvaluationJob:
        """Start an evaluation, or raise `TaskRefused` with the field and the reason."""
        asked = parse_eval_request(request)
        url = agent_url(asked)
        try:
            self.policy.check_url(url)
        except OutboundRefused as error:
            raise TaskRefused(f"participants.{ROLE}: {redact_agent(str(error), url)}") from None
        dataset = await wait_until_loaded(self.loading)
        spec = to_spec(asked, dataset, self.source, self.concurrency)
        if self.queue.is_full():
            raise QueueFull("too many evaluations in progress; try again later")
        return self.queue.submit(spec, dataset, job_id)


def _why_failed(outcome: Run) -> str:
    """A mean of 0 would be taken for a score: what is missing is the agent."""
    report = outcome.report
    summary = report.summary
    what = (
        f"the agent was lost after {summary.successful_queries} of {report.planned_queries} queries"
        if summary.successful_queries
        else f"the agent answered none of {summary.total_queries} queries"
    )
    example = next(iter(report.failure_examples.values()), "")
    words = f"; for example {example}" if example else ""
    kinds = ", ".join(f"{kind} {number}" for kind, number in report.failures.items())
    return f"{what}: {kinds}{words}; kept as run {outcome.folder.name}"


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], Any]) -> None:
    with suppress(RuntimeError):  # that loop has ended, and nothing waits on it
        loop.call_soon_threadsafe(function)

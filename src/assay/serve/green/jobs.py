"""The evaluations of the green agent: a few at once, each in a thread and loop of its own.

What one agent does, or how long its report takes to compute, so never holds up another's clock.
"""

import asyncio
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from threading import Lock
from typing import Any

from assay.agents.protocol import Agent
from assay.data.dataset import Dataset
from assay.errors import AssayError, RunError, TargetError
from assay.evaluation.evaluation import INTERRUPTED, Evaluation, Listener, Outcome
from assay.evaluation.live import Tick
from assay.net.redact import redact_places
from assay.report.terminal import plain_text, render_report
from assay.serve.a2a.executor import INTERNAL_ERROR, log_failure
from assay.serve.green.request import Order, without_address

_logger = logging.getLogger(__name__)

OpenAgent = Callable[[str], Agent]

RUNNING = 4
WAITING = 16
KEPT = 64
KEPT_S = 3600.0
RETRY_AFTER_S = 30


class State(StrEnum):
    """The words of A2A."""

    SUBMITTED = "submitted"
    WORKING = "working"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        return self in (State.COMPLETED, State.FAILED, State.CANCELED)


class Job:
    """One evaluation from order to end. Read from the server's loop, run in a thread."""

    def __init__(self, job_id: str, order: Order) -> None:
        self.id = job_id
        self.order = order
        self.state = State.SUBMITTED
        self.tick: Tick | None = None
        self.note = ""
        self.outcome: Outcome | None = None
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._lock = Lock()
        self._stop: Callable[[], None] | None = None
        self._canceled = False
        self.place_in_line: Future[None] | None = None
        self.ended_at: float | None = None
        self._agent: Agent | None = None

    def warnings(self) -> tuple[str, ...]:
        """What was odd about the request, then about the agent."""
        findings = getattr(self._agent, "findings", ())
        return (*self.order.warnings, *(finding.what for finding in findings))

    def describe(self) -> str:
        """Where it stands, in a sentence for people."""
        if self.note:
            return self.note
        if self.state is State.SUBMITTED:
            return "waiting for its turn"
        if self.tick is None:
            return "getting ready"
        failed = f", {self.tick.failed} failed" if self.tick.failed else ""
        return (
            f"{self.tick.done} of {self.tick.total} queries, "
            f"mean {self.tick.metric} {self.tick.mean:.4f}{failed}"
        )

    async def updates(self, interval: float) -> AsyncIterator[State]:
        """At each change of state, and every `interval` seconds besides; ends with the job."""
        while True:
            changed, state = self._changed, self.state
            yield state
            if state.is_final:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await changed.wait()

    def cancel(self) -> None:
        """Stop asking; what was answered is kept. Returns at once: `updates` tell the end."""
        with self._lock:
            self._canceled = True
            stop = self._stop
        if stop is not None:
            stop()
        elif self.place_in_line is not None and self.place_in_line.cancel():
            self._end(State.CANCELED, "canceled before it began")

    def run(self, dataset: Dataset, open_agent: OpenAgent, out: Path) -> None:
        """In a thread of its own. Never raises: how it ended is in `state` and `note`."""
        try:
            if self._canceled:
                self._end(State.CANCELED, "canceled before it began")
                return
            asyncio.run(self._evaluate(dataset, open_agent, out))
        except TargetError as error:
            self._end(State.FAILED, without_address(str(error), self.order.agent_url))
        except AssayError as error:
            _logger.error("evaluation failed: %s", error)
            self._end(State.FAILED, redact_places(str(error)))
        except BaseException as error:
            log_failure(self.id, error)
            self._end(State.FAILED, INTERNAL_ERROR)

    async def _evaluate(self, dataset: Dataset, open_agent: OpenAgent, out: Path) -> None:
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        with self._lock:
            self._stop = lambda: _call_soon(loop, stop.set)
            if self._canceled:
                stop.set()
        self._become(State.WORKING)
        evaluation = Evaluation.plan(self.order.config, dataset)
        self._agent = agent = open_agent(self.order.agent_url)
        listener = Listener(tick=self._note_tick)
        try:
            outcome = await evaluation.start(agent, out, listener=listener, stop=stop)
        except (KeyboardInterrupt, RunError):
            if not stop.is_set():
                raise
            self._end(State.CANCELED, "canceled before the first answer")
            return
        self._finish(outcome)

    def _finish(self, outcome: Outcome) -> None:
        text = plain_text(render_report(outcome.head, path=outcome.folder.name))
        outcome.folder.summary.write_text(text, encoding="utf-8")
        self.outcome = outcome
        summary = outcome.head["summary"]
        if outcome.state == INTERRUPTED:
            asked, planned = summary["total_queries"], outcome.head["planned_queries"]
            name = outcome.folder.name
            self._end(State.CANCELED, f"canceled after {asked} of {planned}; kept as run {name}")
        else:
            failed = f", {summary['failed_queries']} failed" if summary["failed_queries"] else ""
            self._end(State.COMPLETED, f"evaluated {summary['total_queries']} queries{failed}")

    def _note_tick(self, tick: Tick) -> None:
        self.tick = tick

    def _end(self, state: State, note: str) -> None:
        self.note = note
        self.ended_at = time.monotonic()
        self._become(state)

    def _become(self, state: State) -> None:
        self.state = state
        _call_soon(self._loop, self._announce)

    def _announce(self) -> None:
        """Each change has an event of its own, so that no listener can miss it or undo it."""
        self._changed.set()
        self._changed = asyncio.Event()


class Jobs:
    """So many evaluations `running` at once and `waiting` in line; some finished ones are kept,
    for a while."""

    def __init__(
        self, open_agent: OpenAgent, out: Path, *, running: int = RUNNING, waiting: int = WAITING
    ) -> None:
        self._open_agent = open_agent
        self._out = out
        self._limit = running + waiting
        self._threads = ThreadPoolExecutor(running, thread_name_prefix="evaluation")
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._arriving = 0
        self._closed = False

    def is_full(self) -> bool:
        unfinished = sum(not job.state.is_final for job in self._jobs.values())
        return self._closed or unfinished + self._arriving >= self._limit

    @contextmanager
    def place(self) -> Iterator[None]:
        """Held by a request that is not a job yet: it may wait for the data set for minutes."""
        self._arriving += 1
        try:
            yield
        finally:
            self._arriving -= 1

    def submit(self, order: Order, dataset: Dataset, job_id: str | None = None) -> Job:
        if job_id in self._jobs:
            raise ValueError("a task is evaluated once")
        job = Job(job_id or str(uuid.uuid4()), order)
        self._jobs[job.id] = job
        self._forget()
        job.place_in_line = self._threads.submit(job.run, dataset, self._open_agent, self._out)
        return job

    def get(self, job_id: str) -> Job | None:
        self._forget()
        return self._jobs.get(job_id)

    async def close(self) -> None:
        """End what runs, keeping what was answered, as Ctrl-C does on the command line."""
        self._closed = True
        for job in self._jobs.values():
            job.cancel()
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=False)

    def _forget(self) -> None:
        oldest_kept = time.monotonic() - KEPT_S
        ended = [(job.id, job.ended_at) for job in self._jobs.values() if job.ended_at is not None]
        for place, (job_id, ended_at) in enumerate(ended):
            if place < len(ended) - KEPT or ended_at < oldest_kept:
                del self._jobs[job_id]


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], Any]) -> None:
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:  # that loop has ended, and nobody waits on it
        return

"""The evaluations of the green agent, in any order of starting, ending, canceling and
restarting, with the threads and event loops that they really have."""

import asyncio
import tempfile
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.fuzz.mutation import examples
from tests.serve.serving import loads

from assay.errors import RunError
from assay.evaluation.evaluation import Events
from assay.net.outbound import UNRESTRICTED
from assay.progress import silent
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.models import RunState
from assay.serve.a2a import ServerUnavailable
from assay.serve.green import jobs as green_jobs
from assay.serve.green.jobs import EvaluationJob, JobQueue, JobState
from assay.serve.green.request import EvaluationSpec
from assay.serve.readiness import Loading

RUNNING, WAITING, KEPT = 2, 2, 3
PATIENCE_S = 20
_which = st.integers(0, 50)

# How an evaluation ends once it is let, and the state of its job then.
ENDS = {
    "complete": JobState.COMPLETED,
    "target lost": JobState.FAILED,
    "disk full": JobState.FAILED,
    "crash": JobState.FAILED,
}


class FakeEvaluation:
    """Goes on until the test lets it end, in one of the ways that a real one has."""

    def __init__(self, name: str, end: str) -> None:
        self.name, self.way = name, end
        self.begun = threading.Event()
        self.starts = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._let: asyncio.Event | None = None

    def let(self) -> None:
        assert self._loop is not None
        assert self._let is not None
        self._loop.call_soon_threadsafe(self._let.set)

    async def start(self, out: Path, events: Events) -> Any:
        stop = events.stop
        self.starts += 1
        self._loop, self._let = asyncio.get_running_loop(), asyncio.Event()
        folder = RunFolder(out / self.name)
        folder.path.mkdir()
        folder.header_file.write_text("{}")
        events.opened(folder)
        self.begun.set()
        waits = [asyncio.ensure_future(each.wait()) for each in (self._let, stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        if stop.is_set():
            return self._outcome(folder, RunState.INTERRUPTED)
        if self.way == "disk full":
            raise RunError(f"cannot write in {folder}")
        if self.way == "crash":
            raise ZeroDivisionError("a defect")
        lost = self.way == "target lost"
        return self._outcome(folder, RunState.TARGET_LOST if lost else RunState.COMPLETE)

    def _outcome(self, folder: RunFolder, state: str) -> Any:
        summary = SimpleNamespace(total_queries=3, successful_queries=3, failed_queries=0)
        report = SimpleNamespace(
            summary=summary, planned_queries=9, failure_examples={}, failures={}, warnings=()
        )
        return SimpleNamespace(folder=folder, report=report, state=state)


class GreenQueue(RuleBasedStateMachine):
    """`jobs` are those of this process in the order of their start, `ended` how each has ended."""

    @initialize()
    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory(prefix="assay-fuzz-")
        self.out = Path(self.folder.name)
        self.planned: list[FakeEvaluation] = []
        self.patches: Any = mock.patch.multiple(
            green_jobs,
            KEPT=KEPT,
            run_evaluation=self._evaluate,
            read_request=lambda _model, name: name,
            agent_url=mock.Mock(return_value="http://agent.example"),
            to_spec=lambda name, *_: EvaluationSpec(RunConfig(name), False, ()),
            render_report=mock.Mock(return_value=""),
            log_exception=mock.Mock(),
            A2AAgent=lambda *_: mock.Mock(findings=()),
        )
        self.patches.start()
        self._open_queue()

    def _open_queue(self) -> None:
        self.queue = JobQueue(
            Loading(lambda: loads(mock.Mock())(silent)),
            self.out,
            UNRESTRICTED,
            "tiny",
            running=RUNNING,
            waiting=WAITING,
        )
        self.jobs: list[tuple[EvaluationJob, FakeEvaluation]] = []
        self.ended: dict[str, JobState] = {}

    async def _evaluate(
        self, config: RunConfig, _dataset: object, *, agent: object, out: Path, events: Events
    ) -> Any:
        planned = next(each for each in self.planned if each.name == config.target)
        return await planned.start(out, events)

    def _run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        async def within() -> Any:
            async with asyncio.timeout(PATIENCE_S):
                return await work()

        return self.loop.run_until_complete(within())

    async def _wait(self, job: EvaluationJob) -> None:
        states = [state async for state in job.updates(600)]
        assert all(not each.is_final for each in states[:-1])
        self.ended[job.id] = states[-1]

    def _unfinished(self) -> list[tuple[EvaluationJob, FakeEvaluation]]:
        return [each for each in self.jobs if each[0].id not in self.ended]

    def _settle(self) -> None:
        """The first of those that have not ended run."""
        for _, evaluation in self._unfinished()[:RUNNING]:
            assert evaluation.begun.wait(PATIENCE_S), "a slot is free, and nothing runs in it"

    @rule(ends=st.lists(st.sampled_from(sorted(ENDS)), min_size=1, max_size=4))
    def submit(self, ends: list[str]) -> None:
        for end in ends:
            if len(self._unfinished()) == RUNNING + WAITING:
                self._expect_no_room()
                continue
            name = f"run-{len(self.planned)}"
            evaluation = FakeEvaluation(name, end)
            self.planned.append(evaluation)
            job = self._run(partial(self.queue.submit, name, f"task-{name}"))
            self.jobs.append((job, evaluation))
        self._settle()

    def _expect_no_room(self) -> None:
        with pytest.raises(ServerUnavailable):
            self._run(lambda: self.queue.submit("one too many"))

    @precondition(lambda self: self._unfinished())
    @rule(which=_which)
    def end(self, which: int) -> None:
        running = self._unfinished()[:RUNNING]
        job, evaluation = running[which % len(running)]
        evaluation.let()
        self._run(lambda: self._wait(job))
        assert self.ended[job.id] is ENDS[evaluation.way]
        self._settle()

    @precondition(lambda self: self.jobs)
    @rule(which=_which, times=st.integers(1, 2))
    def cancel(self, which: int, times: int) -> None:
        job, _ = self.jobs[which % len(self.jobs)]
        for _ in range(times):
            job.cancel()
        if job.id in self.ended:
            assert job.state is self.ended[job.id], "a job that has ended changed its state"
            return
        self._run(lambda: self._wait(job))
        assert self.ended[job.id] is JobState.CANCELED
        self._settle()

    @rule()
    def restart(self) -> None:
        unfinished = [job.id for job, _ in self._unfinished()]
        self._run(self.queue.close)
        self._expect_no_room()
        for job, _ in self.jobs:
            assert job.state.is_final
            assert job.id not in unfinished or job.state is JobState.CANCELED
        self._open_queue()

    @invariant()
    def no_job_is_lost_run_twice_or_kept_for_ever(self) -> None:
        if not hasattr(self, "queue"):
            return
        found = [job for job, _ in self.jobs if self.queue.get(job.id) is job]
        assert all(job in found for job, _ in self._unfinished())
        ended = len(found) - len(self._unfinished())
        assert min(KEPT, len(self.ended)) <= ended <= KEPT + RUNNING + WAITING
        assert all(evaluation.starts <= 1 for evaluation in self.planned)
        begun = [evaluation.begun.is_set() for _, evaluation in self._unfinished()]
        assert begun == [place < RUNNING for place in range(len(begun))]
        assert all(job.state is self.ended.get(job.id, job.state) for job, _ in self.jobs)

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        self._run(self.queue.close)
        assert all(job.state.is_final for job, _ in self.jobs)
        assert not [each for each in threading.enumerate() if each.name.startswith("evaluation")]
        self.patches.stop()
        self.loop.close()
        self.folder.cleanup()


TestGreenQueue = GreenQueue.TestCase
TestGreenQueue.settings = settings(
    settings.default, max_examples=examples(15), stateful_step_count=25
)

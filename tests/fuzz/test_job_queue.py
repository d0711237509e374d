"""The evaluations that the web UI starts, in any order of starting, ending and canceling."""

import asyncio
import signal
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.fuzz.mutation import examples

from assay.errors import UsageError
from assay.run.config import RunConfig
from assay.serve.ui import evaluations
from assay.serve.ui.evaluations import MAX_RUNNING, Evaluations, StartedEvaluation

KEPT = 3
_which = st.integers(0, 50)


class FakeProcess:
    """A process that ends when the test says so; one that is `deaf` ignores Ctrl-C."""

    def __init__(self, deaf: bool) -> None:
        self.returncode: int | None = None
        self.deaf = deaf
        self.signals: list[int] = []
        self._ended = asyncio.Event()
        self.stdin = BytesIO()
        self.stderr = asyncio.StreamReader()
        self.stderr.feed_data(b"asking\n")

    def end(self, code: int) -> None:
        self.returncode = code
        self._ended.set()
        if not self.stderr.at_eof():
            self.stderr.feed_data(b"\xff\n\n" + b"x" * 2000 + b"\n")
            self.stderr.feed_eof()

    def send_signal(self, number: int) -> None:
        assert self.returncode is None, "a signal to a process that has ended"
        self.signals.append(number)
        if not self.deaf:
            self.end(130)

    def kill(self) -> None:
        self.signals.append(signal.SIGKILL)
        self.end(-9)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode


class StartedEvaluations(RuleBasedStateMachine):
    """`started` are those of the test, in order; `forgotten` may be gone from the queue."""

    @initialize()
    def open(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.queue = Evaluations(Path("runs"))
        self.started: list[tuple[StartedEvaluation, FakeProcess]] = []
        self.deaf = False
        self.patches = ExitStack()
        enter = self.patches.enter_context
        enter(mock.patch.multiple(evaluations, _MAX_KEPT=KEPT, _GRACE_S=0.01))
        enter(mock.patch.object(asyncio, "create_subprocess_exec", self._process))

    async def _process(self, *_arguments: str, **_options: Any) -> FakeProcess:
        await asyncio.sleep(0)  # as long as others may start one
        return FakeProcess(self.deaf)

    def _settle(self) -> None:
        for _ in range(4):
            self.loop.run_until_complete(asyncio.sleep(0))

    @rule(deaf=st.booleans(), count=st.just(1) | st.integers(2, MAX_RUNNING + 2))
    def start(self, deaf: bool, count: int) -> None:
        """One, or several side by side."""
        self.deaf = deaf
        running = sum(process.returncode is None for _, process in self.started)

        async def start_all() -> list[Any]:
            starting = (self.queue.start(RunConfig("builtin:bm25")) for _ in range(count))
            return await asyncio.gather(*starting, return_exceptions=True)

        outcomes = self.loop.run_until_complete(start_all())
        made = [each for each in outcomes if isinstance(each, StartedEvaluation)]
        assert len(made) == min(count, MAX_RUNNING - running)
        assert all(isinstance(each, UsageError | StartedEvaluation) for each in outcomes)
        for each in made:
            process: Any = each.process
            self.started.append((each, process))
        self._settle()
        assert all(each.message == "asking" for each in made)

    @rule(which=_which, code=st.sampled_from([0, 1, 2, 130, -9]))
    def end(self, which: int, code: int) -> None:
        running = [each for _, each in self.started if each.returncode is None]
        if running:
            running[which % len(running)].end(code)
            self._settle()

    @rule(which=_which)
    def cancel(self, which: int) -> None:
        if not self.started:
            return
        made, process = self.started[which % len(self.started)]
        was_running, before = process.returncode is None, len(process.signals)
        self.loop.call_soon(made.cancel)  # within the loop, as requests are
        self._settle()
        assert made.canceled
        assert len(process.signals) - before == was_running

    @invariant()
    def what_runs_is_found_and_what_ended_is_kept_for_a_while(self) -> None:
        found = [made for made, _ in self.started if self.queue.get(made.id) is made]
        running = [made for made, process in self.started if process.returncode is None]
        assert self.queue.running() == running
        assert len(running) <= MAX_RUNNING
        assert all(made in found for made in running)
        # The last one that was started is there, whatever became of it.
        assert not self.started or self.started[-1][0] in found
        assert len(found) <= KEPT + MAX_RUNNING
        assert all(len(line) <= 500 for made in found for line in made.lines)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        self.loop.run_until_complete(self.queue.close())
        assert all(process.returncode is not None for _, process in self.started)
        assert not asyncio.all_tasks(self.loop)
        self.patches.close()
        self.loop.close()


TestStartedEvaluations = StartedEvaluations.TestCase
TestStartedEvaluations.settings = settings(settings.default, max_examples=examples(30))

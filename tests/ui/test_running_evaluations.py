"""How many evaluations the web UI runs at once, how many it remembers, and how it ends them."""

import asyncio
import signal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from assay.errors import UsageError
from assay.run.config import RunConfig
from assay.serve.ui import evaluations
from assay.serve.ui.evaluations import MAX_RUNNING, Evaluations, StartedEvaluation


class FakeProcess:
    """Runs until it is interrupted; one that is `deaf` has to be killed."""

    def __init__(self, deaf: bool) -> None:
        self.returncode: int | None = None
        self.deaf = deaf
        self.signals: list[int] = []
        self.stdin = BytesIO()
        self.stderr = asyncio.StreamReader()
        self._ended = asyncio.Event()

    def end(self, code: int) -> None:
        self.returncode = code
        self.stderr.feed_data(b"\xff\n" + b"x" * 2000 + b"\n")
        self.stderr.feed_eof()
        self._ended.set()

    def send_signal(self, number: int) -> None:
        self.signals.append(number)
        if not self.deaf:
            self.end(130)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.end(-9)

    async def wait(self) -> int | None:
        await self._ended.wait()
        return self.returncode


@pytest.mark.parametrize("deaf", [False, True])
async def test_what_runs_is_bounded_and_ended_and_what_ended_is_kept_for_a_while(
    deaf: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def process(*_arguments: str, **_options: Any) -> FakeProcess:
        await asyncio.sleep(0)  # as long as others may start one
        return FakeProcess(deaf)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", process)
    monkeypatch.setattr(evaluations, "_MAX_KEPT", 3)
    monkeypatch.setattr(evaluations, "_GRACE_S", 0.01)
    queue, started = Evaluations(Path("runs")), []
    for _ in range(3):
        starting = (queue.start(RunConfig("builtin:bm25")) for _ in range(MAX_RUNNING + 2))
        outcomes = await asyncio.gather(*starting, return_exceptions=True)
        made = [each for each in outcomes if isinstance(each, StartedEvaluation)]
        assert len(made) == len(queue.running()) == MAX_RUNNING
        assert all(isinstance(each, UsageError) for each in outcomes if each not in made)
        started += made
        await queue.close()
        assert queue.running() == []
    processes: list[Any] = [each.process for each in started]
    assert all((signal.SIGKILL in each.signals) is deaf for each in processes)
    assert all(len(line) <= 500 for each in started for line in each.lines)
    assert len([each for each in started if queue.get(each.id) is each]) <= 3 + MAX_RUNNING
    assert queue.get(started[-1].id) is started[-1]

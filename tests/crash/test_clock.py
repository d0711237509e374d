"""A wall clock that jumps while a run goes on: durations come from a clock that does not."""

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import pytest
from tests.tiny_dataset import tiny_dataset

from assay.evaluation.evaluation import Evaluation
from assay.run import folder
from assay.run.config import RunConfig
from assay.targets import PythonAgent

DAY = 86_400.0


def answers(query: str, _top_k: int) -> list[str]:
    number = int(query.split()[1])
    return [f"d{number + 1}", f"d{number}"] if number % 3 else ["d0"]


@pytest.mark.parametrize("jump", [-365 * DAY, DAY])
def test_no_figure_of_a_run_depends_on_the_wall_clock(
    jump: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = tiny_dataset(12)
    evaluation = Evaluation.plan(RunConfig("f", dataset="tiny", concurrency=1), dataset)
    steady = asyncio.run(evaluation.start(PythonAgent(answers, name="f"), tmp_path / "steady"))

    real, calls = time.time, itertools.count()
    monkeypatch.setattr(time, "time", lambda: real() + jump * (next(calls) % 2))

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Jumping":
            moved = datetime.now(UTC) + timedelta(seconds=jump * (next(calls) % 2))
            return cls.fromtimestamp(moved.timestamp(), tz)

    monkeypatch.setattr(folder, "datetime", Jumping)
    whole = asyncio.run(evaluation.start(PythonAgent(answers, name="f"), tmp_path / "jumping"))
    assert whole.report.statistics == steady.report.statistics
    assert 0 < whole.report.summary.total_time_seconds < 60
    times = [row.at for row in whole.rows() if row.at is not None]
    assert times == sorted(times)

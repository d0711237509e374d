"""Evaluations that were started from a page: each is `assay eval` in a process of its own.

So the pages stay quick while it runs, code of a `python:` target is read afresh each time, and
the run goes on by itself if this server is killed. How far it is, is read from its run folder.
"""

import asyncio
import os
import signal
import sys
import uuid
from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from assay.errors import UsageError
from assay.evaluation.plan import RunConfig
from assay.report.html import NO_JUDGE

LIMIT = 4
KEPT = 50
_LINES = 20
_GRACE_S = 10.0
_START = "from assay.cli.app import main; main()"
# What the form leaves open must not be filled in by the environment of the server.
_NOT_INHERITED = frozenset({"ASSAY_NUM_QUERIES", "ASSAY_GATE", "ASSAY_MAX_COST"})


@dataclass
class Started:
    """`lines` are the last ones that it wrote for people."""

    id: str
    config: RunConfig
    process: asyncio.subprocess.Process
    since: str
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LINES))
    run: str | None = None
    canceled: bool = False

    @property
    def ended(self) -> bool:
        return self.process.returncode is not None

    @property
    def message(self) -> str:
        return self.lines[-1] if self.lines else "getting ready"

    def cancel(self) -> None:
        """As Ctrl-C: what was answered is reported and kept."""
        self.canceled = True
        if not self.ended:
            self.process.send_signal(signal.SIGINT)


class Evaluations:
    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._started: dict[str, Started] = {}
        self._readers: set[asyncio.Task[None]] = set()

    def get(self, evaluation_id: str) -> Started | None:
        return self._started.get(evaluation_id)

    def of_run(self, name: str) -> Started | None:
        return next((each for each in self._started.values() if each.run == name), None)

    def going_on(self) -> list[Started]:
        return [each for each in self._started.values() if not each.ended]

    async def start(self, config: RunConfig) -> Started:
        if len(self.going_on()) >= LIMIT:
            raise UsageError(f"{LIMIT} evaluations are running already; wait for one to end")
        kept = {key: value for key, value in os.environ.items() if key not in _NOT_INHERITED}
        since = datetime.now(UTC).isoformat(timespec="seconds")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            _START,
            *arguments(config, self._runs),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            env={**kept, "NO_COLOR": "1"},
            start_new_session=True,  # Ctrl-C at the server is ours to pass on
        )
        started = Started(uuid.uuid4().hex[:12], config, process, since)
        self._started[started.id] = started
        reader = asyncio.create_task(_read(started))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        self._forget()
        return started

    async def close(self) -> None:
        """End what runs, keeping what was answered."""
        for each in self.going_on():
            each.cancel()
        waiting = [asyncio.create_task(each.process.wait()) for each in self.going_on()]
        if waiting:
            await asyncio.wait(waiting, timeout=_GRACE_S)
        for each in self.going_on():
            each.process.kill()
        await asyncio.gather(*waiting, *self._readers, return_exceptions=True)

    def _forget(self) -> None:
        ended = [each.id for each in self._started.values() if each.ended]
        for evaluation_id in ended[: max(0, len(ended) - KEPT)]:
            del self._started[evaluation_id]


def arguments(config: RunConfig, runs: Path) -> list[str]:
    """`--flag=value` in one word each, and the target behind `--`: none can pass for another."""
    words = ["eval", f"--out={runs}", f"--track={config.track}"]
    for name in ("dataset", "split", "seed", "top_k", "concurrency", "timeout", "retries"):
        words.append(f"--{name.replace('_', '-')}={getattr(config, name)}")
    if config.num_queries is not None:
        words.append(f"--num-queries={config.num_queries}")
    words += [f"--gate={gate}" for gate in config.gates]
    words += [f"--baseline={config.baseline}", f"--map={config.mapping}"]
    return [*words, *_answer_arguments(config), "--", config.target]


def _answer_arguments(config: RunConfig) -> list[str]:
    if not config.answers:
        return ["--no-answers"]
    words = ["--answers", f"--judge={config.judge or NO_JUDGE}"]
    words.append(f"--judge-votes={config.judge_votes}")
    if config.max_cost is not None:
        words.append(f"--max-cost={config.max_cost}")
    return [*words, "--counterfactuals" if config.counterfactuals else "--no-counterfactuals"]


async def _read(started: Started) -> None:
    assert started.process.stderr is not None
    async for line in started.process.stderr:
        if words := line.decode("utf-8", "replace").strip():
            started.lines.append(words[:500])
    await started.process.wait()

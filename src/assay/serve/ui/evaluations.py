"""Running evaluations: the processes started from a page, and the progress of any run.

Each evaluation is `assay eval` in its own process. So the pages stay quick while it runs, code
of a `python:` target is imported afresh each time, and the run continues if this server is killed.
Progress is read from the run folder, so that runs started in a terminal are followed too.
"""

import asyncio
import os
import signal
import sys
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path

import orjson
from sse_starlette import EventSourceResponse
from starlette.responses import Response

from assay.data.dataset import Dataset
from assay.errors import UsageError
from assay.evaluation.evaluation import LiveFigures, Tick
from assay.evaluation.plan import draw_queries
from assay.files import is_locked
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import redact_secrets
from assay.report.numbers import count, counted, duration, figure
from assay.run.calls import Call, CallTail
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.listing import RunLine

# Each is a separate process with its data set in memory.
MAX_RUNNING = 4
_MAX_KEPT = 50
_MAX_LINES = 20
_MAX_LINE = 4096
_MAX_SAID = 200
_GRACE_S = 10.0
# A run that is canceled still writes its report, and a judge may be in the middle of a call.
_CANCEL_S = 60.0
_INTERVAL_S = 0.5
_PING_S = 15
# Everyone on the machine can read the command line of a process, and settings may hold a key.
_START = (
    "from assay.cli.app import main; from assay.cli.eval import evaluate_stdin; "
    "main(evaluate_stdin)"
)


@dataclass
class StartedEvaluation:
    """A process that was started from a page; `lines` are the last ones of its stderr."""

    id: str
    config: RunConfig
    process: asyncio.subprocess.Process
    since: str
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_LINES))
    canceled: bool = False
    reader: asyncio.Task[None] | None = None

    @property
    def ended(self) -> bool:
        """Whether the process has exited."""
        return self.process.returncode is not None

    @property
    def message(self) -> str:
        """What the process said last."""
        if self.canceled and not self.ended:
            return "canceling"
        return self.lines[-1] if self.lines else "starting"

    @property
    def view(self) -> "ProgressView":
        """What the process says before there is a run, newest line first."""
        return ProgressView(message=self.message, log="\n".join(reversed(self.lines)))

    def makes(self, line: RunLine) -> bool:
        """Whether a run is of this process; ids of processes are used again."""
        return line.process == self.process.pid and (line.started or "") >= self.since

    def cancel(self) -> None:
        """Send Ctrl-C: what was answered is reported and kept."""
        self.canceled = True
        if not self.ended:
            self.process.send_signal(signal.SIGINT)
            # A process that ignores Ctrl-C must not keep its place.
            asyncio.get_running_loop().call_later(_CANCEL_S, self.kill)

    def kill(self) -> None:
        """End the process at once, if it is still there."""
        if not self.ended:
            self.process.kill()

    async def read_lines(self) -> None:
        """Keep what the process says until it ends: one whose pipe is full would stand still."""
        assert self.process.stderr is not None
        rest = b""
        while rest or not self.process.stderr.at_eof():
            chunk = await self.process.stderr.read(2**16) or b"\n"  # ends the last line
            *lines, rest = (rest + chunk).replace(b"\r", b"\n").split(b"\n")
            # A line that never ends must not fill the memory.
            rest = rest[:_MAX_LINE]
            words = (line.decode("utf-8", "replace").strip() for line in lines)
            self.lines.extend(redact_secrets(each, length=500) for each in words if each)
        await self.process.wait()


class Evaluations:
    """Starts evaluations as separate processes, and keeps the last ones.

    Each process is under `policy`, which it enforces whenever it connects.
    """

    def __init__(self, runs: Path, policy: OutboundPolicy = UNRESTRICTED) -> None:
        self._runs = runs
        self._policy = policy
        self._started: dict[str, StartedEvaluation] = {}
        self._starting = asyncio.Lock()

    def get(self, evaluation_id: str) -> StartedEvaluation | None:
        """The evaluation of that id."""
        return self._started.get(evaluation_id)

    def of_run(self, line: RunLine) -> StartedEvaluation | None:
        """The evaluation that makes a run, while it goes on."""
        return next((each for each in self.running() if each.makes(line)), None)

    def running(self) -> list[StartedEvaluation]:
        """Those that have not ended."""
        return [each for each in self._started.values() if not each.ended]

    async def start(self, config: RunConfig) -> StartedEvaluation:
        """Start an evaluation. Raises `UsageError` if too many are running."""
        async with self._starting:
            if len(self.running()) >= MAX_RUNNING:
                raise UsageError(f"{MAX_RUNNING} evaluations are running; wait for one to finish")
            since = datetime.now(UTC).isoformat(timespec="seconds")
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",  # no module of the working folder takes the place of one of ours
                "-c",
                _START,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, **self._policy.environment, "NO_COLOR": "1"},
                start_new_session=True,  # Ctrl-C at the server is ours to pass on
            )
            assert process.stdin is not None
            process.stdin.write(child_input(config, self._runs))
            process.stdin.close()
            started = StartedEvaluation(uuid.uuid4().hex[:12], config, process, since)
            started.reader = asyncio.create_task(started.read_lines())
            self._started[started.id] = started
        ended = [each.id for each in self._started.values() if each.ended]
        for evaluation_id in ended[: max(0, len(ended) - _MAX_KEPT)]:
            del self._started[evaluation_id]
        return started

    async def close(self) -> None:
        """End what runs, keeping what was answered."""
        running = self.running()
        for each in running:
            each.cancel()
        readers = [each.reader for each in self._started.values() if each.reader]
        if readers:
            await asyncio.wait(readers, timeout=_GRACE_S)
        for each in running:
            each.kill()
        await asyncio.gather(*readers, return_exceptions=True)


def child_input(config: RunConfig, runs: Path) -> bytes:
    """What the process reads: the settings of its run, with secrets, and the folder of runs."""
    return orjson.dumps({"config": config.to_json(full=True), "runs": str(runs)})


@dataclass(frozen=True, slots=True)
class ProgressView:
    """How far something is, as a page shows it; `share` is None if the total is not known.

    `log` has the last lines of what the agent says, or of what the process prints, newest first.
    """

    share: float | None = None
    done: str = ""
    mean: str = ""
    failed: str = ""
    left: str = ""
    message: str = ""
    log: str = ""


class LiveRun:
    """The progress of a run; reads only what has been added to its calls since the last look."""

    def __init__(self, folder: RunFolder, dataset: Dataset | None) -> None:
        self._tail = CallTail(folder.calls_file)
        self._config = folder.read_config()
        self._done = self._failed = 0
        self._elapsed = 0.0
        self._ticks: deque[Tick] = deque(maxlen=1)
        self._said: deque[str] = deque(maxlen=_MAX_LINES)
        self._total = self._config.num_queries
        self._figures: LiveFigures | None = None
        self._dataset = dataset
        if dataset is not None:
            self._total = len(draw_queries(dataset, self._config))
            self._figures = LiveFigures(self._config, dataset, self._total, self._ticks.append)

    def look(self) -> ProgressView:
        """Read the new calls, and say how far the run is."""
        calls = self._tail.read()
        self._said.extend(_said(call, self._config, self._dataset) for call in calls[-_MAX_LINES:])
        again = [call for call in calls if call.asked_again]  # these timed out before
        self._elapsed = max([self._elapsed, *(call.at for call in calls)])
        calls = [call for call in calls if not call.asked_again]
        self._done += len(calls)
        self._failed += sum(call.failure is not None for call in calls)
        self._failed -= sum(call.failure is None for call in again)
        if self._figures is not None and calls:
            self._figures.catch_up(calls)
        done, failed = self._done - self._tail.withdrawn, self._failed - self._tail.withdrawn
        share = done / self._total if self._total else None
        left = ""
        if share and share < 1 and self._elapsed:
            seconds = self._elapsed / share * (1 - share)
            left = f"about {f'{ceil(seconds)} s' if seconds < 60 else duration(seconds)} left"
        return ProgressView(
            share=share,
            done=f"{count(done)} of {count(self._total)}" if self._total else count(done),
            mean="".join(f"{tick.metric} {figure(tick.mean)}" for tick in self._ticks),
            failed=counted(failed, "failure"),
            left=left,
            message="asking",
            log="\n".join(reversed(self._said)),
        )


def _said(call: Call, config: RunConfig, dataset: Dataset | None) -> str:
    """One response of the agent in a line: query, hits, ids; of a private run without texts."""
    words = [call.query_id, duration(call.latency_ms / 1000)]
    if dataset is not None and not config.private and call.query_id in dataset.queries:
        grades = dataset.judgments.get(config.split, {}).get(call.query_id, {})
        hits = sum(grades.get(doc_id, 0) > 0 for doc_id in set(call.doc_ids[: config.top_k]))
        relevant = sum(grade > 0 for grade in grades.values())
        words += [dataset.queries[call.query_id].text[:80], f"{hits} of {relevant} found"]
    if call.failure is not None:
        why = "" if config.private else call.said or call.message
        words.append(f"failed, {call.failure}: {why}")
    else:
        ids = ", ".join(call.doc_ids[:3]) + (", …" if len(call.doc_ids) > 3 else "")
        words.append(f"{counted(len(call.doc_ids), 'document')}{': ' if ids else ''}{ids}")
        if call.answer and not config.private:
            words.append(f"“{call.answer}”")
    return redact_secrets(" · ".join(words)[:2000], length=_MAX_SAID)


async def follow(
    folder: RunFolder, dataset: Dataset | None, started: StartedEvaluation | None
) -> AsyncIterator[ProgressView]:
    """The progress of a run, twice a second while it is written or its process goes on."""
    live = await asyncio.to_thread(LiveRun, folder, dataset)
    running = True
    while running:
        looked = time.monotonic()
        asking = is_locked(folder.calls_file)
        running = asking or (started is not None and not started.ended)
        view = await asyncio.to_thread(live.look)
        if started and (started.canceled or not asking):  # it examines the answers, for example
            view = replace(view, message=started.message)
        yield view
        if running:
            await asyncio.sleep(max(0.0, _INTERVAL_S - (time.monotonic() - looked)))


def event_stream(views: AsyncIterator[ProgressView], location: str) -> Response:
    """Server-sent events: `progress` for each view, then one `final` with the address to go to."""

    async def events() -> AsyncIterator[dict[str, str]]:
        async for view in views:
            yield {"event": "progress", "data": orjson.dumps(asdict(view)).decode()}
        yield {"event": "final", "data": orjson.dumps({"location": location}).decode()}

    # Proxies close a connection on which nothing comes for a while: often after 30 to 60 s.
    return EventSourceResponse(events(), sep="\n", ping=_PING_S)

"""One run of an agent's work, followed by any number of callers.

The work has a task of its own, so that a caller who leaves does not tear it down under another
who asked for the same run; when the last one leaves, it is cancelled.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    error_response,
    to_json,
)
from assay.contract.server.run_log import log_failure
from assay.contract.validation import TaskError

MAX_WAITING_PROGRESS = 1000


class ReportProgress(Protocol):
    """Tells what was done, e.g. `report("candidates found", percent=40, candidates=120)`.

    May be called from any thread. It reaches the caller: no input text in `step`.
    """

    def __call__(self, step: str, *, percent: float | None = None, **counts: int) -> None: ...


Work = Callable[[AgentRunRequest, ReportProgress], Awaitable[AgentRunResponse]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run, as it goes over the wire."""

    status: str
    body: bytes

    @property
    def ok(self) -> bool:
        return self.status != "error"


class Watch:
    """One caller's view of a run. A caller who reads too slowly misses the oldest progress."""

    def __init__(self) -> None:
        self._waiting: deque[dict[str, Any]] = deque(maxlen=MAX_WAITING_PROGRESS)
        self._news = asyncio.Event()
        self._ended = False

    def tell(self, progress: dict[str, Any]) -> None:
        self._waiting.append(progress)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def progress(self) -> AsyncIterator[dict[str, Any]]:
        """Until `end`, not until the task is done: progress may still be on its way then."""
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if self._ended:
                return
            self._news.clear()
            await self._news.wait()


class Execution:
    """Starts the work at once; `task` yields the Outcome, whatever the work does."""

    def __init__(self, request: AgentRunRequest, work: Work, timeout_s: float | None) -> None:
        self.request = request
        self.abandoned = False
        self._stopping = False
        self._watches: set[Watch] = set()
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Task[Outcome] = self._loop.create_task(self._run(work, timeout_s))
        self.task.add_done_callback(self._end)

    @contextmanager
    def watch(self) -> Iterator[Watch]:
        watch = Watch()
        self._watches.add(watch)
        if self.task.done():
            watch.end()
        try:
            yield watch
        finally:
            self._watches.discard(watch)
            if not self._watches and not self.task.done():
                self.abandoned = True
                self.task.cancel()

    def stop(self) -> None:
        """End the run with an error that every caller gets, because the server is going away."""
        if not self._stopping:
            self._stopping = True
            self.task.cancel()

    def _report(self, step: str, *, percent: float | None = None, **counts: int) -> None:
        progress: dict[str, Any] = {"step": step, **counts}
        if percent is not None:
            progress["percent"] = percent
        self._loop.call_soon_threadsafe(self._tell, progress)

    def _tell(self, progress: dict[str, Any]) -> None:
        for watch in self._watches:
            watch.tell(progress)

    def _end(self, _task: asyncio.Task[Outcome]) -> None:
        for watch in self._watches:
            watch.end()

    async def _run(self, work: Work, timeout_s: float | None) -> Outcome:
        started = time.perf_counter()
        response = await self._respond(work, timeout_s)
        try:
            return self._outcome(response, started)
        except Exception as error:  # what the work returned cannot be said in JSON
            return self._outcome(self._broken(error), started)

    async def _respond(self, work: Work, timeout_s: float | None) -> AgentRunResponse:
        limit = asyncio.timeout(timeout_s)
        try:
            async with limit:
                return await work(self.request, self._report)
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            return self._failure(ErrorCode.TASK_FAILED, "the agent is shutting down")
        except TaskError as error:
            return self._failure(error.code, error.message, error.details)
        except Exception as error:
            if limit.expired() and timeout_s is not None:
                message = f"the run took longer than the {timeout_s * 1000:.0f} ms it was given"
                return self._failure(ErrorCode.BUDGET_EXCEEDED, message)
            return self._broken(error)

    def _broken(self, error: Exception) -> AgentRunResponse:
        log_failure(self.request.request_id, self.request.task_type, error)
        message = "the task failed; the agent's log has the cause under this request id"
        return self._failure(ErrorCode.TASK_FAILED, message)

    def _failure(
        self, code: ErrorCode, message: str, details: dict[str, Any] | None = None
    ) -> AgentRunResponse:
        request = self.request
        return error_response(
            code,
            message,
            request_id=request.request_id,
            task_type=request.task_type,
            details=details,
        )

    def _outcome(self, response: AgentRunResponse, started: float) -> Outcome:
        """The echo and the duration are ours to get right, whatever the work filled in."""
        usage = response.usage
        if usage.duration_ms is None:
            duration_ms = round((time.perf_counter() - started) * 1000)
            usage = usage.model_copy(update={"duration_ms": duration_ms})
        update = {
            "request_id": self.request.request_id,
            "task_type": self.request.task_type,
            "usage": usage,
        }
        if not response.ok:
            update["outputs"] = {}
        return Outcome(response.status, to_json(response.model_copy(update=update).to_wire()))


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    max_results: int = 1000
    max_bytes: int = 64_000_000
    ttl_s: float = 600.0


@dataclass(frozen=True, slots=True)
class _Stored:
    fingerprint: bytes
    outcome: Outcome
    expires: float


class Conflict(Exception):
    """The request id already belongs to another body."""


class RunStore:
    """Runs by request id. Bodies are kept as fingerprints only; results leave by age, by number
    and by size, the least recently used first."""

    def __init__(
        self, limits: ReplayLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits or ReplayLimits()
        self._clock = clock
        self._running: dict[str, tuple[bytes, Execution]] = {}
        self._finished: OrderedDict[str, _Stored] = OrderedDict()
        self._bytes = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def stored(self) -> int:
        return len(self._finished)

    def find(self, request_id: str, fingerprint: bytes) -> Execution | Outcome | None:
        self._drop_old()
        if request_id in self._running:
            expected, execution = self._running[request_id]
            if not execution.abandoned:
                _require_same(expected, fingerprint)
                return execution
        stored = self._finished.get(request_id)
        if stored is not None and stored.expires > self._clock():
            _require_same(stored.fingerprint, fingerprint)
            self._finished.move_to_end(request_id)
            return stored.outcome
        return None

    def add(self, execution: Execution, fingerprint: bytes) -> None:
        request_id = execution.request.request_id
        self._running[request_id] = (fingerprint, execution)
        execution.task.add_done_callback(lambda _: self._finish(execution, fingerprint))

    def _finish(self, execution: Execution, fingerprint: bytes) -> None:
        request_id = execution.request.request_id
        _, current = self._running.get(request_id, (b"", None))
        if current is execution:  # an abandoned run may have been followed by a new one
            del self._running[request_id]
        if not execution.task.cancelled() and execution.task.result().ok:
            self._keep(request_id, fingerprint, execution.task.result())

    def _keep(self, request_id: str, fingerprint: bytes, outcome: Outcome) -> None:
        self._drop(request_id)
        expires = self._clock() + self._limits.ttl_s
        self._finished[request_id] = _Stored(fingerprint, outcome, expires)
        self._bytes += len(outcome.body)
        while (
            len(self._finished) > self._limits.max_results or self._bytes > self._limits.max_bytes
        ):
            self._drop(next(iter(self._finished)))

    def _drop_old(self) -> None:
        """Looks only at the front: a result that was used since is found out when it is asked
        for again, or when it gets there."""
        now = self._clock()
        while self._finished:
            request_id, stored = next(iter(self._finished.items()))
            if stored.expires > now:
                return
            self._drop(request_id)

    def _drop(self, request_id: str) -> None:
        stored = self._finished.pop(request_id, None)
        if stored is not None:
            self._bytes -= len(stored.outcome.body)


def _require_same(expected: bytes, got: bytes) -> None:
    if expected != got:
        raise Conflict

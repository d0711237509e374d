"""Runs of an agent's work, by request id.

The same request id with the same body is the same run: joined while it runs, answered from the
store afterward. The work has a task of its own, so that a caller who disconnects does not tear it
down under another who asked for the same run; it is canceled when the last one has left.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import orjson

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    TaskError,
    error_response,
)
from assay.net.json import JsonObject
from assay.privacy import log_exception

MAX_QUEUED_PROGRESS = 1000

_logger = logging.getLogger(__name__)


class ReportProgress(Protocol):
    """Reports a step that was done, e.g. `report("candidates found", percent=40, candidates=120)`.

    It may be called from any thread. Callers of the agent see it: no input text in `step`.
    """

    def __call__(self, step: str, *, percent: float | None = None, **counts: int) -> None: ...


Work = Callable[[AgentRunRequest, ReportProgress], Awaitable[AgentRunResponse]]
"""What an agent does for one request. `TaskError` ends it with an error of its own choice."""

ProgressData = dict[str, str | int | float]
"""The data of a progress event."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run: its status, and the response as the bytes that go over the wire."""

    status: str
    body: bytes

    @property
    def ok(self) -> bool:
        """Whether the run succeeded, in whole or in part."""
        return self.status != "error"


class Watch:
    """One caller's view of a run. A caller who reads too slowly misses the oldest progress."""

    def __init__(self) -> None:
        self._queue: deque[ProgressData] = deque(maxlen=MAX_QUEUED_PROGRESS)
        self._changed = asyncio.Event()
        self._ended = False

    def add(self, progress: ProgressData) -> None:
        """Queue a step for the caller."""
        self._queue.append(progress)
        self._changed.set()

    def end(self) -> None:
        """No further progress comes."""
        self._ended = True
        self._changed.set()

    async def progress(self) -> AsyncIterator[ProgressData]:
        """Each step until `end`; not until the task is done, when some may still be queued."""
        while True:
            while self._queue:
                yield self._queue.popleft()
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()


class Execution:
    """One run; it starts at once. `task` always returns a `RunResult`, even if the work fails.

    Parameters:
        request: what the work is called with.
        work: the agent.
        timeout_s: seconds after which the run ends with BUDGET_EXCEEDED.
    """

    def __init__(self, request: AgentRunRequest, work: Work, timeout_s: float | None) -> None:
        self.request = request
        self.abandoned = False
        self._stopping = False
        self._watches: set[Watch] = set()
        self._loop = asyncio.get_running_loop()
        self.task: asyncio.Task[RunResult] = self._loop.create_task(self._run(work, timeout_s))
        self.task.add_done_callback(self._end)

    @contextmanager
    def watch(self) -> Iterator[Watch]:
        """Follow the run. Leaving the last watch cancels it."""
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
        """End the run with an error that every caller gets, because the server shuts down."""
        if not self._stopping:
            self._stopping = True
            self.task.cancel()

    def _report(self, step: str, *, percent: float | None = None, **counts: int) -> None:
        progress: ProgressData = {"step": step, **counts}
        if percent is not None:
            progress["percent"] = percent
        self._loop.call_soon_threadsafe(self._publish, progress)

    def _publish(self, progress: ProgressData) -> None:
        for watch in self._watches:
            watch.add(progress)

    def _end(self, _task: asyncio.Task[RunResult]) -> None:
        for watch in self._watches:
            watch.end()

    async def _run(self, work: Work, timeout_s: float | None) -> RunResult:
        started = time.perf_counter()
        response = await self._respond(work, timeout_s)
        try:
            return self._result(response, started)
        except Exception as error:  # what the work returned cannot be written as JSON
            return self._result(self._broken(error), started)

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
                message = f"the run took longer than its budget of {timeout_s * 1000:.0f} ms"
                return self._failure(ErrorCode.BUDGET_EXCEEDED, message)
            return self._broken(error)

    def _broken(self, error: Exception) -> AgentRunResponse:
        ids = {"request_id": self.request.request_id, "task_type": self.request.task_type}
        log_exception(_logger, "work failed", error, **ids)
        message = "the task failed; the agent's log has the cause under this request id"
        return self._failure(ErrorCode.TASK_FAILED, message)

    def _failure(
        self, code: ErrorCode, message: str, details: JsonObject | None = None
    ) -> AgentRunResponse:
        request = self.request
        return error_response(
            code,
            message,
            request_id=request.request_id,
            task_type=request.task_type,
            details=details,
        )

    def _result(self, response: AgentRunResponse, started: float) -> RunResult:
        """The echoed ids and the duration are always set here, not by the work."""
        usage = response.usage
        if usage.duration_ms is None:
            duration_ms = round((time.perf_counter() - started) * 1000)
            usage = usage.model_copy(update={"duration_ms": duration_ms})
        update: JsonObject = {
            "request_id": self.request.request_id,
            "task_type": self.request.task_type,
            "usage": usage,
        }
        if not response.ok:
            update["outputs"] = {}
        wire = response.model_copy(update=update).to_wire()
        return RunResult(response.status, orjson.dumps(wire))


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    """How many results are kept for repeated requests, in how many bytes, for how long."""

    max_results: int = 1000
    max_bytes: int = 64_000_000
    ttl_s: float = 600.0


@dataclass(frozen=True, slots=True)
class _Stored:
    fingerprint: bytes
    result: RunResult
    expires: float


class RequestIdConflict(Exception):
    """The request id already belongs to another body."""


class RunStore:
    """Runs by request id. Only good results are kept: a run that failed may succeed next time.

    Of a body only the fingerprint is kept. Results are evicted by age, by number and by size, the
    least recently used first.
    """

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
        """How many runs are in progress."""
        return len(self._running)

    def find(self, request_id: str, fingerprint: bytes) -> Execution | RunResult | None:
        """The run of this request, if there is one. Raises `RequestIdConflict`."""
        self._evict_expired()
        if request_id in self._running:
            expected, execution = self._running[request_id]
            if not execution.abandoned:
                _require_same(expected, fingerprint)
                return execution
        stored = self._finished.get(request_id)
        if stored is not None and stored.expires > self._clock():
            _require_same(stored.fingerprint, fingerprint)
            self._finished.move_to_end(request_id)
            return stored.result
        return None

    def add(self, execution: Execution, fingerprint: bytes) -> None:
        """Register a run that has started."""
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

    def _keep(self, request_id: str, fingerprint: bytes, result: RunResult) -> None:
        self._evict(request_id)
        expires = self._clock() + self._limits.ttl_s
        self._finished[request_id] = _Stored(fingerprint, result, expires)
        self._bytes += len(result.body)
        while (
            len(self._finished) > self._limits.max_results or self._bytes > self._limits.max_bytes
        ):
            self._evict(next(iter(self._finished)))

    def _evict_expired(self) -> None:
        """Looks only at the front: a result that was used since expires when it is asked for."""
        now = self._clock()
        while self._finished:
            request_id, stored = next(iter(self._finished.items()))
            if stored.expires > now:
                return
            self._evict(request_id)

    def _evict(self, request_id: str) -> None:
        stored = self._finished.pop(request_id, None)
        if stored is not None:
            self._bytes -= len(stored.result.body)


def _require_same(expected: bytes, got: bytes) -> None:
    if expected != got:
        raise RequestIdConflict

"""One run of an agent's work, followed by any number of callers.

The work has a task of its own, so that a caller who leaves does not tear it down under another
who asked for the same run; when the last one leaves, it is cancelled.
"""

import asyncio
import time
from collections import deque
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
from assay.contract.refusals import TaskError
from assay.contract.serving.runlog import log_failure

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

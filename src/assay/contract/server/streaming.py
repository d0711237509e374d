"""A run as server-sent events: started, progress as it is made, one terminal event."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import anyio
import orjson
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from assay.contract.envelope import AgentRunRequest
from assay.contract.server.runs import Execution, RunResult, Watch
from assay.net.sse import format_event

# How long a server that shuts down waits until the terminal events of open streams are sent.
_SHUTDOWN_GRACE_S = 2.0


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


# The library's debug messages quote what is sent. A filter, unlike a level, still holds when
# debug logging is turned on for everything.
logging.getLogger("sse_starlette.sse").addFilter(_above_debug)


class RunStream:
    """The ASGI response to one streaming request.

    Parameters:
        request: what is run.
        run: the run in progress, or its result where that is already known.
        heartbeat_s: seconds between comments, so that no proxy takes the stream for dead.
        on_end: called with the status of the run, or "cancelled" when the client disconnected
            before the end: its connection closing is what cancels the run.
    """

    def __init__(
        self,
        request: AgentRunRequest,
        run: Execution | RunResult,
        *,
        heartbeat_s: float,
        on_end: Callable[[str], None],
    ) -> None:
        self._request = request
        self._run = run
        self._heartbeat_s = heartbeat_s
        self._on_end = on_end
        self._status = "cancelled"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if isinstance(self._run, RunResult):
                await self._respond(self._replay(self._run), anyio.Event())(scope, receive, send)
            else:
                await self._respond_live(self._run, scope, receive, send)
        finally:
            self._on_end(self._status)

    async def _respond_live(
        self, run: Execution, scope: Scope, receive: Receive, send: Send
    ) -> None:
        stopping = anyio.Event()
        with run.watch() as watch:
            stopper = asyncio.create_task(_stop_when(stopping, run))
            try:
                await self._respond(self._follow(run, watch), stopping)(scope, receive, send)
            finally:
                stopper.cancel()

    def _respond(self, events: AsyncIterator[bytes], stopping: anyio.Event) -> EventSourceResponse:
        return EventSourceResponse(
            events,
            sep="\n",
            ping=self._heartbeat_s,
            ping_message_factory=lambda: ServerSentEvent(comment="heartbeat", sep="\n"),
            shutdown_event=stopping,
            shutdown_grace_period=_SHUTDOWN_GRACE_S,
        )

    async def _follow(self, run: Execution, watch: Watch) -> AsyncIterator[bytes]:
        yield self._started()
        async for progress in watch.progress():
            yield _event("progress", {**progress, "request_id": self._request.request_id})
        yield self._final(run.task.result())

    async def _replay(self, result: RunResult) -> AsyncIterator[bytes]:
        yield self._started()
        yield self._final(result)

    def _started(self) -> bytes:
        request = self._request
        return _event("started", {"request_id": request.request_id, "task_type": request.task_type})

    def _final(self, result: RunResult) -> bytes:
        self._status = result.status
        return _event("final", orjson.loads(result.body))


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return format_event(name, data).encode()


async def _stop_when(stopping: anyio.Event, run: Execution) -> None:
    await stopping.wait()
    run.stop()

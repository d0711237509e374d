"""A run told as server-sent events: started, progress as it is made, one terminal event."""

import asyncio
from collections.abc import AsyncIterator, Callable

import anyio
import orjson
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.types import Receive, Scope, Send

from assay.contract.envelope import AgentRunRequest
from assay.contract.server.run_log import keep_payloads_out_of
from assay.contract.server.runs import Execution, Outcome, Watch
from assay.net.sse import format_event

keep_payloads_out_of("sse_starlette.sse")

# How long a stopping server waits for the terminal events of its open streams to be sent.
_FAREWELL_S = 2.0


class RunStream:
    """An ASGI application for one request. `run` is an Outcome where it is already known.

    `ended` is told the status and the bytes sent, also when the client left before the end:
    its connection closing is what cancels the run.
    """

    def __init__(
        self,
        request: AgentRunRequest,
        run: Execution | Outcome,
        *,
        heartbeat_s: float,
        ended: Callable[[str, int], None],
    ) -> None:
        self._request = request
        self._run = run
        self._heartbeat_s = heartbeat_s
        self._ended = ended
        self._status = "cancelled"
        self._sent = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if isinstance(self._run, Outcome):
                await self._respond(self._repeat(self._run), anyio.Event())(scope, receive, send)
            else:
                await self._follow_live(self._run, scope, receive, send)
        finally:
            self._ended(self._status, self._sent)

    async def _follow_live(
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
            shutdown_grace_period=_FAREWELL_S,
        )

    async def _follow(self, run: Execution, watch: Watch) -> AsyncIterator[bytes]:
        yield self._started()
        async for progress in watch.progress():
            yield self._event("progress", {**progress, "request_id": self._request.request_id})
        yield self._final(run.task.result())

    async def _repeat(self, outcome: Outcome) -> AsyncIterator[bytes]:
        yield self._started()
        yield self._final(outcome)

    def _started(self) -> bytes:
        request = self._request
        return self._event(
            "started", {"request_id": request.request_id, "task_type": request.task_type}
        )

    def _final(self, outcome: Outcome) -> bytes:
        self._status = outcome.status
        return self._event("final", orjson.loads(outcome.body))

    def _event(self, name: str, data: dict[str, object]) -> bytes:
        event = format_event(name, data).encode()
        self._sent += len(event)
        return event


async def _stop_when(stopping: anyio.Event, run: Execution) -> None:
    await stopping.wait()
    run.stop()

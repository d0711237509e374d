"""Following one stream from its first byte to its terminal event, and noticing every breach."""

from dataclasses import dataclass, field
from typing import Any

from assay.contract.calling.failures import AgentCallError, Fault
from assay.contract.calling.reading import TERMINAL_EVENTS, event_name, read_object, read_response
from assay.contract.envelope import AgentRunRequest, AgentRunResponse
from assay.contract.sse import Event, EventReader, EventTooLarge


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """`data` is empty where it was not an object. Only the terminal event has a `response`."""

    name: str
    data: dict[str, Any] = field(default_factory=dict, repr=False)
    response: AgentRunResponse | None = field(default=None, repr=False)


class StreamResult:
    """The terminal event is held back until the stream has ended, so that whoever gets it knows
    that nothing came after it."""

    def __init__(self, request: AgentRunRequest, max_bytes: int) -> None:
        self.terminal: AgentEvent | None = None
        self._request = request
        self._reader = EventReader()
        self._bytes_left = max_bytes
        self._max_bytes = max_bytes
        self._events = 0

    def feed(self, chunk: bytes) -> list[AgentEvent]:
        self._bytes_left -= len(chunk)
        if self._bytes_left < 0:
            raise self.breach(Fault.TOO_LARGE, f"the stream is larger than {self._max_bytes} bytes")
        try:
            events = self._reader.feed(chunk)
        except EventTooLarge as error:
            raise self.breach(Fault.TOO_LARGE, str(error)) from None
        accepted = (self._accept(event) for event in events)
        return [event for event in accepted if event is not None]

    def close(self) -> AgentEvent:
        clean = self._reader.close()
        if self.terminal is not None:
            return self.terminal
        if not self._events and self._reader.problems and clean:
            problems = "; ".join(self._reader.problems)
            raise self.breach(Fault.FRAMING, f"the stream holds no events: {problems}")
        where = "" if clean else " (it broke off inside an event)"
        raise self.breach(
            Fault.TRUNCATED,
            f"the stream ended after {self._events} events without a terminal one{where}",
        )

    def breach(self, fault: Fault, message: str) -> AgentCallError:
        response = self.terminal.response if self.terminal else None
        return AgentCallError(fault, message, response=response)

    def _accept(self, event: Event) -> AgentEvent | None:
        self._events += 1
        data = _data_of(event)
        name = event_name(event, data)
        if self.terminal is not None:
            raise self._after_terminal(name)
        if name not in TERMINAL_EVENTS:
            return AgentEvent(name, data)
        response = expect_echo(read_response(read_object(event.data)), self._request)
        self.terminal = AgentEvent(name, data, response)
        return None

    def _after_terminal(self, name: str) -> AgentCallError:
        if name in TERMINAL_EVENTS:
            return self.breach(Fault.SECOND_TERMINAL, "the stream has a second terminal event")
        return self.breach(Fault.AFTER_TERMINAL, "the stream goes on after its terminal event")


def expect_echo(response: AgentRunResponse, request: AgentRunRequest) -> AgentRunResponse:
    """An answer to another request must never be taken for ours."""
    if response.request_id != request.request_id:
        raise AgentCallError(Fault.NOT_CONTRACT, "the answer has another request_id than was sent")
    if response.task_type not in (None, request.task_type):
        raise AgentCallError(Fault.NOT_CONTRACT, "the answer has another task_type than was sent")
    return response


def _data_of(event: Event) -> dict[str, Any]:
    try:
        return read_object(event.data)
    except AgentCallError:
        return {}

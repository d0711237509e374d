"""Calling agents: one shared HTTP client, bounded in time and size, honest about what went wrong.

async with AgentClient() as client:
    response = await client.run_sync("http://localhost:8000", request)
    async with aclosing(client.run_stream("http://localhost:8000", request)) as events:
        async for event in events:
            ...  # the last one carries event.response
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx

from assay.contract.circuit import CircuitBreaker
from assay.contract.endpoints import authorization, read_endpoints, resolve, shown_address
from assay.contract.envelope import AgentRunRequest, AgentRunResponse
from assay.contract.responses import (
    TERMINAL_EVENTS,
    AgentCallError,
    Fault,
    event_name,
    read_body,
    read_object,
    read_response,
    require,
)
from assay.net.sse import Event, EventReader, EventTooLarge


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Seconds and bytes. `linger_s`: how long a stream may stay open after its terminal event."""

    connect_s: float = 5.0
    sync_s: float = 30.0
    stream_s: float = 300.0
    idle_s: float = 60.0
    linger_s: float = 2.0
    max_bytes: int = 32_000_000


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


class AgentClient:
    """`agent` is a name from `endpoints` (AGENT_ENDPOINTS_JSON when not given) or an address.

    `token` goes to every agent that is called.
    """

    def __init__(
        self,
        *,
        http: httpx.AsyncClient | None = None,
        endpoints: Mapping[str, str] | None = None,
        limits: ClientLimits | None = None,
        token: str | None = None,
        failures_to_open: int = 5,
        recovery_s: float = 30.0,
    ) -> None:
        self._http = http or httpx.AsyncClient()
        self._owns_http = http is None
        self._endpoints = read_endpoints() if endpoints is None else endpoints
        self._limits = limits or ClientLimits()
        self._authorization = authorization(token)
        self._failures_to_open = failures_to_open
        self._recovery_s = recovery_s
        self._circuits: dict[str, CircuitBreaker] = {}

    async def run_sync(self, agent: str, request: AgentRunRequest) -> AgentRunResponse:
        """A response with status "error" is returned; every other failure is raised."""
        base = resolve(agent, self._endpoints)
        with self._circuit(base).call(), _as_call_errors(Fault.TIMEOUT, base):
            async with asyncio.timeout(self._limits.sync_s):
                async with self._post(base, "sync", request, self._limits.sync_s) as answer:
                    await require("application/json", answer, self._limits.max_bytes)
                    body = read_object(await read_body(answer, self._limits.max_bytes))
            return expect_echo(read_response(body), request)

    async def run_stream(
        self, agent: str, request: AgentRunRequest
    ) -> AsyncGenerator[AgentEvent, None]:
        """The events as they come; the last carries `response`. Leaving early closes the stream
        (wrap it in `contextlib.aclosing`), which tells the agent to stop working."""
        base = resolve(agent, self._endpoints)
        with self._circuit(base).call(), _as_call_errors(Fault.IDLE, base):
            async with self._post(base, "stream", request, self._limits.idle_s) as answer:
                await require("text/event-stream", answer, self._limits.max_bytes)
                result = StreamResult(request, self._limits.max_bytes)
                async for chunk in self._chunks(answer, result):
                    for event in result.feed(chunk):
                        yield event
                last = result.close()
        yield last

    async def aclose(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    def _circuit(self, base: str) -> CircuitBreaker:
        if base not in self._circuits:
            self._circuits[base] = CircuitBreaker(self._failures_to_open, self._recovery_s)
        return self._circuits[base]

    def _post(
        self, base: str, way: str, request: AgentRunRequest, read_s: float
    ) -> AbstractAsyncContextManager[httpx.Response]:
        headers = {
            "Content-Type": "application/json",
            # Without compression, what is counted is what is held in memory.
            "Accept-Encoding": "identity",
            "X-Request-ID": request.request_id.encode("ascii", "backslashreplace").decode(),
            **self._authorization,
        }
        return self._http.stream(
            "POST",
            f"{base}/agents/run/{way}",
            content=request.to_wire(),
            headers=headers,
            timeout=httpx.Timeout(read_s, connect=self._limits.connect_s),
            follow_redirects=False,
        )

    async def _chunks(self, answer: httpx.Response, result: StreamResult) -> AsyncIterator[bytes]:
        """Bytes until the stream ends or its time is up, whichever is first."""
        now = asyncio.get_running_loop().time
        deadline = now() + self._limits.stream_s
        source = answer.aiter_bytes()
        while True:
            if result.terminal is not None:
                deadline = min(deadline, now() + self._limits.linger_s)
            try:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(source, None)
            except TimeoutError:
                raise self._endless(result) from None
            except (httpx.RemoteProtocolError, httpx.ReadError):
                chunk = None  # cut off: the result knows whether anything is missing
            if chunk is None:
                return
            yield chunk

    def _endless(self, result: StreamResult) -> AgentCallError:
        if result.terminal is not None:
            message = "the stream stays open after its terminal event"
        else:
            message = f"no terminal event came within {self._limits.stream_s:g} s"
        return result.breach(Fault.ENDLESS, message)


@contextmanager
def _as_call_errors(silence: Fault, base: str) -> Iterator[None]:
    """`silence` is what it means that no byte came for as long as was allowed."""
    base = shown_address(base)
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        message = f"no connection to {base} ({type(error).__name__}); is the agent running?"
        raise AgentCallError(Fault.UNREACHABLE, message) from None
    except httpx.TimeoutException:
        raise AgentCallError(silence, f"{base} went silent and the wait was given up") from None
    except TimeoutError:
        raise AgentCallError(Fault.TIMEOUT, f"{base} did not answer in time") from None
    except httpx.HTTPError as error:
        message = f"the connection to {base} broke ({type(error).__name__})"
        raise AgentCallError(Fault.UNREACHABLE, message) from None

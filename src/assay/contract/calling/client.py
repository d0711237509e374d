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
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from assay.contract.calling.answers import read_body, require
from assay.contract.calling.circuit import CircuitBreaker
from assay.contract.calling.endpoints import authorization, read_endpoints, resolve, shown_address
from assay.contract.calling.failures import AgentCallError, Fault
from assay.contract.calling.reading import read_object, read_response
from assay.contract.calling.stream_result import AgentEvent, StreamResult, expect_echo
from assay.contract.envelope import AgentRunRequest, AgentRunResponse


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Seconds and bytes. `linger_s`: how long a stream may stay open after its terminal event."""

    connect_s: float = 5.0
    sync_s: float = 30.0
    stream_s: float = 300.0
    idle_s: float = 60.0
    linger_s: float = 2.0
    max_bytes: int = 32_000_000


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

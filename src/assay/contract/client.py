"""Calling agents: one shared HTTP client, bounded in time and size, with classified errors.

async with AgentClient() as client:
    response = await client.run_sync("http://localhost:8000", request)
    async with aclosing(client.run_stream("http://localhost:8000", request)) as events:
        async for event in events:
            ...  # the last one carries event.response
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpx
import orjson

from assay.contract.envelope import AgentRunRequest, AgentRunResponse
from assay.contract.responses import (
    TERMINAL_EVENTS,
    AgentCallError,
    Fault,
    check_echo,
    check_response,
    event_name,
    parse_response,
    parse_response_object,
)
from assay.errors import UsageError
from assay.net.client import (
    MAX_BYTES_EXTENSION,
    EncodingRefused,
    ResponseTooLarge,
    open_client,
)
from assay.net.http import HttpBreach, breach_of, connect_reason
from assay.net.json import JsonObject, parse_json, parse_object
from assay.net.outbound import OutboundRefused
from assay.net.redact import redact_url
from assay.net.retry import CircuitBreaker, CircuitOpen
from assay.net.sse import Event, EventReader, EventTooLarge

ENDPOINTS_VARIABLE = "AGENT_ENDPOINTS_JSON"

_BREACHES = {
    HttpBreach.NO_ANSWER: Fault.UNREACHABLE,
    HttpBreach.CUT_OFF: Fault.CUT_OFF,
    HttpBreach.NOT_HTTP: Fault.NOT_HTTP,
}


def read_endpoints(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """AGENT_ENDPOINTS_JSON, {"agent-name": "http://..."}; empty when the variable is not set."""
    text = environment.get(ENDPOINTS_VARIABLE, "").strip()
    if not text:
        return {}
    try:
        value = parse_json(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{ENDPOINTS_VARIABLE} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f'{ENDPOINTS_VARIABLE} must be an object, {{"agent-name": "http://..."}}')
    return {
        name: check_base_url(url, f"{ENDPOINTS_VARIABLE}, {name!r}") for name, url in value.items()
    }


def resolve_agent(agent: str, endpoints: Mapping[str, str]) -> str:
    """The base address of an agent that is given by name or by address."""
    if "://" in agent:
        return check_base_url(agent, "agent")
    if agent in endpoints:
        return endpoints[agent]
    known = ", ".join(sorted(endpoints)) or "none"
    raise UsageError(
        f"unknown agent {agent!r}; write its URL, such as http://host:8000, or a name that "
        f"{ENDPOINTS_VARIABLE} has: {known}"
    )


def check_base_url(url: object, what: str) -> str:
    """`url` without a slash at its end. Raises `UsageError`, which starts with `what`."""
    if not isinstance(url, str):
        raise UsageError(f"{what}: expected an http(s) URL, got {type(url).__name__}")
    try:
        parts, parsed = urlsplit(url), httpx.URL(url)
        is_base = parts.scheme in ("http", "https") and bool(parsed.host)
        is_base = is_base and not (parts.query or parts.fragment) and parts.port != 0
    except (ValueError, httpx.InvalidURL):  # a broken IPv6 address, a malformed port, ...
        is_base = False
    if not is_base:
        got = "it" if "@" in url else repr(url)  # before an @ there may be a password
        raise UsageError(f"{what}: {got} is not an http(s) URL such as http://host:8000")
    return url.rstrip("/")


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Seconds and bytes.

    Parameters:
        connect_s: for opening a connection.
        sync_s: for a sync run as a whole.
        stream_s: for a stream as a whole.
        idle_s: between two pieces of a stream.
        linger_s: how long a stream may stay open after its terminal event.
        max_bytes: for one response.
    """

    connect_s: float = 5.0
    sync_s: float = 30.0
    stream_s: float = 300.0
    idle_s: float = 60.0
    linger_s: float = 2.0
    max_bytes: int = 32_000_000


@dataclass(frozen=True, slots=True)
class AgentEvent:
    """`data` is empty if it was not an object. Only the terminal event has a `response`."""

    name: str
    data: JsonObject = field(default_factory=dict, repr=False)
    response: AgentRunResponse | None = field(default=None, repr=False)


class StreamReader:
    """Follows one stream from its first byte to its terminal event, and notices every fault.

    The terminal event is held back until the stream has ended, so that a caller who gets it knows
    that nothing came after it.
    """

    def __init__(self, request: AgentRunRequest) -> None:
        self.terminal: AgentEvent | None = None
        self._request = request
        self._reader = EventReader()
        self._events = 0

    def feed(self, chunk: bytes) -> list[AgentEvent]:
        """The events that `chunk` completes, without the terminal one."""
        try:
            events = self._reader.feed(chunk)
        except EventTooLarge as error:
            raise self.fault(Fault.TOO_LARGE, str(error)) from None
        accepted = (self._accept(event) for event in events)
        return [event for event in accepted if event is not None]

    def close(self) -> AgentEvent:
        """The terminal event of a stream that has ended."""
        clean = self._reader.close()
        if self.terminal is not None:
            return self.terminal
        if not self._events and self._reader.problems and clean:
            problems = "; ".join(self._reader.problems)
            raise self.fault(Fault.FRAMING, f"the stream has no events: {problems}")
        where = "" if clean else " (it was cut off inside an event)"
        message = f"the stream ended after {self._events} events without a terminal one{where}"
        raise self.fault(Fault.TRUNCATED, message)

    def fault(self, fault: Fault, message: str) -> AgentCallError:
        """An error that carries the result, where it has come already."""
        response = self.terminal.response if self.terminal else None
        return AgentCallError(fault, message, response=response)

    def _accept(self, event: Event) -> AgentEvent | None:
        self._events += 1
        data = parse_object(event.data) or {}
        name = event_name(event, data)
        if self.terminal is not None:
            raise self._after_terminal(name)
        if name not in TERMINAL_EVENTS:
            return AgentEvent(name, data)
        response = check_echo(parse_response(parse_response_object(event.data)), self._request)
        self.terminal = AgentEvent(name, data, response)
        return None

    def _after_terminal(self, name: str) -> AgentCallError:
        if name in TERMINAL_EVENTS:
            return self.fault(Fault.SECOND_TERMINAL, "the stream has a second terminal event")
        return self.fault(Fault.AFTER_TERMINAL, "the stream continues after its terminal event")


class AgentClient:
    """A client of any number of agents, with one circuit breaker for each.

    Parameters:
        http: a client of `assay.net.client.open_client` to share; it is left open.
        auth: credentials for calls, such as `TokenFor`, where `http` is not given.
        endpoints: names of agents and their addresses; AGENT_ENDPOINTS_JSON by default.
        limits: seconds and bytes.
        failures_to_open: failures in a row after which an agent is not called; None for never.
        recovery_s: seconds until it is tried again.
    """

    def __init__(
        self,
        *,
        http: httpx.AsyncClient | None = None,
        auth: httpx.Auth | None = None,
        endpoints: Mapping[str, str] | None = None,
        limits: ClientLimits | None = None,
        failures_to_open: int | None = 5,
        recovery_s: float = 30.0,
    ) -> None:
        self._http = http or open_client(auth=auth)
        self._owns_http = http is None
        self._endpoints = read_endpoints() if endpoints is None else endpoints
        self._limits = limits or ClientLimits()
        self._failures_to_open = failures_to_open
        self._recovery_s = recovery_s
        self._breakers: dict[str, CircuitBreaker] = {}

    async def run_sync(self, agent: str, request: AgentRunRequest) -> AgentRunResponse:
        """Run `request` on an agent, given by name or address, and return its response.

        A response with status "error" is returned; every other failure raises `AgentCallError`.
        """
        base = resolve_agent(agent, self._endpoints)
        with self._breaker_of(base), _classify_errors(Fault.TIMEOUT, base):
            async with asyncio.timeout(self._limits.sync_s):
                async with self._post(base, "sync", request, self._limits.sync_s) as response:
                    await check_response("application/json", response)
                    body = parse_response_object(await response.aread())
            return check_echo(parse_response(body), request)

    async def run_stream(
        self, agent: str, request: AgentRunRequest
    ) -> AsyncGenerator[AgentEvent, None]:
        """The events as they come; the last one carries `response`.

        Leaving early closes the stream (wrap it in `contextlib.aclosing`), which signals
        the agent to stop.
        """
        base = resolve_agent(agent, self._endpoints)
        with self._breaker_of(base), _classify_errors(Fault.IDLE, base):
            async with AsyncExitStack() as stack:
                deadline = asyncio.get_running_loop().time() + self._limits.stream_s
                async with asyncio.timeout_at(deadline):
                    post = self._post(base, "stream", request, self._limits.idle_s)
                    response = await stack.enter_async_context(post)
                    await check_response("text/event-stream", response)
                reader = StreamReader(request)
                async for chunk in self._chunks(response, reader, deadline):
                    for event in reader.feed(chunk):
                        yield event
                last = reader.close()
        yield last

    async def aclose(self) -> None:
        """Close the HTTP client, unless it was given."""
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

    @contextmanager
    def _breaker_of(self, base: str) -> Iterator[None]:
        """Around one call; fails at once while the agent's breaker is open."""
        if self._failures_to_open is None:
            yield
            return
        if base not in self._breakers:
            self._breakers[base] = CircuitBreaker(
                threshold=self._failures_to_open,
                pauses=(self._recovery_s,),
                repeat_last_pause=True,
            )
        try:
            with self._breakers[base].call(_is_outage):
                yield
        except CircuitOpen as error:
            message = (
                f"not called: {redact_url(base)} failed {error.failures} times in a row; "
                f"next attempt in {error.retry_after:.0f} s"
            )
            raise AgentCallError(
                Fault.CIRCUIT_OPEN, message, retry_after=error.retry_after
            ) from None

    def _post(
        self, base: str, way: str, request: AgentRunRequest, read_s: float
    ) -> AbstractAsyncContextManager[httpx.Response]:
        headers = {
            "Content-Type": "application/json",
            "X-Request-ID": request.request_id.encode("ascii", "backslashreplace").decode(),
        }
        return self._http.stream(
            "POST",
            f"{base}/agents/run/{way}",
            content=request.to_wire(),
            headers=headers,
            timeout=httpx.Timeout(read_s, connect=self._limits.connect_s),
            follow_redirects=False,
            extensions={MAX_BYTES_EXTENSION: self._limits.max_bytes},
        )

    async def _chunks(
        self, response: httpx.Response, reader: StreamReader, deadline: float
    ) -> AsyncIterator[bytes]:
        """Bytes until the stream ends or its time is up, whichever is first."""
        now = asyncio.get_running_loop().time
        source = response.aiter_bytes()
        while True:
            if reader.terminal is not None:
                deadline = min(deadline, now() + self._limits.linger_s)
            try:
                async with asyncio.timeout_at(deadline):
                    chunk = await anext(source, None)
            except TimeoutError:
                raise self._endless(reader) from None
            except ResponseTooLarge as error:
                raise reader.fault(Fault.TOO_LARGE, str(error)) from None
            except httpx.RemoteProtocolError:
                chunk = None  # cut off: the reader knows whether anything is missing
            except httpx.ReadError:
                if reader.terminal is None:
                    raise
                chunk = None
            if chunk is None:
                return
            yield chunk

    def _endless(self, reader: StreamReader) -> AgentCallError:
        if reader.terminal is not None:
            message = "the stream stays open after its terminal event"
        else:
            message = f"no terminal event within {self._limits.stream_s:g} s"
        return reader.fault(Fault.ENDLESS, message)


def _is_outage(error: Exception) -> bool | None:
    """A request that the agent rejects for its content says that the agent is well."""
    return error.fault is not Fault.REFUSED if isinstance(error, AgentCallError) else None


@contextmanager
def _classify_errors(silence: Fault, base: str) -> Iterator[None]:
    """`silence` is the fault of an agent that sent no byte for as long as it was allowed to."""
    base = redact_url(base)
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        message = f"no connection to {base} ({connect_reason(error)}); is the agent running?"
        raise AgentCallError(Fault.UNREACHABLE, message) from None
    except httpx.TimeoutException:
        raise AgentCallError(
            silence, f"{base} stopped sending before the response was complete"
        ) from None
    except TimeoutError:
        raise AgentCallError(Fault.TIMEOUT, f"no complete response from {base} in time") from None
    except OutboundRefused as error:
        raise AgentCallError(Fault.REFUSED, str(error)) from None
    except ResponseTooLarge as error:
        raise AgentCallError(Fault.TOO_LARGE, str(error)) from None
    except EncodingRefused as error:
        raise AgentCallError(Fault.CONTENT_TYPE, str(error)) from None
    except httpx.RemoteProtocolError as error:
        breach = breach_of(error)
        raise AgentCallError(_BREACHES[breach], f"{base}: {breach}") from None
    except httpx.HTTPError as error:
        message = f"the connection to {base} broke ({type(error).__name__})"
        raise AgentCallError(Fault.UNREACHABLE, message) from None

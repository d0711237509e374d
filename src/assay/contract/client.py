"""Calling agents: any accepted dialect in, one response out, or an `AgentFailure`.

    response = await run_sync(http, "http://localhost:8000", request)
    response = await run_stream(http, "http://localhost:8000", request)

`http` is a client of `assay.net.client.open_client`. The caller bounds the time of a call.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic import ValidationError

from assay.contract.envelope import (
    SUCCESS_STATUSES,
    AgentRunRequest,
    AgentRunResponse,
    field_problems,
)
from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.http import exchange, failure_of_status, read_error_body, too_large
from assay.net.json import JsonObject, parse_object
from assay.net.outbound import split_address
from assay.net.redact import quote, redact_url
from assay.net.sse import Event, EventReader, EventTooLarge

ENDPOINTS_VARIABLE = "AGENT_ENDPOINTS_JSON"
TERMINAL_EVENTS = frozenset({"final", "complete", "done"})
MAX_BYTES = 8_000_000

_REQUIRED = frozenset({"request_id", "status", "outputs", "task_type"})


def read_endpoints(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """AGENT_ENDPOINTS_JSON, {"agent-name": "http://..."}; empty when the variable is not set."""
    text = environment.get(ENDPOINTS_VARIABLE, "").strip()
    endpoints = parse_object(text or "{}")
    if endpoints is None:
        raise UsageError(
            f'{ENDPOINTS_VARIABLE} is not a JSON object, {{"agent-name": "http://..."}}'
        )
    return {
        name: check_base_url(url, f"{ENDPOINTS_VARIABLE}, {name!r}")
        for name, url in endpoints.items()
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
    try:
        split_address(str(url))
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None
    if urlsplit(str(url)).query or urlsplit(str(url)).fragment:
        raise UsageError(f"{what}: {redact_url(str(url))!r} has a query or fragment; leave it out")
    return str(url).rstrip("/")


async def run_sync(
    http: httpx.AsyncClient, base: str, request: AgentRunRequest
) -> AgentRunResponse:
    """Run `request` on the agent at `base`; a response with status "error" is returned."""
    async with _post(http, base, "sync", "application/json", request) as response:
        body = parse_response_object(await response.aread())
    return _check_echo(parse_response(body), request)


async def run_stream(
    http: httpx.AsyncClient, base: str, request: AgentRunRequest
) -> AgentRunResponse:
    """The response in the first terminal event of a stream; what follows it is not read."""
    count, reader = 0, EventReader()
    async with _post(http, base, "stream", "text/event-stream", request) as response:
        try:
            async for chunk in response.aiter_bytes():
                for event in reader.feed(chunk):
                    count += 1
                    if event_name(event, parse_object(event.data) or {}) in TERMINAL_EVENTS:
                        body = parse_response_object(event.data)
                        return _check_echo(parse_response(body), request)
        except EventTooLarge:
            raise too_large(MAX_BYTES) from None
        except httpx.RemoteProtocolError:
            pass  # cut off: below
    cut = "" if reader.close() else " (it was cut off inside an event)"
    raise _protocol(f"the stream ended after {count} events without a terminal one{cut}")


@asynccontextmanager
async def _post(
    http: httpx.AsyncClient, base: str, way: str, expected: str, request: AgentRunRequest
) -> AsyncIterator[httpx.Response]:
    """The response of content type `expected`, still unread. Raises `AgentFailure`."""
    headers = {
        "Content-Type": "application/json",
        # Headers are ASCII, and an id of the contract may be any text.
        "X-Request-ID": request.request_id.encode("ascii", "backslashreplace").decode(),
    }
    url, content = f"{base}/agents/run/{way}", request.to_wire()
    async with exchange(
        http, "POST", url, content=content, headers=headers, max_bytes=MAX_BYTES
    ) as response:
        if failure := failure_of_status(response.status_code, response.headers):
            body = await read_error_body(response)
            failure.said = quote(body)
            with suppress(AgentFailure):
                parse_response(parse_response_object(body))
                failure.kind = FailureKind.AGENT_ERROR  # the agent's own answer, not its gateway's
            raise failure
        if media_type(response) != expected:
            got = repr(media_type(response)[:40]) if media_type(response) else "no content type"
            raise _protocol(f"expected content type {expected!r}, got {got}")
        yield response


def _protocol(message: str) -> AgentFailure:
    return AgentFailure(FailureKind.PROTOCOL, message)


def media_type(response: httpx.Response) -> str:
    """The content type without its parameters, in lower case."""
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


def success_of(body: Mapping[str, Any]) -> bool | None:
    """What the success indicators say; None when there is none or they contradict each other."""
    said = indicators_of(body)
    return said.pop() if len(said) == 1 else None


def indicators_of(body: Mapping[str, Any]) -> set[bool]:
    """All that `ok`, `success` and `status` say about success: two values contradict each other."""
    said = {body[name] for name in ("ok", "success") if isinstance(body.get(name), bool)}
    status = body.get("status")
    if status in SUCCESS_STATUSES or status == "error":
        said.add(status != "error")
    return said


def outputs_of(body: Mapping[str, Any]) -> JsonObject | None:
    """`outputs`, or the `data` that the contract accepts in its place."""
    values = (body.get(name) for name in ("outputs", "data"))
    return next((value for value in values if isinstance(value, dict)), None)


def event_name(event: Event, data: Mapping[str, Any]) -> str:
    """The event's name; if it has none, the `type` that its data repeats."""
    return event.name if event.name != "message" else str(data.get("type", event.name))


def parse_response_object(text: str | bytes) -> JsonObject:
    """The JSON object in a body or in an event's data. Raises `AgentFailure`."""
    value = parse_object(text)
    if value is None:
        raise _protocol("the response is not a JSON object, or is nested too deeply")
    return value


def parse_response(body: Mapping[str, Any]) -> AgentRunResponse:
    """The response in a body or terminal event. Raises `AgentFailure`.

    An optional part that is malformed is left out and named in `warnings`; without a required one
    there is no result.
    """
    success, outputs = success_of(body), outputs_of(body)
    degraded = body.get("status") == "degraded" and success is not False
    if outputs is None or (success is None and not degraded):
        what = "outputs object" if outputs is None else "clear success indicator (status, ok)"
        raise _protocol(f"the response has no {what}")
    status = "degraded" if degraded else "ok" if success else "error"
    fields = {**body, "outputs": outputs, "status": status}
    try:
        return AgentRunResponse.model_validate(fields)
    except ValidationError as error:
        wrong = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
        problems = field_problems(error, AgentRunResponse)
    if wrong & _REQUIRED:
        listed = "; ".join(f"{problem['field']} {problem['problem']}" for problem in problems)
        raise _protocol(f"the response is malformed: {listed}")
    kept = {name: value for name, value in fields.items() if name not in wrong}
    response = AgentRunResponse.model_validate(kept)
    notes = [f"malformed and left out: {name}" for name in sorted(wrong)]
    return response.model_copy(update={"warnings": [*response.warnings, *notes]})


def _check_echo(response: AgentRunResponse, request: AgentRunRequest) -> AgentRunResponse:
    # The answer to another request, from a cache or a mixed-up queue, would count for this one.
    for name in ("request_id", "task_type"):
        found = getattr(response, name)
        if found is not None and found != getattr(request, name):
            raise _protocol(f"the response's {name} differs from the request's")
    return response

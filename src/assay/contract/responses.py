"""Reading what agents respond: any accepted dialect in, one model out, or a classified error."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import httpx
import orjson
from pydantic import ValidationError

from assay.contract.envelope import (
    SUCCESS_STATUSES,
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    field_problems,
)
from assay.errors import AssayError
from assay.net.json import JsonObject, is_too_deep
from assay.net.redact import quote
from assay.net.retry import parse_retry_after
from assay.net.sse import Event

TERMINAL_EVENTS = frozenset({"final", "complete", "done"})

_UNPARSED = object()
_REQUIRED = frozenset({"request_id", "status", "outputs", "task_type"})


class Fault(StrEnum):
    """How a call failed. The value is what a report prints."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    IDLE = "silent stream"
    CIRCUIT_OPEN = "not called: circuit open"
    REFUSED = "refused"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server error"
    CONTENT_TYPE = "wrong content type"
    TOO_LARGE = "response too large"
    CUT_OFF = "response cut off"
    NOT_HTTP = "not HTTP"
    REDIRECT = "redirect"
    NOT_JSON = "not JSON"
    NOT_CONTRACT = "not contract-shaped"
    FRAMING = "broken event framing"
    TRUNCATED = "stream without a terminal event"
    SECOND_TERMINAL = "second terminal event"
    AFTER_TERMINAL = "event after the terminal one"
    ENDLESS = "stream that does not end"


NOT_REACHED = frozenset({Fault.UNREACHABLE, Fault.TIMEOUT, Fault.IDLE, Fault.CIRCUIT_OPEN})
RETRYABLE = frozenset(
    {Fault.UNREACHABLE, Fault.TIMEOUT, Fault.IDLE, Fault.OVERLOADED, Fault.SERVER_ERROR}
)


class AgentCallError(AssayError):
    """One failed call.

    Parameters:
        fault: how it failed.
        message: what is wrong, without any text of the response.
        status_code: the HTTP status, where there was one.
        retry_after: seconds that the agent asked to wait.
        response: what the agent did say, where it was readable: the contract-shaped body of a
            rejection, or the result that came before the fault.
        said: the agent's own words about it, as `assay.net.redact.quote` returns them.
    """

    def __init__(
        self,
        fault: Fault,
        message: str,
        *,
        status_code: int | None = None,
        retry_after: float | None = None,
        response: AgentRunResponse | None = None,
        said: str = "",
    ) -> None:
        super().__init__(message)
        self.said = said
        self.fault = fault
        self.status_code = status_code
        self.retry_after = retry_after
        self.response = response
        self.retryable = fault in RETRYABLE
        self.exit_code = 3 if fault in NOT_REACHED else 1


# --- HTTP: status and content type ----------------------------------------------------------------


def media_type(response: httpx.Response) -> str:
    """The content type without its parameters, in lower case."""
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()


async def check_response(expected: str, response: httpx.Response) -> None:
    """Raise unless the agent accepted the request and responds with content type `expected`."""
    status = response.status_code
    if status >= 400:
        raise await _rejection(response)
    if status >= 300:
        message = f"the agent redirects (HTTP {status}); use the URL that it redirects to"
        raise AgentCallError(Fault.REDIRECT, message, status_code=status)
    if media_type(response) != expected:
        got = repr(media_type(response)[:40]) if media_type(response) else "no content type"
        message = f"expected content type {expected!r}, got {got}"
        raise AgentCallError(Fault.CONTENT_TYPE, message, status_code=status)


async def _rejection(response: httpx.Response) -> AgentCallError:
    status = response.status_code
    body, said = await _contract_body(response)
    return AgentCallError(
        _fault_of(status),
        f"HTTP {status} from the agent{_code_of(body)}{_credentials_hint(status)}",
        status_code=status,
        retry_after=parse_retry_after(response.headers.get("retry-after")),
        response=body,
        said=said,
    )


def _fault_of(status: int) -> Fault:
    if status in (429, 503):
        return Fault.OVERLOADED
    return Fault.SERVER_ERROR if status >= 500 else Fault.REFUSED


async def _contract_body(response: httpx.Response) -> tuple[AgentRunResponse | None, str]:
    said = ""
    try:
        body = await response.aread()
        said = quote(body)
        return parse_response(parse_response_object(body)), said
    except (AgentCallError, httpx.HTTPError):
        return None, said


def _code_of(response: AgentRunResponse | None) -> str:
    # Only codes that the contract knows: an agent may have put anything else there.
    code = response.error.code if response and response.error else None
    return f", {code}" if code in set(ErrorCode) else ""


def _credentials_hint(status: int) -> str:
    return ": set AGENT_TOKEN to the agent's bearer token" if status in (401, 403) else ""


# --- JSON: the envelope ---------------------------------------------------------------------------


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
    for name in ("outputs", "data"):
        value = body.get(name)
        if isinstance(value, dict):
            return value
    return None


def event_name(event: Event, data: Mapping[str, Any]) -> str:
    """The event's name; where it has none, the `type` that its data repeats."""
    return event.name if event.name != "message" else str(data.get("type", event.name))


def parse_response_object(text: str | bytes) -> JsonObject:
    """The JSON object in a body or in an event's data. Raises `AgentCallError`."""
    value = _parse(text)
    if value is _UNPARSED:
        raise AgentCallError(Fault.NOT_JSON, "the response is not JSON")
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise AgentCallError(Fault.NOT_CONTRACT, f"the response is a {kind}, not an object")
    if is_too_deep(value, text):
        raise AgentCallError(Fault.NOT_CONTRACT, "the response is nested too deeply")
    return value


def _parse(text: str | bytes) -> Any:
    """Apart, so that no error raised later refers to the decoder's, which holds the document."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _UNPARSED


def parse_response(body: Mapping[str, Any]) -> AgentRunResponse:
    """The response in a body or terminal event. Raises `AgentCallError`.

    An optional part that is malformed is left out and named in `warnings`; without a required one
    there is no result.
    """
    success, outputs = success_of(body), outputs_of(body)
    degraded = body.get("status") == "degraded" and success is not False
    if outputs is None or (success is None and not degraded):
        what = "outputs object" if outputs is None else "clear success indicator (status, ok)"
        raise AgentCallError(Fault.NOT_CONTRACT, f"the response has no {what}")
    status = "degraded" if degraded else "ok" if success else "error"
    return _validate({**body, "outputs": outputs, "status": status})


def _validate(fields: JsonObject) -> AgentRunResponse:
    try:
        return AgentRunResponse.model_validate(fields)
    except ValidationError as error:
        wrong = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
        problems = field_problems(error, AgentRunResponse)
    if wrong & _REQUIRED:
        listed = "; ".join(f"{each['field']} {each['problem']}" for each in problems)
        raise AgentCallError(Fault.NOT_CONTRACT, f"the response is malformed: {listed}")
    kept = {name: value for name, value in fields.items() if name not in wrong}
    response = AgentRunResponse.model_validate(kept)
    notes = [f"malformed and left out: {name}" for name in sorted(wrong)]
    return response.model_copy(update={"warnings": [*response.warnings, *notes]})


def check_echo(response: AgentRunResponse, request: AgentRunRequest) -> AgentRunResponse:
    """Raise where the response belongs to another request."""
    if response.request_id != request.request_id:
        message = "the response's request_id differs from the request's"
        raise AgentCallError(Fault.NOT_CONTRACT, message)
    if response.task_type not in (None, request.task_type):
        message = "the response's task_type differs from the request's"
        raise AgentCallError(Fault.NOT_CONTRACT, message)
    return response

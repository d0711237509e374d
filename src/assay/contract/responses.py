"""The ways in which calling an agent over HTTP can fail, each under its own name."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import httpx
import orjson
from pydantic import ValidationError

from assay.contract.envelope import SUCCESS_STATUSES, AgentRunResponse, ErrorCode
from assay.contract.validation import field_problems
from assay.errors import AssayError
from assay.net.sse import Event


class Fault(StrEnum):
    """A value is what a report prints."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    IDLE = "silent stream"
    CIRCUIT_OPEN = "not asked: circuit open"
    REFUSED = "refused"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server error"
    CONTENT_TYPE = "wrong content type"
    TOO_LARGE = "answer too large"
    NOT_JSON = "not JSON"
    NOT_CONTRACT = "not contract-shaped"
    FRAMING = "broken event framing"
    TRUNCATED = "stream without a terminal event"
    SECOND_TERMINAL = "second terminal event"
    AFTER_TERMINAL = "event after the terminal one"
    ENDLESS = "stream that does not end"


NOT_REACHED = frozenset({Fault.UNREACHABLE, Fault.TIMEOUT, Fault.IDLE, Fault.CIRCUIT_OPEN})
WORTH_RETRYING = frozenset(
    {Fault.UNREACHABLE, Fault.TIMEOUT, Fault.IDLE, Fault.OVERLOADED, Fault.SERVER_ERROR}
)


class AgentCallError(AssayError):
    """One failed call. `response` is what the agent did say, where it said anything readable:
    the contract-shaped body of a refusal, or the result that came before a breach."""

    def __init__(
        self,
        fault: Fault,
        message: str,
        *,
        status_code: int | None = None,
        retry_after_s: float | None = None,
        response: AgentRunResponse | None = None,
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.status_code = status_code
        self.retry_after_s = retry_after_s
        self.response = response
        self.retryable = fault in WORTH_RETRYING
        self.exit_code = 3 if fault in NOT_REACHED else 1


TERMINAL_EVENTS = frozenset({"final", "complete", "done"})

_UNPARSED = object()
_DEEP = 200
_REQUIRED = frozenset({"request_id", "status", "outputs", "task_type"})


def success_of(body: Mapping[str, Any]) -> bool | None:
    """What the success indicators say; None when there is none or they contradict each other."""
    said = {body[name] for name in ("ok", "success") if isinstance(body.get(name), bool)}
    status = body.get("status")
    if status in SUCCESS_STATUSES:
        said.add(True)
    elif status == "error":
        said.add(False)
    return said.pop() if len(said) == 1 else None


def outputs_of(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """`outputs`, or the `data` that the contract takes as its equivalent."""
    for name in ("outputs", "data"):
        value = body.get(name)
        if isinstance(value, dict):
            return value
    return None


def event_name(event: Event, data: Mapping[str, Any]) -> str:
    """An event without a name of its own goes by the `type` that its data repeats."""
    return event.name if event.name != "message" else str(data.get("type", event.name))


def read_object(text: str | bytes) -> dict[str, Any]:
    value = _parsed(text)
    if value is _UNPARSED:
        raise AgentCallError(Fault.NOT_JSON, "the agent's answer is not JSON")
    if not isinstance(value, dict):
        kind = type(value).__name__
        raise AgentCallError(Fault.NOT_CONTRACT, f"the agent's answer is a {kind}, not an object")
    if _is_too_deep(value, text):
        raise AgentCallError(Fault.NOT_CONTRACT, "the agent's answer is nested too deeply")
    return value


def _is_too_deep(value: Any, text: str | bytes) -> bool:
    """JSON is read deeper than it can be written again. Most answers need no closer look."""
    written = text.encode() if isinstance(text, str) else text
    if written.count(b"[") + written.count(b"{") < _DEEP:
        return False
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        return True
    return False


def _parsed(text: str | bytes) -> Any:
    """Apart, so that no error raised later drags along the decoder's, which has the document."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _UNPARSED


def read_response(body: Mapping[str, Any]) -> AgentRunResponse:
    """The response in a body or terminal event. An optional part that is malformed is left out
    and named in `warnings`; without a required one there is no result, and that is a failure."""
    success, outputs = success_of(body), outputs_of(body)
    degraded = body.get("status") == "degraded" and success is not False
    if outputs is None or (success is None and not degraded):
        what = "outputs object" if outputs is None else "clear success indicator (status, ok)"
        raise AgentCallError(Fault.NOT_CONTRACT, f"the agent's answer has no {what}")
    status = "degraded" if degraded else "ok" if success else "error"
    return _validated({**body, "outputs": outputs, "status": status})


def _validated(fields: dict[str, Any]) -> AgentRunResponse:
    try:
        return AgentRunResponse.model_validate(fields)
    except ValidationError as error:
        wrong = {str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}
        problems = field_problems(error, AgentRunResponse)
    if wrong & _REQUIRED:
        said = "; ".join(f"{each['field']} {each['problem']}" for each in problems)
        raise AgentCallError(Fault.NOT_CONTRACT, f"the agent's answer is malformed: {said}")
    kept = {name: value for name, value in fields.items() if name not in wrong}
    response = AgentRunResponse.model_validate(kept)
    notes = [f"malformed and left out: {name}" for name in sorted(wrong)]
    return response.model_copy(update={"warnings": [*response.warnings, *notes]})


def media_type(answer: httpx.Response) -> str:
    return str(answer.headers.get("content-type", "")).partition(";")[0].strip().lower()


async def read_body(answer: httpx.Response, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > max_bytes:
            raise AgentCallError(Fault.TOO_LARGE, f"the answer is larger than {max_bytes} bytes")
    return bytes(body)


async def require(expected: str, answer: httpx.Response, max_bytes: int) -> None:
    """Raise unless the agent accepted the request and says that it answers in `expected`."""
    if answer.status_code >= 400:
        raise await _refused(answer, max_bytes)
    if answer.status_code >= 300:
        raise AgentCallError(
            Fault.REFUSED,
            f"the agent redirects (HTTP {answer.status_code}); give the address it points to",
            status_code=answer.status_code,
        )
    if media_type(answer) != expected:
        raise AgentCallError(
            Fault.CONTENT_TYPE,
            f"the agent answered {media_type(answer)[:40] or 'without a content type'!r} "
            f"instead of {expected!r}",
            status_code=answer.status_code,
        )


async def _refused(answer: httpx.Response, max_bytes: int) -> AgentCallError:
    response = await _contract_body(answer, max_bytes)
    return AgentCallError(
        _fault_of(answer.status_code),
        f"the agent answered HTTP {answer.status_code}{_code_of(response)}",
        status_code=answer.status_code,
        retry_after_s=_retry_after(answer),
        response=response,
    )


def _fault_of(status: int) -> Fault:
    if status in (429, 503):
        return Fault.OVERLOADED
    return Fault.SERVER_ERROR if status >= 500 else Fault.REFUSED


async def _contract_body(answer: httpx.Response, max_bytes: int) -> AgentRunResponse | None:
    try:
        return read_response(read_object(await read_body(answer, max_bytes)))
    except (AgentCallError, httpx.HTTPError):
        return None


def _code_of(response: AgentRunResponse | None) -> str:
    # Only codes that the contract knows: an agent may have put anything else there.
    code = response.error.code if response and response.error else None
    return f", {code}" if code in set(ErrorCode) else ""


def _retry_after(answer: httpx.Response) -> float | None:
    text = str(answer.headers.get("retry-after", ""))
    return float(text) if text.isascii() and text.isdigit() else None

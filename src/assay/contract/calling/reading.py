"""Reading what other people's agents answer: any accepted dialect in, one model out."""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import ValidationError

from assay.contract.calling.failures import AgentCallError, Fault
from assay.contract.envelope import SUCCESS_STATUSES, AgentRunResponse
from assay.contract.refusals import field_problems
from assay.contract.sse import Event

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

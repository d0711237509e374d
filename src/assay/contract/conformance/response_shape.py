"""Judging the fields of a response, be it the body of a sync run or a terminal event."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from assay.contract.conformance.report import PASS, CheckFinding, fail, fail_if
from assay.contract.envelope import SUCCESS_STATUSES, AgentRunResponse, field_problems
from assay.contract.responses import outputs_of, success_of

# What is inside these belongs to the task, not to the envelope.
_FREE_FORM = frozenset({"outputs", "data", "provenance", "metadata", "details"})
_JUDGED_APART = frozenset({"request_id", "task_type", "status", "outputs"})
RECOMMENDED_FIELDS = ("artifacts", "provenance", "usage", "warnings")


def echoed(body: Mapping[str, Any], name: str, sent: str) -> CheckFinding:
    """The field has the value that was sent."""
    if name not in body:
        return fail(f"{name} is missing")
    if not isinstance(body[name], str) or not body[name]:
        return fail(f"{name} is not a non-empty string")
    if body[name] != sent:
        return fail(f"{name} is not the one that was sent, {sent!r}")
    return PASS


def indicates_success(body: Mapping[str, Any], *, in_stream: bool) -> bool:
    """Whether one of the contract's indicators is there; `success` is one in a stream only."""
    known = body.get("status") in SUCCESS_STATUSES or body.get("ok") is True
    return known or (in_stream and body.get("success") is True)


def successful(body: Mapping[str, Any], *, in_stream: bool) -> CheckFinding:
    """The response says that the run succeeded."""
    if indicates_success(body, in_stream=in_stream):
        return PASS
    if success_of(body) is False:
        return fail(
            "the agent reports that the run failed",
            remedy="If the sample inputs do not suit the agent, pass others with --inputs.",
        )
    names = "status, ok or success" if in_stream else "status or ok"
    return fail(f"{names} does not say that the run succeeded")


def indicators_agree(body: Mapping[str, Any]) -> CheckFinding:
    """Callers read different indicators: all that are there must say the same."""
    said = {body[name] for name in ("ok", "success") if isinstance(body.get(name), bool)}
    status = body.get("status")
    if status in SUCCESS_STATUSES or status == "error":
        said.add(status != "error")
    return fail("status, ok and success contradict each other") if len(said) > 1 else PASS


def has_outputs(body: Mapping[str, Any], *, or_data: bool) -> CheckFinding:
    """There is an `outputs` object; `or_data` accepts `data` in its place."""
    found = outputs_of(body) if or_data else body.get("outputs")
    names = "outputs or data" if or_data else "outputs"
    return PASS if isinstance(found, dict) else fail(f"{names} is missing or not an object")


def without_null(bodies: list[Mapping[str, Any]]) -> CheckFinding:
    """No field of the envelope is null."""
    paths = sorted({path for body in bodies for path in null_paths(body)})
    return fail(f"null in {', '.join(paths)}") if paths else PASS


def well_typed(body: Mapping[str, Any]) -> CheckFinding:
    """The optional fields, where present, have the types of AgentRunResponse."""
    return fail_if(type_problems(body))


def type_problems(body: Mapping[str, Any]) -> list[str]:
    """The optional fields that have another type than AgentRunResponse declares."""
    stand_ins = {"request_id": "-", "status": "ok", "outputs": {}}
    optional = {name: value for name, value in body.items() if name not in _JUDGED_APART}
    try:
        AgentRunResponse.model_validate({**optional, **stand_ins})
    except ValidationError as error:
        problems = field_problems(error, AgentRunResponse)
        return [f"{each['field']} {each['problem']}" for each in problems]
    return []


def failed_shape(body: Mapping[str, Any], request_id: str, *, in_stream: bool) -> list[str]:
    """What is wrong with a body that should say: this request failed."""
    problems = []
    if indicates_success(body, in_stream=in_stream):
        problems.append("it reports success")
    elif not isinstance(body.get("status"), str) and success_of(body) is None:
        problems.append('no failure indicator (ok false, status "error")')
    found = outputs_of(body) if in_stream else body.get("outputs")
    if not isinstance(found, dict):
        problems.append("outputs is missing or not an object")
    if request_id and body.get("request_id") != request_id:
        problems.append("request_id is not echoed")
    return problems


def null_paths(value: Any, path: str = "") -> Iterator[str]:
    """Where the envelope holds null; what belongs to the task is not looked into."""
    if isinstance(value, dict):
        for name, item in value.items():
            here = f"{path}.{name}" if path else str(name)
            if item is None:
                yield here
            elif name not in _FREE_FORM:
                yield from null_paths(item, here)
    elif isinstance(value, list):
        for item in value:
            yield from null_paths(item, f"{path}[]")

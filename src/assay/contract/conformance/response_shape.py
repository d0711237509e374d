"""Judging the fields of a response, be it the body of a sync run or a terminal event."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from assay.contract.conformance.report import PASS, CheckFinding, fail, fail_if
from assay.contract.envelope import AgentRunResponse, ErrorCode
from assay.contract.responses import outputs_of, success_of
from assay.contract.validation import field_problems

# What is inside these belongs to the task, not to the envelope.
_FREE_FORM = frozenset({"outputs", "data", "provenance", "metadata", "details"})
_JUDGED_APART = frozenset({"request_id", "task_type", "status", "outputs"})


def echoed(body: Mapping[str, Any], name: str, sent: str) -> CheckFinding:
    """The field has the value that was sent."""
    if name not in body:
        return fail(f"{name} is missing")
    if not isinstance(body[name], str) or not body[name]:
        return fail(f"{name} is not a non-empty string")
    if body[name] != sent:
        return fail(f"{name} is not the one that was sent, {sent!r}")
    return PASS


def successful(body: Mapping[str, Any]) -> CheckFinding:
    """The response says clearly that the run succeeded."""
    success = success_of(body)
    if success:
        return PASS
    if success is None:
        return fail("status, ok and success are absent, unknown, or contradict each other")
    return fail(
        f"the agent responded with an error{_code(body)}; if the sample inputs do not "
        "suit it, pass others with --inputs"
    )


def has_outputs(body: Mapping[str, Any], *, or_data: bool) -> CheckFinding:
    """There is an `outputs` object; `or_data` accepts `data` in its place."""
    found = outputs_of(body) if or_data else body.get("outputs")
    names = "outputs or data" if or_data else "outputs"
    return PASS if isinstance(found, dict) else fail(f"{names} is missing or not an object")


def without_null(bodies: list[Mapping[str, Any]]) -> CheckFinding:
    """No field of the envelope is null."""
    paths = sorted({path for body in bodies for path in _null_paths(body)})
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


def failed_shape(body: Mapping[str, Any]) -> list[str]:
    """What is wrong with a body that should say: this failed, and why."""
    problems = []
    if success_of(body) is not False:
        problems.append('no failure indicator (status "error", ok false)')
    if not isinstance(body.get("outputs"), dict):
        problems.append("outputs is missing or not an object")
    elif body["outputs"]:
        problems.append("outputs is not empty")
    error = body.get("error")
    if isinstance(error, dict) and error.get("code") not in set(ErrorCode):
        problems.append("error.code is none of the contract's codes")
    problems += type_problems(body)
    problems += [f"{path} is null" for path in _null_paths(body)]
    return problems


def _null_paths(value: Any, path: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            here = f"{path}.{name}" if path else str(name)
            if item is None:
                yield here
            elif name not in _FREE_FORM:
                yield from _null_paths(item, here)
    elif isinstance(value, list):
        for item in value:
            yield from _null_paths(item, f"{path}[]")


def _code(body: Mapping[str, Any]) -> str:
    error = body.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return f" ({code})" if code in set(ErrorCode) else ""

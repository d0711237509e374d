"""The checks of POST /agents/run/sync with a valid request, and of the fields of any response."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from assay.contract.conformance.exchange import Exchange
from assay.contract.conformance.probes import AgentObservation, endpoint_missing
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    RuleLevel,
    fail,
    fail_if,
    not_applicable,
)
from assay.contract.envelope import SUCCESS_STATUSES, AgentRunResponse, field_problems
from assay.contract.responses import indicators_of, outputs_of, success_of
from assay.net.json import JsonObject

# What is inside these belongs to the task, not to the envelope.
_FREE_FORM = frozenset({"outputs", "data", "provenance", "metadata", "details"})
_JUDGED_APART = frozenset({"request_id", "task_type", "status", "outputs"})
_RECOMMENDED = ("artifacts", "provenance", "usage", "warnings")
_NO_RESPONSE = not_applicable("there is no response to check")


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


def has_status(body: Mapping[str, Any]) -> CheckFinding:
    """There is a status, whatever it says."""
    status = body.get("status")
    return PASS if isinstance(status, str) and status else fail("status is missing or empty")


def without_error(body: Mapping[str, Any], *, in_stream: bool) -> CheckFinding:
    """A run that succeeded reports no error; null is another rule's matter."""
    if not indicates_success(body, in_stream=in_stream):
        return not_applicable("the run did not succeed")
    return fail("error is there, with success") if body.get("error") is not None else PASS


def indicators_agree(body: Mapping[str, Any]) -> CheckFinding:
    """Callers read different indicators: all that are there must say the same."""
    contradict = len(indicators_of(body)) > 1
    return fail("status, ok and success contradict each other") if contradict else PASS


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


def refused_run(run: Exchange, path: str) -> CheckFinding:
    """A valid request that got no 2xx: what that status means, and what helps."""
    status = run.status or 0
    if endpoint_missing(run):
        return _no_endpoint(status, path, is_page=run.is_web_page)
    remedy = ""
    if status == 429 or status in (502, 503, 504):
        remedy = "The agent or its gateway is busy or not up; check again when it is."
    elif status >= 500:
        remedy = "The agent crashed on a valid request; its log has the cause."
    elif status in (400, 422):
        remedy = "If the sample inputs do not suit the agent, pass others with --inputs."
    return fail(f"a valid request got {run.outcome}", remedy=remedy)


def _no_endpoint(status: int, path: str, *, is_page: bool) -> CheckFinding:
    if 300 <= status < 400:
        return fail(
            f"HTTP {status} redirects elsewhere",
            remedy="Check the address that it redirects to: callers follow no redirect of a POST.",
        )
    page = " with a web page" if is_page else ""
    return fail(
        f"POST {path} answered HTTP {status}{page}",
        remedy=f"There is no agent at this path: check the base address, or serve POST {path}.",
    )


def _sync(seen: AgentObservation) -> Exchange:
    return seen.run["sync"]


def _of_body(
    judge: Callable[[JsonObject, AgentObservation], CheckFinding],
) -> Callable[[AgentObservation], CheckFinding]:
    """A judge of the response's body; it has nothing to say if there is none."""

    def judged(seen: AgentObservation) -> CheckFinding:
        body = _sync(seen).json
        if body is None or not _sync(seen).succeeded:
            return _NO_RESPONSE
        return judge(body, seen)

    return judged


def _answered(seen: AgentObservation) -> CheckFinding:
    answer = _sync(seen)
    if answer.status is None and answer.timed_out:
        return not_applicable("no response in time")
    if answer.status is None:
        return fail(answer.outcome)
    if answer.succeeded and not answer.is_web_page:
        return PASS
    return refused_run(answer, "/agents/run/sync")


def _in_time(seen: AgentObservation) -> CheckFinding:
    answer = _sync(seen)
    if answer.timed_out:
        return fail(answer.failure or "")
    return PASS if answer.failure is None else not_applicable("there is no complete response")


def _content_type(seen: AgentObservation) -> CheckFinding:
    answer = _sync(seen)
    if not answer.succeeded or answer.is_web_page:
        return _NO_RESPONSE
    if answer.media_type == "application/json" or answer.media_type.endswith("+json"):
        return PASS
    return fail(f"the content type is {answer.media_type[:40]!r}")


def _json_object(seen: AgentObservation) -> CheckFinding:
    answer = _sync(seen)
    if not answer.succeeded or answer.is_web_page or answer.timed_out:
        return _NO_RESPONSE
    if answer.failure is not None:
        return fail(answer.failure)
    return PASS if answer.json is not None else fail("the body is not a JSON object")


def _task_type(body: JsonObject, seen: AgentObservation) -> CheckFinding:
    if "task_type" not in body:
        return not_applicable("optional in a sync response")
    return echoed(body, "task_type", seen.task_type)


def _recommended(body: JsonObject, _seen: AgentObservation) -> CheckFinding:
    absent = [name for name in _RECOMMENDED if name not in body]
    return fail(f"absent: {', '.join(absent)}") if absent else PASS


def _repeat(seen: AgentObservation) -> CheckFinding:
    first, second = _sync(seen), seen.repeated
    if second is None or first.json is None:
        return not_applicable("there is no successful run to repeat")
    if second.succeeded and second.json == first.json:
        return PASS
    return fail("the same request was answered differently, so it was probably run twice")


def _reuse(seen: AgentObservation) -> CheckFinding:
    if seen.reused is None:
        return not_applicable("there is no successful run whose id could be reused")
    if seen.reused.status == 409:
        return PASS
    return fail(f"a used request_id with another body got {seen.reused.outcome}, not 409")


_must, _should, _ours = (partial(Check, level=level, request=_sync) for level in RuleLevel)

SYNC_CHECKS = (
    _must(
        "sync-status",
        "Overview + endpoints, line 7",
        "A valid request is answered with HTTP 2xx.",
        "Serve POST /agents/run/sync and answer a run that succeeds with HTTP 200.",
        _answered,
    ),
    _ours(
        "sync-time",
        "Checking an agent",
        "A sync run responds within 15 s.",
        "Answer sooner, or offer the task as a stream: callers give up on a sync run.",
        _in_time,
    ),
    _must(
        "sync-content-type",
        "Overview + endpoints, line 7",
        "A sync response is JSON by its content type.",
        "Send Content-Type: application/json.",
        _content_type,
    ),
    _must(
        "sync-json",
        "Sync response shape, line 31",
        "A sync response is a JSON object.",
        "Send one complete JSON object as the body.",
        _json_object,
    ),
    _must(
        "sync-request-id",
        "Sync response shape, line 33",
        "request_id echoes that of the request.",
        "Copy request_id from the request into the response.",
        _of_body(lambda b, o: echoed(b, "request_id", o.run["sync"].request_id)),
    ),
    _ours(
        "sync-task-type",
        "The response",
        "task_type, if present, echoes that of the request.",
        "Copy task_type from the request, or leave it out of sync responses.",
        _of_body(_task_type),
    ),
    _must(
        "sync-outputs",
        "Sync response shape, line 34",
        "outputs is present and an object, even if empty.",
        "Send outputs as an object, {} where there is nothing to say.",
        _of_body(lambda b, _: has_outputs(b, or_data=False)),
    ),
    _must(
        "sync-success",
        "Sync response shape, lines 35 to 37",
        'A successful run reports it: status "ok" or "success", or ok true.',
        'Send status: "ok".',
        _of_body(lambda b, _: successful(b, in_stream=False)),
    ),
    _should(
        "sync-canonical",
        "Sync response shape, line 39",
        "A sync response has the canonical status, not only ok.",
        'Send status: "ok" as well.',
        _of_body(lambda b, _: has_status(b)),
    ),
    _should(
        "sync-recommended",
        "Sync response shape, line 41",
        "artifacts, provenance, usage and warnings are there.",
        "Send them, empty where there is nothing to say.",
        _of_body(_recommended),
    ),
    _ours(
        "sync-fields",
        "The response",
        "Optional fields have the types of AgentRunResponse.",
        "Give the named fields the types of docs/schemas/AgentRunResponse.json.",
        _of_body(lambda b, _: well_typed(b)),
    ),
    _ours(
        "sync-no-null",
        "The response",
        "A field without a value is absent, never null.",
        "Leave the named fields out.",
        _of_body(lambda b, _: without_null([b])),
    ),
    _ours(
        "sync-indicators",
        "The response",
        "status, ok and success say the same.",
        "Derive ok and success from status.",
        _of_body(lambda b, _: indicators_agree(b)),
    ),
    _ours(
        "sync-no-error",
        "The response",
        "A successful response has no error.",
        "Leave error out where the run succeeded; say what went wrong on the way in warnings.",
        _of_body(lambda b, _: without_error(b, in_stream=False)),
    ),
    _ours(
        "repeat-same-answer",
        "Repeated requests",
        "The same request_id with the same body runs once.",
        "Keep results by request_id for a while, and answer a repeated request from there.",
        _repeat,
        request=lambda seen: seen.repeated,
    ),
    _ours(
        "reused-id-refused",
        "Repeated requests",
        "The same request_id with another body is refused.",
        "Answer HTTP 409 where a request_id comes again with another body.",
        _reuse,
        request=lambda seen: seen.reused,
    ),
)

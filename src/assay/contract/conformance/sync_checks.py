"""The checks of POST /agents/run/sync with a valid request."""

from collections.abc import Callable

from assay.contract.conformance.exchange import Exchange
from assay.contract.conformance.probes import AgentObservation, endpoint_missing
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    RuleLevel,
    fail,
    not_applicable,
)
from assay.contract.conformance.response_shape import (
    RECOMMENDED_FIELDS,
    echoed,
    has_outputs,
    indicators_agree,
    successful,
    well_typed,
    without_null,
)
from assay.net.json import JsonObject

_MUST, _SHOULD, _OURS = RuleLevel.MUST, RuleLevel.SHOULD, RuleLevel.OURS
_NO_RESPONSE = not_applicable("there is no response to check")


def refused_run(run: Exchange, path: str) -> CheckFinding:
    """A valid request that got no 2xx: what that status means, and what helps."""
    if endpoint_missing(run):
        return _no_endpoint(run, path)
    status = run.status or 0
    remedy = ""
    if status == 429 or status in (502, 503, 504):
        remedy = "The agent or its gateway is busy or not up; check again when it is."
    elif status >= 500:
        remedy = "The agent crashed on a valid request; its log has the cause."
    elif status in (400, 422):
        remedy = "If the sample inputs do not suit the agent, pass others with --inputs."
    return fail(f"a valid request got {run.outcome}", remedy=remedy)


def _no_endpoint(run: Exchange, path: str) -> CheckFinding:
    if 300 <= (run.status or 0) < 400:
        return fail(
            f"HTTP {run.status} redirects elsewhere",
            remedy="Check the address that it redirects to: callers follow no redirect of a POST.",
        )
    page = " with a web page" if run.is_web_page else ""
    return fail(
        f"POST {path} answered HTTP {run.status}{page}",
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


def _canonical(body: JsonObject, _seen: AgentObservation) -> CheckFinding:
    status = body.get("status")
    return PASS if isinstance(status, str) and status else fail("there is no status")


def _recommended(body: JsonObject, _seen: AgentObservation) -> CheckFinding:
    absent = [name for name in RECOMMENDED_FIELDS if name not in body]
    return fail(f"absent: {', '.join(absent)}") if absent else PASS


def _no_error(body: JsonObject, _seen: AgentObservation) -> CheckFinding:
    if successful(body, in_stream=False) != PASS:
        return not_applicable("the run did not succeed")
    # null is another rule's matter
    return fail("error is there, with success") if body.get("error") is not None else PASS


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


SYNC_CHECKS = (
    Check(
        "sync-status",
        _MUST,
        "Overview + endpoints, line 7",
        "A valid request is answered with HTTP 2xx.",
        "Serve POST /agents/run/sync and answer a run that succeeds with HTTP 200.",
        _answered,
        _sync,
    ),
    Check(
        "sync-time",
        _OURS,
        "Checking an agent",
        "A sync run responds within 15 s.",
        "Answer sooner, or offer the task as a stream: callers give up on a sync run.",
        _in_time,
        _sync,
    ),
    Check(
        "sync-content-type",
        _MUST,
        "Overview + endpoints, line 7",
        "A sync response is JSON by its content type.",
        "Send Content-Type: application/json.",
        _content_type,
        _sync,
    ),
    Check(
        "sync-json",
        _MUST,
        "Sync response shape, line 31",
        "A sync response is a JSON object.",
        "Send one complete JSON object as the body.",
        _json_object,
        _sync,
    ),
    Check(
        "sync-request-id",
        _MUST,
        "Sync response shape, line 33",
        "request_id echoes that of the request.",
        "Copy request_id from the request into the response.",
        _of_body(lambda b, o: echoed(b, "request_id", o.run["sync"].request_id)),
        _sync,
    ),
    Check(
        "sync-task-type",
        _OURS,
        "The response",
        "task_type, if present, echoes that of the request.",
        "Copy task_type from the request, or leave it out of sync responses.",
        _of_body(_task_type),
        _sync,
    ),
    Check(
        "sync-outputs",
        _MUST,
        "Sync response shape, line 34",
        "outputs is present and an object, even if empty.",
        "Send outputs as an object, {} where there is nothing to say.",
        _of_body(lambda b, _: has_outputs(b, or_data=False)),
        _sync,
    ),
    Check(
        "sync-success",
        _MUST,
        "Sync response shape, lines 35 to 37",
        'A successful run reports it: status "ok" or "success", or ok true.',
        'Send status: "ok".',
        _of_body(lambda b, _: successful(b, in_stream=False)),
        _sync,
    ),
    Check(
        "sync-canonical",
        _SHOULD,
        "Sync response shape, line 39",
        "A sync response has the canonical status, not only ok.",
        'Send status: "ok" as well.',
        _of_body(_canonical),
        _sync,
    ),
    Check(
        "sync-recommended",
        _SHOULD,
        "Sync response shape, line 41",
        "artifacts, provenance, usage and warnings are there.",
        "Send them, empty where there is nothing to say.",
        _of_body(_recommended),
        _sync,
    ),
    Check(
        "sync-fields",
        _OURS,
        "The response",
        "Optional fields have the types of AgentRunResponse.",
        "Give the named fields the types of docs/schemas/AgentRunResponse.json.",
        _of_body(lambda b, _: well_typed(b)),
        _sync,
    ),
    Check(
        "sync-no-null",
        _OURS,
        "The response",
        "A field without a value is absent, never null.",
        "Leave the named fields out.",
        _of_body(lambda b, _: without_null([b])),
        _sync,
    ),
    Check(
        "sync-indicators",
        _OURS,
        "The response",
        "status, ok and success say the same.",
        "Derive ok and success from status.",
        _of_body(lambda b, _: indicators_agree(b)),
        _sync,
    ),
    Check(
        "sync-no-error",
        _OURS,
        "The response",
        "A successful response has no error.",
        "Leave error out where the run succeeded; say what went wrong on the way in warnings.",
        _of_body(_no_error),
        _sync,
    ),
    Check(
        "repeat-same-answer",
        _OURS,
        "Repeated requests",
        "The same request_id with the same body runs once.",
        "Keep results by request_id for a while, and answer a repeated request from there.",
        _repeat,
        lambda seen: seen.repeated,
    ),
    Check(
        "reused-id-refused",
        _OURS,
        "Repeated requests",
        "The same request_id with another body is refused.",
        "Answer HTTP 409 where a request_id comes again with another body.",
        _reuse,
        lambda seen: seen.reused,
    ),
)

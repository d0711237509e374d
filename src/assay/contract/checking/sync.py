"""The checks of POST /agents/run/sync with a valid request, and of the health endpoints."""

from collections.abc import Callable
from typing import Any

from assay.contract.checking import shapes
from assay.contract.checking.probes import Observation
from assay.contract.checking.verdicts import PASS, Check, Finding, fail, not_applicable, warn


def _of_body(judge: Callable[[dict[str, Any], Observation], Finding]) -> Callable[..., Finding]:
    """A judge of the response's body; it has nothing to say where there is none."""

    def judged(seen: Observation) -> Finding:
        body = seen.run["sync"].json
        if body is None or seen.run["sync"].status != 200:
            return not_applicable("there is no response to look at")
        return judge(body, seen)

    return judged


def _answered(seen: Observation) -> Finding:
    answer = seen.run["sync"]
    if answer.status is None and answer.timed_out:
        return not_applicable("no answer came in time")
    if answer.status is None:
        return fail(answer.failure or "no answer")
    return PASS if answer.status == 200 else fail(f"a valid request got HTTP {answer.status}")


def _in_time(seen: Observation) -> Finding:
    answer = seen.run["sync"]
    if answer.timed_out:
        return fail(answer.failure or "")
    return PASS if answer.failure is None else not_applicable("there is no complete answer")


def _content_type(seen: Observation) -> Finding:
    answer = seen.run["sync"]
    if answer.status != 200:
        return not_applicable("there is no response to look at")
    if answer.media_type == "application/json":
        return PASS
    return fail(f"the content type is {answer.media_type[:40]!r}")


def _json_object(seen: Observation) -> Finding:
    answer = seen.run["sync"]
    if answer.status != 200 or answer.timed_out:
        return not_applicable("there is no response to look at")
    return PASS if answer.json is not None else fail(answer.failure or "the body is not an object")


def _task_type(body: dict[str, Any], seen: Observation) -> Finding:
    if "task_type" not in body:
        return not_applicable("a sync response may leave it out")
    return shapes.echoed(body, "task_type", seen.task_type)


def _health(seen: Observation) -> Finding:
    body = seen.health.json
    if seen.health.status != 200 or body is None:
        return fail(f"GET /health answered {_summary(seen.health.status)}")
    if body.get("status") != "ok" or not isinstance(body.get("service"), str):
        return fail('GET /health is not {"status": "ok", "service": name}')
    return PASS


def _ready(seen: Observation) -> Finding:
    body, status = seen.ready.json, seen.ready.status
    if status not in (200, 503) or body is None:
        return fail(f"GET /health/ready answered {_summary(status)}")
    if body.get("status") not in ("ready", "degraded"):
        return fail('the status of GET /health/ready is neither "ready" nor "degraded"')
    if body["status"] == "degraded":
        return warn("the agent says that it is degraded; other checks may fail for that")
    return PASS if status == 200 else fail("GET /health/ready says ready, with HTTP 503")


def _summary(status: int | None) -> str:
    return "nothing" if status is None else f"HTTP {status}, or no JSON object"


def _repeat(seen: Observation) -> Finding:
    first, second = seen.run["sync"], seen.repeated
    if first.status != 200 or first.json is None:
        return not_applicable("there is no response to repeat")
    if second.status == 200 and second.json == first.json:
        return PASS
    return warn("the same request was answered differently, so it was probably run twice")


def _reuse(seen: Observation) -> Finding:
    if seen.run["sync"].status != 200:
        return not_applicable("there is no run whose id could be reused")
    if seen.reused.status == 409:
        return PASS
    return warn(f"a used request_id with another body got {_summary(seen.reused.status)}, not 409")


HEALTH_CHECKS = (
    Check("health", "GET /health says ok and names the service.", _health),
    Check("health-ready", "GET /health/ready says ready or degraded.", _ready),
)

SYNC_CHECKS = (
    Check("sync-status", "A valid request is answered with HTTP 200.", _answered),
    Check("sync-time", "A sync run answers within 15 s.", _in_time),
    Check("sync-content-type", "A sync response is application/json.", _content_type),
    Check("sync-json", "A sync response is a JSON object.", _json_object),
    Check(
        "sync-request-id",
        "request_id is the echo of the request's.",
        _of_body(lambda b, o: shapes.echoed(b, "request_id", o.run["sync"].request_id)),
    ),
    Check("sync-task-type", "task_type, where sent, is the request's.", _of_body(_task_type)),
    Check(
        "sync-outputs",
        "outputs is present and an object, even if empty.",
        _of_body(lambda b, _: shapes.has_outputs(b, or_data=False)),
    ),
    Check(
        "sync-success",
        'A good run says so: status "ok" or "success", or ok true.',
        _of_body(lambda b, _: shapes.successful(b)),
    ),
    Check(
        "sync-fields",
        "Optional fields have the types of AgentRunResponse.",
        _of_body(lambda b, _: shapes.well_typed(b)),
    ),
    Check(
        "sync-no-null",
        "A field without a value is absent, never null.",
        _of_body(lambda b, _: shapes.without_null([b])),
    ),
    Check(
        "repeat-same-answer",
        "The same request_id with the same body is run once (recommended).",
        _repeat,
    ),
    Check(
        "reused-id-refused",
        "The same request_id with another body is refused (recommended).",
        _reuse,
    ),
)

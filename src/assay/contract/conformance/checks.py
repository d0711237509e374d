"""The conformance check: every rule of the agent contract, tried on a running agent."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from assay.contract.client import check_base_url
from assay.contract.conformance.error_checks import REFUSAL_CHECKS
from assay.contract.conformance.probes import (
    MAX_BODY_BYTES,
    AgentObservation,
    CheckLimits,
    Exchange,
    Prober,
    sample_inputs,
)
from assay.contract.conformance.report import (
    PASS,
    Check,
    CheckFinding,
    CheckResult,
    TargetReport,
    fail,
    not_applicable,
    warning,
)
from assay.contract.conformance.response_shape import (
    echoed,
    has_outputs,
    successful,
    well_typed,
    without_null,
)
from assay.contract.conformance.stream_checks import STREAM_CHECKS
from assay.errors import UsageError
from assay.net.client import open_client
from assay.net.json import JsonObject
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import redact_url


def _of_body(
    judge: Callable[[JsonObject, AgentObservation], CheckFinding],
) -> Callable[..., CheckFinding]:
    """A judge of the response's body; it has nothing to say if there is none."""

    def judged(seen: AgentObservation) -> CheckFinding:
        body = seen.run["sync"].json
        if body is None or seen.run["sync"].status != 200:
            return not_applicable("there is no response to check")
        return judge(body, seen)

    return judged


def _answered(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["sync"]
    if answer.status is None and answer.timed_out:
        return not_applicable("no response in time")
    if answer.status is None:
        return fail(answer.failure or "no answer")
    return PASS if answer.status == 200 else fail(f"a valid request got HTTP {answer.status}")


def _in_time(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["sync"]
    if answer.timed_out:
        return fail(answer.failure or "")
    return PASS if answer.failure is None else not_applicable("there is no complete response")


def _content_type(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["sync"]
    if answer.status != 200:
        return not_applicable("there is no response to check")
    if answer.media_type == "application/json":
        return PASS
    return fail(f"the content type is {answer.media_type[:40]!r}")


def _json_object(seen: AgentObservation) -> CheckFinding:
    answer = seen.run["sync"]
    if answer.status != 200 or answer.timed_out:
        return not_applicable("there is no response to check")
    return PASS if answer.json is not None else fail(answer.failure or "the body is not an object")


def _task_type(body: JsonObject, seen: AgentObservation) -> CheckFinding:
    if "task_type" not in body:
        return not_applicable("optional in a sync response")
    return echoed(body, "task_type", seen.task_type)


def _health(seen: AgentObservation) -> CheckFinding:
    body = seen.health.json
    if seen.health.status != 200 or body is None:
        return fail(f"GET /health answered {_summary(seen.health.status)}")
    if body.get("status") != "ok" or not isinstance(body.get("service"), str):
        return fail('GET /health is not {"status": "ok", "service": name}')
    return PASS


def _ready(seen: AgentObservation) -> CheckFinding:
    body, status = seen.ready.json, seen.ready.status
    if status not in (200, 503) or body is None:
        return fail(f"GET /health/ready answered {_summary(status)}")
    if body.get("status") not in ("ready", "degraded"):
        return fail('the status of GET /health/ready is neither "ready" nor "degraded"')
    if body["status"] == "degraded":
        return warning(
            "the agent reports that it is degraded, which may cause other checks to fail"
        )
    return PASS if status == 200 else fail("GET /health/ready says ready, with HTTP 503")


def _summary(status: int | None) -> str:
    return "nothing" if status is None else f"HTTP {status}, or no JSON object"


def _repeat(seen: AgentObservation) -> CheckFinding:
    first, second = seen.run["sync"], seen.repeated
    if first.status != 200 or first.json is None:
        return not_applicable("there is no response to repeat")
    if second.status == 200 and second.json == first.json:
        return PASS
    return warning("the same request was answered differently, so it was probably run twice")


def _reuse(seen: AgentObservation) -> CheckFinding:
    if seen.run["sync"].status != 200:
        return not_applicable("there is no successful run whose id could be reused")
    if seen.reused.status == 409:
        return PASS
    return warning(
        f"a used request_id with another body got {_summary(seen.reused.status)}, not 409"
    )


HEALTH_CHECKS = (
    Check("health", "GET /health reports ok and the service name.", _health),
    Check("health-ready", "GET /health/ready reports ready or degraded.", _ready),
)

SYNC_CHECKS = (
    Check("sync-status", "A valid request is answered with HTTP 200.", _answered),
    Check("sync-time", "A sync run responds within 15 s.", _in_time),
    Check("sync-content-type", "A sync response is application/json.", _content_type),
    Check("sync-json", "A sync response is a JSON object.", _json_object),
    Check(
        "sync-request-id",
        "request_id echoes that of the request.",
        _of_body(lambda b, o: echoed(b, "request_id", o.run["sync"].request_id)),
    ),
    Check(
        "sync-task-type", "task_type, if present, echoes that of the request.", _of_body(_task_type)
    ),
    Check(
        "sync-outputs",
        "outputs is present and an object, even if empty.",
        _of_body(lambda b, _: has_outputs(b, or_data=False)),
    ),
    Check(
        "sync-success",
        'A successful run reports it: status "ok" or "success", or ok true.',
        _of_body(lambda b, _: successful(b)),
    ),
    Check(
        "sync-fields",
        "Optional fields have the types of AgentRunResponse.",
        _of_body(lambda b, _: well_typed(b)),
    ),
    Check(
        "sync-no-null",
        "A field without a value is absent, never null.",
        _of_body(lambda b, _: without_null([b])),
    ),
    Check(
        "repeat-same-answer",
        "The same request_id with the same body runs once (recommended).",
        _repeat,
    ),
    Check(
        "reused-id-refused",
        "The same request_id with another body is refused (recommended).",
        _reuse,
    ),
)


CHECKS: tuple[Check, ...] = (*HEALTH_CHECKS, *SYNC_CHECKS, *STREAM_CHECKS, *REFUSAL_CHECKS)


@dataclass(frozen=True, slots=True)
class CheckTarget:
    """An agent to check: its base address and its task."""

    url: str
    task_type: str


def parse_check_target(text: str) -> CheckTarget:
    """ "http://host:8000=RAG_RETRIEVE". The last = separates: an address may contain others."""
    url, separator, task_type = text.strip().rpartition("=")
    if not separator or not task_type or not url:
        raise UsageError(f"{text!r} is not URL=TASK, such as http://localhost:8000=RAG_RETRIEVE")
    return CheckTarget(check_base_url(url, "target"), task_type.strip())


def select_checks(skip: Collection[str]) -> tuple[Check, ...]:
    """All checks but those named in `skip`."""
    unknown = set(skip) - {check.name for check in CHECKS}
    if unknown:
        known = ", ".join(check.name for check in CHECKS)
        raise UsageError(f"unknown check {min(unknown)!r}; choose from: {known}")
    return tuple(check for check in CHECKS if check.name not in skip)


async def check_agent(
    target: CheckTarget,
    *,
    inputs: Mapping[str, Any] | None = None,
    skip: Collection[str] = (),
    limits: CheckLimits | None = None,
    auth: httpx.Auth | None = None,
    policy: OutboundPolicy = UNRESTRICTED,
) -> TargetReport:
    """Check one agent with about twenty requests, one after the other.

    Parameters:
        target: the agent and its task.
        inputs: replace the plausible ones that are sent otherwise; the agent must be able to
            succeed with them.
        skip: names of checks to leave out.
        limits: seconds.
        auth: credentials, such as `TokenFor`.
        policy: which addresses may be called.
    """
    checks = select_checks(skip)
    shown = redact_url(target.url)
    async with open_client(policy, auth=auth, max_bytes=MAX_BODY_BYTES) as http:
        prober = Prober(
            http,
            target.url,
            target.task_type,
            sample_inputs(target.task_type) if inputs is None else inputs,
            limits or CheckLimits(),
        )
        health = await prober.get("/health")
        if reason := _unreachable(health):
            return TargetReport(shown, target.task_type, unreachable=reason)
        seen = await prober.observe(health)
    return TargetReport(shown, target.task_type, tuple(_judge(checks, seen)))


def _unreachable(health: Exchange) -> str | None:
    """An agent that does not answer /health would make every other request wait as well."""
    if health.refused_connection:
        return "no connection; is the agent running at this address?"
    if health.timed_out and health.status is None:
        return (
            f"connections are accepted, but GET /health got no response in {health.seconds:.0f} s"
        )
    return None


def _judge(checks: tuple[Check, ...], seen: AgentObservation) -> list[CheckResult]:
    found = [(check, check.judge(seen)) for check in checks]
    return [
        CheckResult(check.name, check.rule, finding.verdict, finding.detail)
        for check, finding in found
    ]

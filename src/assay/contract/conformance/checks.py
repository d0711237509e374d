"""The conformance check: every rule of the agent contract, tried on a running agent."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

from assay.contract.client import check_base_url
from assay.contract.conformance.error_checks import LEAK_CHECKS, REFUSAL_CHECKS
from assay.contract.conformance.exchange import MAX_BODY_BYTES, Exchange, curl_command
from assay.contract.conformance.probes import (
    AgentObservation,
    CheckLimits,
    Prober,
    sample_inputs,
)
from assay.contract.conformance.report import (
    Check,
    CheckResult,
    CheckVerdict,
    RuleLevel,
    TargetReport,
)
from assay.contract.conformance.service_checks import BUDGET_CHECKS, HEALTH_CHECKS
from assay.contract.conformance.stream_checks import STREAM_CHECKS, TERMINAL_CHECKS
from assay.contract.conformance.sync_checks import SYNC_CHECKS
from assay.errors import UsageError
from assay.net.client import open_client
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import printable, redact_url

_MAX_DETAIL = 2000

CHECKS: tuple[Check, ...] = (
    *HEALTH_CHECKS,
    *SYNC_CHECKS,
    *STREAM_CHECKS,
    *TERMINAL_CHECKS,
    *REFUSAL_CHECKS,
    *LEAK_CHECKS,
    *BUDGET_CHECKS,
)


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
    level: RuleLevel = RuleLevel.MUST,
    limits: CheckLimits | None = None,
    auth: httpx.Auth | None = None,
    policy: OutboundPolicy = UNRESTRICTED,
) -> TargetReport:
    """Check one agent with about twenty-five requests, one after the other.

    Parameters:
        target: the agent and its task.
        inputs: replace the plausible ones that are sent otherwise; the agent must be able to
            succeed with them.
        skip: names of checks to leave out.
        level: the weakest level whose broken rules are failures; those of weaker ones are warnings.
        limits: seconds.
        auth: credentials, such as `TokenFor`.
        policy: which addresses may be called.
    """
    checks = select_checks(skip)
    shown = redact_url(target.url)
    # A server may close a connection after an error: on a new one, no answer is the agent's fault.
    async with open_client(policy, auth=auth, max_bytes=MAX_BODY_BYTES, keep_alive=False) as http:
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
    if reason := _unauthorized(seen):
        return TargetReport(shown, target.task_type, unreachable=reason)
    command = partial(curl_command, with_token=auth is not None, inputs=dict(inputs or {}))
    results = tuple(_result(check, seen, level, command) for check in checks)
    return TargetReport(shown, target.task_type, results)


def _unreachable(health: Exchange) -> str | None:
    """An agent that does not answer /health would make every other request wait as well."""
    if health.refused_connection:
        return "no connection; is the agent running at this address?"
    if health.timed_out and health.status is None:
        return (
            f"connections are accepted, but GET /health got no response in {health.seconds:.0f} s"
        )
    return None


def _unauthorized(seen: AgentObservation) -> str | None:
    """Why access was denied: then no response tells anything about the agent itself."""
    statuses = {each.status for each in seen.run.values()}
    if 401 in statuses and statuses <= {401, 403}:
        return "HTTP 401 for a valid request: set AGENT_TOKEN to the agent's bearer token"
    if statuses == {403} and not any(each.is_web_page for each in seen.run.values()):
        return (
            "HTTP 403 for a valid request: access denied; set AGENT_TOKEN if the agent requires a "
            "bearer token"
        )
    return None


def _result(
    check: Check, seen: AgentObservation, level: RuleLevel, command: Callable[[Exchange], str]
) -> CheckResult:
    """What a check found. A rule that is kept needs no remedy and no command to repeat it."""
    finding = check.judge(seen)
    verdict = finding.verdict
    broken = verdict is CheckVerdict.FAIL
    if broken and not check.level.fails_at(level):
        verdict = CheckVerdict.WARN
    exchange = finding.exchange or check.request(seen)
    shown = exchange if broken else None
    return CheckResult(
        name=check.name,
        level=check.level,
        reference=check.reference,
        rule=check.rule,
        verdict=verdict,
        # Names that an agent chose reach terminals, XML and build servers from here.
        detail=printable(finding.detail[:_MAX_DETAIL]),
        remedy=(finding.remedy or check.remedy) if broken else "",
        code=shown.error_code if shown else "",
        repeat=printable(command(shown)) if shown else "",
        url=printable(redact_url(shown.sent.url)) if shown else "",
    )

"""The conformance check: every rule of the agent contract, tried on a running agent."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from assay.contract.calling.endpoints import base_address, shown_address
from assay.contract.checking.exchange import Exchange
from assay.contract.checking.probes import CheckLimits, Observation, Prober
from assay.contract.checking.refusing import REFUSAL_CHECKS
from assay.contract.checking.sample_inputs import sample_inputs
from assay.contract.checking.stream import STREAM_CHECKS
from assay.contract.checking.sync import HEALTH_CHECKS, SYNC_CHECKS
from assay.contract.checking.verdicts import Check, CheckResult, TargetReport
from assay.errors import UsageError

CHECKS: tuple[Check, ...] = (*HEALTH_CHECKS, *SYNC_CHECKS, *STREAM_CHECKS, *REFUSAL_CHECKS)


@dataclass(frozen=True, slots=True)
class CheckTarget:
    url: str
    task_type: str


def parse_target(text: str) -> CheckTarget:
    """ "http://host:8000=RAG_RETRIEVE". The last = separates: an address may hold others."""
    url, separator, task_type = text.strip().rpartition("=")
    if not separator or not task_type or not url:
        raise UsageError(f"{text!r} is not URL=TASK, such as http://localhost:8000=RAG_RETRIEVE")
    return CheckTarget(base_address(url, "target"), task_type.strip())


def select_checks(skip: Collection[str]) -> tuple[Check, ...]:
    unknown = set(skip) - {check.name for check in CHECKS}
    if unknown:
        known = ", ".join(check.name for check in CHECKS)
        raise UsageError(f"no check is called {min(unknown)!r}; there are: {known}")
    return tuple(check for check in CHECKS if check.name not in skip)


async def check_agent(
    target: CheckTarget,
    *,
    inputs: Mapping[str, Any] | None = None,
    skip: Collection[str] = (),
    limits: CheckLimits | None = None,
    token: str | None = None,
) -> TargetReport:
    """About twenty requests, one after the other. `inputs` replace the plausible ones that are
    sent otherwise; they should be such that the agent can succeed."""
    checks = select_checks(skip)
    shown = shown_address(target.url)
    async with httpx.AsyncClient(follow_redirects=False) as http:
        prober = Prober(
            http,
            target.url,
            target.task_type,
            sample_inputs(target.task_type) if inputs is None else inputs,
            limits or CheckLimits(),
            token,
        )
        health = await prober.get("/health")
        if reason := _unreachable(health):
            return TargetReport(shown, target.task_type, unreachable=reason)
        seen = await prober.observe(health)
    return TargetReport(shown, target.task_type, tuple(_judge(checks, seen)))


def _unreachable(health: Exchange) -> str | None:
    """An agent that does not even answer this would keep every other request waiting, too."""
    if health.refused_connection:
        return "no connection; is the agent running at this address?"
    if health.timed_out and health.status is None:
        return f"it takes connections, but GET /health got no answer in {health.seconds:.0f} s"
    return None


def _judge(checks: tuple[Check, ...], seen: Observation) -> list[CheckResult]:
    found = [(check, check.judge(seen)) for check in checks]
    return [
        CheckResult(check.name, check.rule, finding.verdict, finding.detail)
        for check, finding in found
    ]

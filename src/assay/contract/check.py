"""The conformance check: every rule of the agent contract, tried on a running agent.

report = await check_agent(parse_check_target("http://localhost:8000=RAG_RETRIEVE"))
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import Any

import httpx

from assay.contract.client import check_base_url
from assay.contract.probes import (
    MAX_BODY_BYTES,
    SELECTORS,
    AgentObservation,
    CheckLimits,
    Exchange,
    Prober,
    curl_command,
    sample_inputs,
)
from assay.contract.rules import RULES, Rule, RuleLevel
from assay.errors import UsageError
from assay.net.client import open_client
from assay.net.json import JsonObject
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import printable, redact_url

_MAX_DETAIL = 2000


class CheckVerdict(StrEnum):
    """How a check ended; the value is what reports show."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found; `contract` is where the rule is written, and `repeat` a command that
    shows the finding again.
    """

    name: str
    verdict: CheckVerdict
    level: RuleLevel
    rule: str
    contract: str
    detail: str = ""
    remedy: str = ""
    repeat: str = ""


@dataclass(frozen=True, slots=True)
class TargetReport:
    """All results for one agent; `unreachable` says why nothing could be checked."""

    url: str
    task_type: str
    results: tuple[CheckResult, ...] = ()
    unreachable: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the agent was reached and no check failed."""
        return self.unreachable is None and not self.with_verdict(CheckVerdict.FAIL)

    def with_verdict(self, *verdicts: CheckVerdict) -> list[CheckResult]:
        """The results that ended in one of `verdicts`."""
        return [result for result in self.results if result.verdict in verdicts]

    def findings(self) -> list[CheckResult]:
        """What there is to fix, failures first and the strictest level first."""
        found = self.with_verdict(CheckVerdict.FAIL, CheckVerdict.WARN)
        levels = list(RuleLevel)
        return sorted(found, key=lambda each: (each.verdict, levels.index(each.level)))

    def counts(self) -> dict[str, int]:
        """How many checks ended in each verdict."""
        found = Counter(result.verdict for result in self.results)
        return {verdict.value: found[verdict] for verdict in CheckVerdict}


def parse_check_target(text: str) -> tuple[str, str]:
    """The address and the task in "http://host:8000=RAG_RETRIEVE", which the last = separates."""
    url, separator, task_type = text.strip().rpartition("=")
    if not separator or not task_type or not url:
        raise UsageError(f"{text!r} is not URL=TASK, such as http://localhost:8000=RAG_RETRIEVE")
    return check_base_url(url, "target"), task_type.strip()


def select_rules(skip: Collection[str]) -> tuple[Rule, ...]:
    """All rules but those named in `skip`."""
    unknown = set(skip) - {rule.name for rule in RULES}
    if unknown:
        known = ", ".join(rule.name for rule in RULES)
        raise UsageError(f"unknown check {min(unknown)!r}; choose from: {known}")
    return tuple(rule for rule in RULES if rule.name not in skip)


async def check_agent(
    url: str,
    task_type: str,
    *,
    inputs: Mapping[str, Any] | None = None,
    skip: Collection[str] = (),
    level: RuleLevel = RuleLevel.MUST,
    limits: CheckLimits | None = None,
    auth: httpx.Auth | None = None,
    policy: OutboundPolicy = UNRESTRICTED,
) -> TargetReport:
    """Check one agent with about twenty requests, one after the other.

    `inputs` replace the plausible ones that are sent otherwise; the agent must be able to succeed
    with them. Broken rules of a level weaker than `level` are warnings.
    """
    rules = select_rules(skip)
    shown = redact_url(url)
    asked = sample_inputs(task_type) if inputs is None else inputs
    # A server may close a connection after an error: on a new one, no answer is the agent's fault.
    async with open_client(policy, auth=auth, max_bytes=MAX_BODY_BYTES, keep_alive=False) as http:
        prober = Prober(http, url, task_type, asked, limits or CheckLimits())
        health = await prober.get("/health")
        # An agent that does not answer /health would make every other request wait as well.
        if health.status is None:
            reason = f"{health.failure}; is the agent running at this address?"
            return TargetReport(shown, task_type, unreachable=reason)
        seen = await prober.observe(health)
    if all(run.status in (401, 403) for run in seen.run.values()):
        status = seen.run["sync"].status
        reason = f"HTTP {status} for a valid request: set AGENT_TOKEN to the agent's bearer token"
        return TargetReport(shown, task_type, unreachable=reason)
    command = partial(curl_command, with_token=auth is not None, hide_inputs=inputs is not None)
    results = tuple(apply_rule(rule, seen, level, command) for rule in rules)
    return TargetReport(shown, task_type, results)


def apply_rule(
    rule: Rule, seen: AgentObservation, level: RuleLevel, command: Callable[[Exchange], str]
) -> CheckResult:
    """What a rule found; `command` makes the line that repeats a request."""
    answers = SELECTORS[rule.on](seen)
    found = [(answer, problem) for answer in answers if (problem := rule.test(answer, seen))]

    def result(verdict: CheckVerdict, **more: str) -> CheckResult:
        return CheckResult(rule.name, verdict, rule.level, rule.says, rule.reference, **more)

    if not answers:
        return result(CheckVerdict.NOT_APPLICABLE, detail=f"there was no {rule.on} to look at")
    if not found:
        return result(CheckVerdict.PASS)
    answer, detail = found[0]
    if answer.sent.fault:
        detail = f"{answer.sent.fault}: {detail}"
    if len(found) > 1:
        detail += f" ({len(found)} of {len(answers)} responses)"
    # By their order in the class: the members are strings, which compare by letters.
    levels = list(RuleLevel)
    return result(
        CheckVerdict.FAIL if levels.index(rule.level) <= levels.index(level) else CheckVerdict.WARN,
        # Names that an agent chose reach terminals, XML and build servers from here.
        detail=printable(detail[:_MAX_DETAIL]),
        remedy=rule.fix,
        repeat=printable(command(answer)),
    )


def report_json(reports: list[TargetReport]) -> JsonObject:
    """The document that `assay check --json` prints."""
    targets = []
    for report in reports:
        results = [asdict(result) for result in report.results]
        found: JsonObject = {
            "url": report.url,
            "task_type": report.task_type,
            "passed": report.passed,
            "reachable": report.unreachable is None,
            "counts": report.counts(),
            "checks": [{k: v for k, v in result.items() if v} for result in results],
        }
        targets.append(found | ({"error": report.unreachable} if report.unreachable else {}))
    return {"passed": all(report.passed for report in reports), "targets": targets}

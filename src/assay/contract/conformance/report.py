"""The rules of a conformance check, and what it found, as values and as JSON."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from assay.contract.conformance.exchange import Exchange
from assay.contract.conformance.probes import AgentObservation
from assay.net.json import JsonObject

CONTRACT_DOCUMENT = "Agent HTTP contract"
OUR_DOCUMENT = "docs/agent-contract.md"


class RuleLevel(StrEnum):
    """Whose rule it is, the strictest first: the value is what reports and `--level` show."""

    MUST = "must"
    """The contract demands it."""
    SHOULD = "should"
    """The contract recommends it."""
    OURS = "ours"
    """The contract is silent; Assay's agents and its callers keep it."""

    def fails_at(self, threshold: "RuleLevel") -> bool:
        """Whether a broken rule of this level is a failure where `threshold` is the weakest."""
        order = list(RuleLevel)
        return order.index(self) <= order.index(threshold)


class CheckVerdict(StrEnum):
    """How a check ended; the value is what reports show."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What one rule found.

    `detail` says what was seen; it quotes names and numbers, never content. `exchange` is where
    that differs from the rule's usual one, `remedy` where the rule's own does not fit the case.
    """

    verdict: CheckVerdict
    detail: str = ""
    exchange: Exchange | None = None
    remedy: str = ""


PASS = CheckFinding(CheckVerdict.PASS)


def fail(detail: str, exchange: Exchange | None = None, remedy: str = "") -> CheckFinding:
    """The rule is broken. How grave that is, its level says."""
    return CheckFinding(CheckVerdict.FAIL, detail, exchange, remedy)


def warning(detail: str) -> CheckFinding:
    """The rule is kept, and the reader should know something."""
    return CheckFinding(CheckVerdict.WARN, detail)


def not_applicable(detail: str) -> CheckFinding:
    """There was nothing to judge."""
    return CheckFinding(CheckVerdict.NOT_APPLICABLE, detail)


def fail_if(problems: list[str], exchange: Exchange | None = None) -> CheckFinding:
    """A failure that lists the problems; a pass where there are none."""
    return fail("; ".join(dict.fromkeys(problems)), exchange) if problems else PASS


@dataclass(frozen=True, slots=True)
class Check:
    """One rule.

    Parameters:
        name: the rule's id, in reports and for `--skip`.
        level: whose rule it is.
        place: where it is written: a section of the contract with its line, or of our page.
        rule: what is demanded.
        remedy: what to change in an agent that breaks it.
        judge: looks at what the agent did.
        request: the exchange that shows it, for the command that repeats a finding.
    """

    name: str
    level: RuleLevel
    place: str
    rule: str
    remedy: str
    judge: Callable[[AgentObservation], CheckFinding]
    request: Callable[[AgentObservation], Exchange | None]

    @property
    def reference(self) -> str:
        """The document and the place in it."""
        document = OUR_DOCUMENT if self.level is RuleLevel.OURS else CONTRACT_DOCUMENT
        return f"{document}, {self.place}"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found, as reports show it.

    `code` is the agent's own error code, `repeat` a command that shows the finding again. Both
    are empty where there is none, as are `remedy` and `detail` where the rule is kept.
    """

    name: str
    level: RuleLevel
    reference: str
    rule: str
    verdict: CheckVerdict
    detail: str = ""
    remedy: str = ""
    code: str = ""
    repeat: str = ""
    url: str = ""


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


def report_json(reports: list[TargetReport]) -> JsonObject:
    """The document that `assay check --json` prints."""
    return {
        "passed": all(report.passed for report in reports),
        "targets": [_target_json(report) for report in reports],
    }


def _target_json(report: TargetReport) -> JsonObject:
    found: JsonObject = {
        "url": report.url,
        "task_type": report.task_type,
        "passed": report.passed,
        "reachable": report.unreachable is None,
        "counts": report.counts(),
        "checks": [_result_json(result) for result in report.results],
    }
    return found if report.unreachable is None else {**found, "error": report.unreachable}


def _result_json(result: CheckResult) -> dict[str, str]:
    found = {
        "name": result.name,
        "verdict": result.verdict.value,
        "level": result.level.value,
        "rule": result.rule,
        "contract": result.reference,
        "detail": result.detail,
        "remedy": result.remedy,
        "error_code": result.code,
        "repeat": result.repeat,
    }
    return {name: value for name, value in found.items() if value}

"""What a conformance check demands and found, as values, JSON, JUnit XML and SARIF 2.1.0."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from xml.etree import ElementTree

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


def fail_if(problems: list[str]) -> CheckFinding:
    """A failure that lists the problems; a pass where there are none."""
    return fail("; ".join(dict.fromkeys(problems))) if problems else PASS


@dataclass(frozen=True, slots=True)
class Check:
    """One rule.

    Parameters:
        name: the rule's id, in reports and for `--skip`.
        place: where it is written: a section of the contract with its line, or of our page.
        rule: what is demanded.
        remedy: what to change in an agent that breaks it.
        judge: looks at what the agent did.
        request: the exchange that shows it, for the command that repeats a finding.
        level: whose rule it is.
    """

    name: str
    place: str
    rule: str
    remedy: str
    judge: Callable[[AgentObservation], CheckFinding]
    request: Callable[[AgentObservation], Exchange | None]
    level: RuleLevel

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


SARIF_VERSION = "2.1.0"
SARIF_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)

# How a viewer shows a broken rule of each level where the run does not say otherwise.
_SARIF_LEVELS = {RuleLevel.MUST: "error", RuleLevel.SHOULD: "warning", RuleLevel.OURS: "note"}


def report_junit(reports: list[TargetReport]) -> str:
    """A warning is a passed test with a note; what does not apply is a skipped one."""
    root = ElementTree.Element("testsuites", name="agent contract")
    for report in reports:
        root.append(_suite(report))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _suite(report: TargetReport) -> ElementTree.Element:
    counts = report.counts()
    suite = ElementTree.Element(
        "testsuite",
        name=f"{report.task_type} at {report.url}",
        tests=str(len(report.results) or 1),
        failures=str(counts[CheckVerdict.FAIL]),
        skipped=str(counts[CheckVerdict.NOT_APPLICABLE]),
        errors=str(int(report.unreachable is not None)),
    )
    if report.unreachable is not None:
        case = ElementTree.SubElement(suite, "testcase", name="reachable", classname="contract")
        ElementTree.SubElement(case, "error", message=report.unreachable)
    for result in report.results:
        _add_case(suite, result)
    return suite


def _add_case(suite: ElementTree.Element, result: CheckResult) -> None:
    classname = f"contract.{result.level}"
    case = ElementTree.SubElement(suite, "testcase", name=result.name, classname=classname)
    if result.verdict is CheckVerdict.FAIL:
        failure = ElementTree.SubElement(case, "failure", message=result.detail, type=result.level)
        failure.text = "\n".join(explanation(result))
    elif result.verdict is CheckVerdict.NOT_APPLICABLE:
        ElementTree.SubElement(case, "skipped", message=result.detail)
    elif result.verdict is CheckVerdict.WARN:
        lines = [f"warning: {result.detail}", *explanation(result)]
        ElementTree.SubElement(case, "system-out").text = "\n".join(lines)


def explanation(result: CheckResult) -> list[str]:
    """The lines below a finding: its rule, where that is written, what helps, how to see it."""
    named = {
        "contract": result.reference,
        "fix": result.remedy,
        "agent's error code": result.code,
        "repeat": result.repeat,
    }
    return [result.rule, *(f"{name}: {text}" for name, text in named.items() if text)]


def report_sarif(reports: list[TargetReport], checks: Sequence[Check]) -> JsonObject:
    """One SARIF run: a finding is a result, an agent that was not reached a notification."""
    places = {check.name: place for place, check in enumerate(checks)}
    return {
        "$schema": SARIF_SCHEMA,
        "version": SARIF_VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "assay check",
                        "version": version("agent-assay"),
                        "rules": [_sarif_rule(check) for check in checks],
                    }
                },
                "invocations": [_invocation(reports)],
                "results": [
                    _sarif_result(report, result, places[result.name])
                    for report in reports
                    for result in report.findings()
                ],
            }
        ],
    }


def _invocation(reports: Sequence[TargetReport]) -> JsonObject:
    notes = [
        {"level": "error", "message": {"text": f"{each.url}: {each.unreachable}"}}
        for each in reports
        if each.unreachable is not None
    ]
    return {"executionSuccessful": not notes, "toolExecutionNotifications": notes}


def _sarif_rule(check: Check) -> JsonObject:
    return {
        "id": check.name,
        "shortDescription": {"text": check.rule},
        "help": {"text": f"{check.remedy} ({check.reference})"},
        "defaultConfiguration": {"level": _SARIF_LEVELS[check.level]},
        "properties": {"tags": [check.level.value]},
    }


def _sarif_result(report: TargetReport, result: CheckResult, place: int) -> JsonObject:
    failed = result.verdict is CheckVerdict.FAIL
    properties = {
        "task_type": report.task_type,
        "rule_level": result.level.value,
        "error_code": result.code,
        "repeat": result.repeat,
    }
    return {
        "ruleId": result.name,
        "ruleIndex": place,
        "level": "error" if failed else _weaker(result.level),
        "message": {"text": "\n".join([result.detail, *explanation(result)])},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": result.url or report.url}}}
        ],
        # A line moves, an agent's address and rule do not: what viewers follow a finding by.
        "partialFingerprints": {"rule/v1": f"{report.url}={report.task_type}:{result.name}"},
        "properties": {name: value for name, value in properties.items() if value},
    }


def _weaker(level: RuleLevel) -> str:
    return "warning" if level is RuleLevel.MUST else _SARIF_LEVELS[level]

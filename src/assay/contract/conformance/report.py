"""What a conformance check found, as values, JSON and JUnit XML."""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree

from assay.contract.conformance.rules import RuleLevel
from assay.net.json import JsonObject


class CheckVerdict(StrEnum):
    """How a check ended; the value is what reports show."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found, as reports show it.

    `code` is the agent's own error code, `repeat` a command that shows the finding again. Both
    are empty if there is none, as are `remedy` and `detail` if the rule is kept.
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

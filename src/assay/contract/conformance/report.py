"""The findings of a conformance check, also as JSON and as JUnit XML for build servers."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from xml.etree import ElementTree

from assay.contract.conformance.probes import AgentObservation
from assay.net.json import JsonObject


class CheckVerdict(StrEnum):
    """How a check ended; the value is what reports show."""

    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """`detail` says what was seen; it quotes names and numbers, never content."""

    verdict: CheckVerdict
    detail: str = ""


PASS = CheckFinding(CheckVerdict.PASS)


def fail(detail: str) -> CheckFinding:
    """The rule is broken."""
    return CheckFinding(CheckVerdict.FAIL, detail)


def warning(detail: str) -> CheckFinding:
    """A recommendation is not followed."""
    return CheckFinding(CheckVerdict.WARN, detail)


def not_applicable(detail: str) -> CheckFinding:
    """There was nothing to judge."""
    return CheckFinding(CheckVerdict.NOT_APPLICABLE, detail)


def fail_if(problems: list[str]) -> CheckFinding:
    """A failure that lists the problems; a pass where there are none."""
    return fail("; ".join(problems)) if problems else PASS


@dataclass(frozen=True, slots=True)
class Check:
    """`rule` is the sentence of the contract that the check tests."""

    name: str
    rule: str
    judge: Callable[[AgentObservation], CheckFinding]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found, as reports show it."""

    name: str
    rule: str
    verdict: CheckVerdict
    detail: str


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
    found = {"name": result.name, "verdict": result.verdict.value, "rule": result.rule}
    return {**found, "detail": result.detail} if result.detail else found


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
    case = ElementTree.SubElement(suite, "testcase", name=result.name, classname="contract")
    if result.verdict is CheckVerdict.FAIL:
        ElementTree.SubElement(case, "failure", message=result.detail).text = result.rule
    elif result.verdict is CheckVerdict.NOT_APPLICABLE:
        ElementTree.SubElement(case, "skipped", message=result.detail)
    elif result.verdict is CheckVerdict.WARN:
        ElementTree.SubElement(case, "system-out").text = f"warning: {result.detail}"

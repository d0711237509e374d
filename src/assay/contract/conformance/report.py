"""What a conformance check says."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from xml.etree import ElementTree

from assay.contract.conformance.probes import Observation


class Verdict(StrEnum):
    PASS = "pass"
    FAIL = "fail"
    WARN = "warn"
    NOT_APPLICABLE = "n/a"


@dataclass(frozen=True, slots=True)
class Finding:
    """`detail` says what was seen; it quotes names and numbers, never content."""

    verdict: Verdict
    detail: str = ""


PASS = Finding(Verdict.PASS)


def fail(detail: str) -> Finding:
    return Finding(Verdict.FAIL, detail)


def warn(detail: str) -> Finding:
    return Finding(Verdict.WARN, detail)


def not_applicable(detail: str) -> Finding:
    return Finding(Verdict.NOT_APPLICABLE, detail)


def fail_if(problems: list[str]) -> Finding:
    return fail("; ".join(problems)) if problems else PASS


@dataclass(frozen=True, slots=True)
class Check:
    """`rule` is the sentence of the contract that the check stands for."""

    name: str
    rule: str
    judge: Callable[[Observation], Finding]


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str
    rule: str
    verdict: Verdict
    detail: str


@dataclass(frozen=True, slots=True)
class TargetReport:
    """`unreachable` says why nothing could be checked; None when the agent answered."""

    url: str
    task_type: str
    results: tuple[CheckResult, ...] = ()
    unreachable: str | None = None

    @property
    def passed(self) -> bool:
        return self.unreachable is None and not self.with_verdict(Verdict.FAIL)

    def with_verdict(self, *verdicts: Verdict) -> list[CheckResult]:
        return [result for result in self.results if result.verdict in verdicts]

    def counts(self) -> dict[str, int]:
        found = Counter(result.verdict for result in self.results)
        return {verdict.value: found[verdict] for verdict in Verdict}


def as_json(reports: list[TargetReport]) -> dict[str, Any]:
    return {
        "passed": all(report.passed for report in reports),
        "targets": [_target_json(report) for report in reports],
    }


def _target_json(report: TargetReport) -> dict[str, Any]:
    found: dict[str, Any] = {
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


def as_junit(reports: list[TargetReport]) -> str:
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
        failures=str(counts[Verdict.FAIL]),
        skipped=str(counts[Verdict.NOT_APPLICABLE]),
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
    if result.verdict is Verdict.FAIL:
        ElementTree.SubElement(case, "failure", message=result.detail).text = result.rule
    elif result.verdict is Verdict.NOT_APPLICABLE:
        ElementTree.SubElement(case, "skipped", message=result.detail)
    elif result.verdict is Verdict.WARN:
        ElementTree.SubElement(case, "system-out").text = f"warning: {result.detail}"

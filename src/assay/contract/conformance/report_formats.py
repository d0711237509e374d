"""The findings of a conformance check for build servers: JUnit XML and SARIF 2.1.0."""

from collections.abc import Sequence
from importlib.metadata import version
from xml.etree import ElementTree

from assay.contract.conformance.checks import CHECKS
from assay.contract.conformance.report import (
    Check,
    CheckResult,
    CheckVerdict,
    RuleLevel,
    TargetReport,
)
from assay.net.json import JsonObject

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


def report_sarif(reports: list[TargetReport]) -> JsonObject:
    """One SARIF run; each finding is a result, and an agent that was not reached a notification."""
    return {
        "$schema": SARIF_SCHEMA,
        "version": SARIF_VERSION,
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "assay check",
                        "version": version("agent-assay"),
                        "rules": [_sarif_rule(check) for check in CHECKS],
                    }
                },
                "invocations": [_invocation(reports)],
                "results": [
                    _sarif_result(report, result)
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


def _sarif_result(report: TargetReport, result: CheckResult) -> JsonObject:
    failed = result.verdict is CheckVerdict.FAIL
    properties = {
        "task_type": report.task_type,
        "rule_level": result.level.value,
        "error_code": result.code,
        "repeat": result.repeat,
    }
    names = [check.name for check in CHECKS]
    return {
        "ruleId": result.name,
        "ruleIndex": names.index(result.name),
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

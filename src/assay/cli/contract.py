"""`assay check`: do agents conform to the HTTP agent contract?"""

import asyncio
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.text import Text

from assay.cli.console import Unwrapped, say
from assay.cli.verb import Result, argument, option, switch
from assay.contract.check import (
    CheckResult,
    CheckVerdict,
    TargetReport,
    check_agent,
    parse_check_target,
    report_json,
    select_rules,
)
from assay.contract.rules import RuleLevel
from assay.errors import UsageError
from assay.net.client import token_for
from assay.net.json import JsonObject, parse_object
from assay.net.outbound import UNRESTRICTED
from assay.net.redact import AGENT_TOKEN_VARIABLE, redact_url

if TYPE_CHECKING:
    from rich.console import RenderableType

TARGETS_VARIABLE = "AGENT_CONTRACT_TARGETS"


def check(
    targets: list[str] | None = argument(
        "URL=TASK", f"Agents to check. Default: {TARGETS_VARIABLE}, apart by commas.", default=None
    ),
    inputs: str | None = option(None, "Inputs for the task.", "ASSAY_CHECK_INPUTS", "JSON"),
    skip: list[str] | None = option(None, "Skip this check. Repeatable.", metavar="NAME"),
    all_checks: bool = switch("--all", "Also list checks that passed; show warnings in full."),
    level: str = option(
        "must",
        "The weakest level that fails: must, should or ours (Assay's own rules).",
        "ASSAY_CHECK_LEVEL",
        "LEVEL",
        choices=("must", "should", "ours"),
    ),
) -> Result:
    """Check that agents conform to the HTTP agent contract.

    AGENT_TOKEN, if set, is sent as a bearer token.

    Exit codes: 0 success, 1 a rule of the chosen level is broken, 2 usage or input error, 3 an
    agent could not be reached.
    """
    given = targets or os.environ.get(TARGETS_VARIABLE, "").split(",")
    if not (given := [each.strip() for each in given if each.strip()]):
        raise UsageError(f"pass an agent as URL=TASK, or set {TARGETS_VARIABLE}")
    parsed = [parse_check_target(target) for target in given]
    sent: JsonObject | None = None
    if inputs is not None and (sent := parse_object(inputs)) is None:
        raise UsageError('--inputs must be a JSON object, such as {"query": "..."}')
    select_rules(skip or ())

    reports = []
    for url, task in parsed:
        say(f"checking {task} at {redact_url(url)}")
        auth = token_for(url, UNRESTRICTED, AGENT_TOKEN_VARIABLE)
        checking = check_agent(
            url, task, inputs=sent, auth=auth, skip=skip or (), level=RuleLevel(level)
        )
        reports.append(asyncio.run(checking))
    text = (part for report in reports for part in _rendered(report, all_checks))
    exit_code = 0 if all(report.passed for report in reports) else 1
    if any(report.unreachable for report in reports):
        exit_code = 3
    return Result(report_json(reports), text, exit_code)


def _rendered(report: TargetReport, all_checks: bool) -> "Iterator[RenderableType]":
    """What was found on an agent; `all_checks` lists the checks that passed, too."""
    yield Text.assemble((report.task_type, "bold"), f" at {report.url}")
    for result in report.findings():
        yield from _finding(result, complete=all_checks or result.verdict is CheckVerdict.FAIL)
    for result in report.with_verdict(CheckVerdict.PASS, CheckVerdict.NOT_APPLICABLE):
        if all_checks:
            said = f"{result.rule}; {result.detail}" if result.detail else result.rule
            yield Text(f"{result.verdict:<4}  {result.level:<6}  {result.name}: {said}", "dim")
    yield from (_summary(report), "")


def _finding(result: CheckResult, *, complete: bool) -> "Iterator[RenderableType]":
    """What is wrong and what helps; `complete` adds the rule and the command."""
    style = "bold red" if result.verdict is CheckVerdict.FAIL else "yellow"
    yield Text.assemble((f"{result.verdict:<4}", style), f"  {result.level:<6}  {result.name}")
    lines = [f"seen: {result.detail}"]
    if complete:
        lines.insert(0, f"{result.rule} ({result.contract})")
    if result.remedy:
        lines.append(f"fix: {result.remedy}")
    yield Padding(Text("\n".join(lines)), (0, 0, 0, 2), expand=False)
    if complete and result.repeat:
        yield Unwrapped(f"  repeat: {result.repeat}")


def _summary(report: TargetReport) -> Text:
    if report.unreachable is not None:
        return Text.assemble(("unreachable", "bold red"), f"  {report.unreachable}")
    counts = report.counts()
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in counts if counts[verdict])
    if report.passed:
        hint = "; --all shows the rules and commands of warnings" if counts["warn"] else ""
        return Text.assemble(("conforms to the contract", "green"), f": {said}{hint}")
    return Text.assemble(("violates the contract", "bold red"), f": {said}")

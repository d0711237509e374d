"""`assay check`: checks that agents keep the HTTP agent contract."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import print_json, say, show
from assay.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from assay.contract.conformance.report import TargetReport
    from assay.net.json import JsonObject

TARGETS_VARIABLE = "AGENT_CONTRACT_TARGETS"


def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="URL=TASK...",
            help=f"Agents to check. Default: {TARGETS_VARIABLE}, separated by commas.",
            show_default=False,
        ),
    ] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            envvar="ASSAY_CHECK_INPUTS",
            help="Inputs to send instead of the built-in sample inputs for the task.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Skip this check. Repeatable."),
    ] = None,
    all_checks: Annotated[
        bool, typer.Option("--all", help="Also list the checks that passed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the findings as JUnit XML.")
    ] = None,
) -> None:
    """Check that agents conform to the HTTP agent contract.

    AGENT_TOKEN, if set, is sent as a bearer token. Exits 0 when every check passed, 1 when
    one failed, 3 when an agent could not be reached.
    """
    given = targets or targets_from_environment()
    if not given:
        raise UsageError(f"pass an agent as URL=TASK, or set {TARGETS_VARIABLE}")
    reports = check_all(given, inputs=parse_inputs(inputs), skip=skip or [])
    if junit is not None:
        _write_junit(junit, reports)
    if json:
        from assay.contract.conformance.report import report_json

        print_json(report_json(reports))
    else:
        show_reports(reports, all_checks=all_checks)
    raise typer.Exit(check_exit_code(reports))


def targets_from_environment() -> list[str]:
    """The targets in AGENT_CONTRACT_TARGETS."""
    given = os.environ.get(TARGETS_VARIABLE, "")
    return [part.strip() for part in given.split(",") if part.strip()]


def check_all(
    targets: list[str], *, inputs: "JsonObject | None" = None, skip: list[str]
) -> "list[TargetReport]":
    """Check all targets, one after the other."""
    import asyncio

    from assay.contract.conformance.checks import check_agent, parse_check_target, select_checks
    from assay.net.client import TOKEN_VARIABLE, token_for
    from assay.net.outbound import UNRESTRICTED
    from assay.net.redact import redact_url

    parsed = [parse_check_target(target) for target in targets]
    select_checks(skip)

    async def run() -> "list[TargetReport]":
        reports = []
        for target in parsed:
            say(f"checking {target.task_type} at {redact_url(target.url)}")
            auth = token_for(target.url, UNRESTRICTED, TOKEN_VARIABLE)
            reports.append(await check_agent(target, inputs=inputs, skip=skip, auth=auth))
        return reports

    return asyncio.run(run())


def check_exit_code(reports: "list[TargetReport]") -> int:
    """0 when every check passed, 1 when one failed, 3 when an agent could not be reached."""
    if any(report.unreachable for report in reports):
        return 3
    return 0 if all(report.passed for report in reports) else 1


def parse_inputs(text: str | None) -> "JsonObject | None":
    """The value of `--inputs`."""
    import orjson

    if text is None:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"--inputs is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError('--inputs must be a JSON object, such as {"query": "..."}')
    return value


def show_reports(reports: "list[TargetReport]", *, all_checks: bool = False) -> None:
    """Print a table for each agent; `all_checks` lists those that passed, too."""
    from rich.text import Text

    for report in reports:
        show(Text.assemble((report.task_type, "bold"), f" at {report.url}"))
        table = _table(report, all_checks)
        if table.row_count:
            show(table)
        show(_summary(report), "")


def _table(report: "TargetReport", all_checks: bool) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from assay.contract.conformance.report import CheckVerdict

    styles = {
        CheckVerdict.FAIL: "bold red",
        CheckVerdict.WARN: "yellow",
        CheckVerdict.PASS: "green",
    }
    shown = tuple(CheckVerdict) if all_checks else (CheckVerdict.FAIL, CheckVerdict.WARN)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(ratio=1)
    for result in report.with_verdict(*shown):
        said = [result.rule, f"seen: {result.detail}"] if result.detail else [result.rule]
        style = styles.get(result.verdict, "dim")
        table.add_row(Text(result.verdict, style=style), result.name, Text("\n".join(said)))
    return table


def _summary(report: "TargetReport") -> "Text":
    from rich.text import Text

    if report.unreachable is not None:
        return Text.assemble(("unreachable", "bold red"), f"  {report.unreachable}")
    counts = report.counts()
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in counts if counts[verdict])
    if report.passed:
        return Text.assemble(("conforms to the contract", "green"), f": {said}")
    return Text.assemble(("violates the contract", "bold red"), f": {said}")


def _write_junit(path: Path, reports: "list[TargetReport]") -> None:
    from assay.contract.conformance.report import report_junit

    try:
        path.write_text(report_junit(reports), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--junit: cannot write {str(path)!r}: {error.strerror}") from None

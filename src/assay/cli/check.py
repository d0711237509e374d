"""`assay check`: does an agent keep the HTTP agent contract?"""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, say, show
from assay.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from assay.contract.conformance.report import TargetReport

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
            help="Inputs to send instead of plausible ones for the task.",
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Leave a check out. May be repeated."),
    ] = None,
    all_checks: Annotated[
        bool, typer.Option("--all", help="List the checks that passed, too.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the findings as JUnit XML.")
    ] = None,
) -> None:
    """Check that agents keep the HTTP agent contract.

    AGENT_TOKEN is sent as a bearer token where it is set. Exits 0 when every check passed, 1 when
    one failed, 3 when an agent could not be reached.
    """
    given = targets or targets_from_environment()
    if not given:
        raise UsageError(f"name an agent as URL=TASK, or set {TARGETS_VARIABLE}")
    reports = check_all(given, inputs=parse_inputs(inputs), skip=skip or [])
    if junit is not None:
        _write_junit(junit, reports)
    if json:
        from assay.contract.conformance.report import as_json

        print_json(as_json(reports))
    else:
        show_reports(reports, all_checks=all_checks)
    raise typer.Exit(exit_code(reports))


def targets_from_environment() -> list[str]:
    given = os.environ.get(TARGETS_VARIABLE, "")
    return [part.strip() for part in given.split(",") if part.strip()]


def check_all(
    targets: list[str], *, inputs: dict[str, Any] | None = None, skip: list[str]
) -> "list[TargetReport]":
    import asyncio

    from assay.contract.conformance.checks import check_agent, parse_target, select_checks
    from assay.contract.endpoints import shown_address, token_from_environment

    parsed = [parse_target(target) for target in targets]
    select_checks(skip)

    async def each() -> "list[TargetReport]":
        reports = []
        for target in parsed:
            say(f"checking {target.task_type} at {shown_address(target.url)}")
            report = await check_agent(
                target, inputs=inputs, skip=skip, token=token_from_environment()
            )
            reports.append(report)
        return reports

    return asyncio.run(each())


def exit_code(reports: "list[TargetReport]") -> int:
    if any(report.unreachable for report in reports):
        return 3
    return 0 if all(report.passed for report in reports) else 1


def parse_inputs(text: str | None) -> dict[str, Any] | None:
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

    from assay.contract.conformance.report import Verdict

    styles = {Verdict.FAIL: "bold red", Verdict.WARN: "yellow", Verdict.PASS: "green"}
    shown = tuple(Verdict) if all_checks else (Verdict.FAIL, Verdict.WARN)
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
        return Text.assemble(("keeps the contract", "green"), f": {said}")
    return Text.assemble(("breaks the contract", "bold red"), f": {said}")


def _write_junit(path: Path, reports: "list[TargetReport]") -> None:
    from assay.contract.conformance.report import as_junit

    try:
        path.write_text(as_junit(reports), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--junit: cannot write {str(path)!r}: {error.strerror}") from None

"""Output of `assay eval` at the end of a run: scores, warnings, the folder, and files for CI."""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from assay.cli.console import print_json, say, show, warn, write_output
from assay.cli.options import option
from assay.errors import AssayError
from assay.run.state import RunState

if TYPE_CHECKING:
    from assay.evaluation.run import Run
    from assay.run.folder import RunFolder
    from assay.run.models import Report
    from assay.run.run_record import GateResult


SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"

Junit = Annotated[
    Path | None,
    option(
        "Write the gates as JUnit XML, which CI systems show as tests.",
        "ASSAY_JUNIT",
        "FILE",
        "--junit",
        rich_help_panel="Output",
    ),
]
Markdown = Annotated[
    Path | None,
    option(
        "Write a summary in Markdown; it is appended to $GITHUB_STEP_SUMMARY.",
        "ASSAY_MARKDOWN",
        "FILE",
        "--markdown",
        rich_help_panel="Output",
    ),
]
Html = Annotated[
    Path | None,
    option(
        "Write the report as one HTML file here too, such as an artifact of CI.",
        "ASSAY_HTML",
        "FILE",
        "--html",
        rich_help_panel="Output",
    ),
]


@contextmanager
def errors_in_ci_files(
    junit: Path | None, markdown: Path | None, html: Path | None, target: str
) -> Iterator[None]:
    """An evaluation that breaks off without a report is an error in the files for CI as well.

    What an earlier run left there would be taken for the result of this one.
    """
    try:
        yield
    except AssayError as error:
        from assay.report.ci import render_html_error, render_junit_error, render_markdown_error

        if junit is not None:
            _write_ci_file(junit, render_junit_error(target, str(error)))
        if markdown is not None:
            _write_ci_file(markdown, render_markdown_error(target, str(error)).encode())
        if html is not None:
            _write_ci_file(html, render_html_error(target, str(error)).encode())
        raise


def write_ci_files(
    run: "Run", junit: Path | None, markdown: Path | None, html: Path | None = None
) -> None:
    """Write what was asked for. Raises `UsageError` where a file cannot be written."""
    from assay.files import read_file

    if html is not None and run.folder.page_file.is_file():
        _write_ci_file(html, read_file(run.folder.page_file))
    if junit is None and markdown is None:
        return
    from assay.report.ci import render_junit, render_markdown

    if junit is not None:
        _write_ci_file(junit, render_junit(run.report, run.name))
    if markdown is not None:
        text = render_markdown(run.report, run.folder.read_header(), run.name)
        _write_ci_file(markdown, text.encode())


def say_gates(gates: Iterable["GateResult"], report: "Report | None" = None) -> None:
    """The verdict of every gate on stderr, whatever stdout is used for.

    `report`: of the run that they were applied to, if there is one.
    """
    from assay.report.terminal import gate_verdict

    for gate in gates:
        say(gate_verdict(gate, report))


def _write_ci_file(path: Path, content: bytes) -> None:
    shared = str(path) == os.environ.get(SUMMARY_VARIABLE)  # other steps of the job write there too
    write_output(path, content, append=shared)


def print_report(folder: "RunFolder") -> None:
    """The whole report as JSON; on a terminal without control characters."""
    if sys.stdout.isatty():
        print_json(folder.read_json())
    else:
        folder.copy_report(sys.stdout.buffer)


def show_run(run: "Run", as_json: bool) -> None:
    """The run's tables, also kept in its folder; or its report as JSON."""
    from assay.report.terminal import plain_text, render_report

    table = render_report(run.report, path=str(run.folder))
    if as_json:
        print_report(run.folder)
    else:
        show(table)
    run.folder.write_summary(plain_text(table))


def print_run(run: "Run", as_json: bool) -> None:
    """The result on stdout; gates, warnings and what is left to do on stderr."""
    from assay.evaluation.run import no_answers

    if words := no_answers(run):  # before tables and advice that all follow from it
        warn(words)
    show_run(run, as_json)
    say_gates(run.report.gates, run.report)
    report = run.report
    answers, answered = report.answers, report.summary.successful_queries
    if not answered:
        say("no query was answered: see the failures above")
    for words in report.warnings:
        warn(words)
    trouble = answers.trouble if answers else None
    if trouble:
        say(f"not all answers were judged: {trouble}")
    if run.state != RunState.COMPLETE or trouble:
        say(f"finish it with: assay eval --resume {run.folder}")


def say_where(run: "Run") -> None:
    """One line that says how to see the run."""
    if not run.folder.page_file.is_file():  # interrupted before anything was scored
        return
    parent = run.folder.path.parent
    runs = "" if str(parent) == "runs" else f" --runs {shlex.quote(str(parent))}"
    say(
        f"see it: {run.folder.page_file}, or: assay report --open {shlex.quote(str(run.folder))}, "
        f"or all runs: assay serve ui{runs}"
    )

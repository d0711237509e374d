"""`--junit`, `--markdown` and `--html` of `assay eval`: what a run leaves for CI."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.console import say
from assay.errors import AssayError, UsageError

if TYPE_CHECKING:
    from assay.evaluation.run import Run

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"

Junit = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        help="Write the gates as JUnit XML, which CI systems show as tests.",
        envvar="ASSAY_JUNIT",
        metavar="FILE",
        rich_help_panel="Output",
    ),
]
Markdown = Annotated[
    Path | None,
    typer.Option(
        "--markdown",
        help="Write a summary in Markdown; it is appended to $GITHUB_STEP_SUMMARY.",
        envvar="ASSAY_MARKDOWN",
        metavar="FILE",
        rich_help_panel="Output",
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        help="Write the report as one HTML file here too, such as an artifact of CI.",
        envvar="ASSAY_HTML",
        metavar="FILE",
        rich_help_panel="Output",
    ),
]

FailOnRegression = Annotated[
    bool,
    typer.Option(
        "--fail-on-regression",
        help="Exit with 1 if the run is significantly worse than the one that it is compared with.",
        rich_help_panel="Run",
    ),
]


@contextmanager
def errors_in_junit(junit: Path | None, target: str) -> Iterator[None]:
    """An evaluation that breaks off without a report is an error in the JUnit file as well."""
    try:
        yield
    except AssayError as error:
        if junit is not None:
            from assay.report.ci import render_junit_error

            _write(junit, render_junit_error(target, str(error)))
        raise


def write_ci_files(
    run: "Run", junit: Path | None, markdown: Path | None, html: Path | None = None
) -> None:
    """Write what was asked for. Raises `UsageError` where a file cannot be written."""
    if html is not None and run.folder.page_file.is_file():
        _write(html, run.folder.page_file.read_bytes())
    if junit is None and markdown is None:
        return
    from assay.report.ci import render_junit, render_markdown

    if junit is not None:
        _write(junit, render_junit(run.report, run.name))
    if markdown is not None:
        text = render_markdown(run.report, run.folder.read_header(), run.name)
        _write(markdown, text.encode())


def say_gates(run: "Run") -> None:
    """The verdict of every gate on stderr, whatever stdout is used for."""
    from assay.report.terminal import gate_verdict

    for gate in run.report.gates:
        say(gate_verdict(gate, run.report))


def labels_misfit(run: "Run") -> bool:
    """Whether the labels no longer fit, so that no comparison says anything."""
    labels = run.report.comparison.labels if run.report.comparison else None
    return labels is not None and labels.turned_over


def say_regressions(run: "Run") -> int:
    """1 if a compared metric fell significantly (Holm), 3 if the labels no longer fit, else 0.

    What is found is said on stderr.
    """
    from assay.measure.figures import parse_figure
    from assay.report.numbers import difference, interval

    comparison = run.report.comparison
    if comparison is None:
        return 0
    if comparison.labels is not None and comparison.labels.turned_over:
        say(f"not compared: {comparison.labels.words}")
        return 3
    metrics = comparison.metrics.items()
    worse = {name: each for name, each in metrics if each.significant and each.difference < 0}
    for name, each in worse.items():
        size = f"{difference(each.difference)} {interval(each.low, each.high)}"
        say(f"regression: {parse_figure(name)} {size} against {comparison.run}")
    return 1 if worse else 0


def _write(path: Path, content: bytes) -> None:
    from assay.files import atomic_write

    try:
        if str(path) == os.environ.get(SUMMARY_VARIABLE):  # other steps of the job write there too
            with path.open("ab") as file:
                file.write(content)
        else:
            atomic_write(path, content)
    except OSError as error:
        raise UsageError(f"cannot write {str(path)!r}: {error.strerror}") from None
    say(f"wrote {path}")

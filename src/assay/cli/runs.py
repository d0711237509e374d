"""`assay runs`, `assay report` and `assay compare`: what is in the run folders."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, say, show
from assay.cli.options import is_on_command_line, read_values, with_options
from assay.cli.page_files import (
    dataset_of,
    open_page,
    share_matrix,
    share_slice,
    temporary_page,
    write_page,
)
from assay.errors import UsageError
from assay.net.json import parse_object
from assay.run.settings import RunSetting, settings

if TYPE_CHECKING:
    from assay.run.answers import PreferenceReport
    from assay.run.folder import RunFolder
    from assay.run.index import RunLine


Prefer = Annotated[
    bool,
    typer.Option(
        "--prefer",
        help="Also ask a judge (--judge) which of the two answers to each question is better, in "
        "both orders: wins, ties, flips, a sign test. Exit code 3 if the judge is not to be "
        "believed.",
    ),
]
PreferBy = Annotated[
    Path | None,
    typer.Option(
        "--prefer-by",
        help="With --prefer: a criterion of your own (.md) that says what makes an answer better.",
        metavar="FILE",
    ),
]
_NAMES = ("max_cost",)


def preference_settings() -> list[RunSetting]:
    """The options of `assay eval` that mean the same here: the judge's."""
    chosen = [each for name, each in settings().items() if name.startswith("judge")]
    return [_renamed(each) for each in (*chosen, *(settings()[name] for name in _NAMES))]


def _renamed(setting: RunSetting) -> RunSetting:
    words = setting.option.help.replace("With --answers:", "With --prefer:")
    return replace(setting, option=replace(setting.option, help=words))


def ask_preferences(
    context: typer.Context,
    folders: "list[RunFolder]",
    criterion: Path | None,
    options: dict[str, Any],
) -> "PreferenceReport":
    """Ask the judge about the answers of two runs."""
    if len(folders) != 2:
        raise UsageError("--prefer compares the answers of two runs; name two")
    from assay.cli.console import progress_bar
    from assay.cli.eval import judge_spec
    from assay.evaluation.answers.criteria import prefer_runs
    from assay.run.config import RunConfig

    values = read_values(context, preference_settings(), options)
    values["judge"] = judge_spec(options["judge"], options["max_cost"])
    if not values["judge"]:
        raise UsageError("--prefer asks a judge; add --judge SPEC")
    config = RunConfig(target="", answers=True, **values)
    with progress_bar() as progress:
        return asyncio.run(prefer_runs(folders, config, criterion, progress=progress))


def refuse_unused(context: typer.Context) -> None:
    """A judge that is named and would not be asked."""
    for name in ("judge", "max_cost", "prefer_by"):
        if is_on_command_line(context, name):
            flag = f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} has no effect without --prefer; add it")


Out = Annotated[Path, typer.Option(help="Folder of the runs.", envvar="ASSAY_OUT")]

_LONG_LIST = 500

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Html = Annotated[
    Path | None, typer.Option("--html", help="Write the report as an HTML page.", metavar="FILE")
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
Run = Annotated[
    str,
    typer.Argument(
        help="A run's folder, its name, a prefix of its name, latest, or the newest complete run "
        "of a label or branch."
    ),
]


def runs_command(
    of_label: Annotated[
        str | None, typer.Option("--label", help="Only runs with this label.", metavar="NAME")
    ] = None,
    of_branch: Annotated[
        str | None,
        typer.Option("--branch", help="Only runs made on this git branch.", metavar="NAME"),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only runs started since then: 2026-11-01, 12h or 7d.", metavar="TIME|AGE"
        ),
    ] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="Only runs that ended early, or in which a gate or a query failed."
        ),
    ] = False,
    sort: Annotated[
        str,
        typer.Option(
            help="started (newest last), score (best first), latency (fastest first), label or "
            "branch.",
            metavar="ORDER",
        ),
    ] = "started",
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the runs, newest last."""
    from assay.run.listing import RunSelection, list_lines, parse_since

    selection = RunSelection(of_label, of_branch, parse_since(since) if since else None, failed)
    every = list_lines(out)
    lines = selection.choose(every, sort)
    if as_json:
        print_json([_listed(line) for line in lines])
    elif not every:
        show(f"No runs in {out} yet. Create one with: assay eval")
    elif not lines:
        show(f"No run in {out} matches ({len(every)} without these options: assay runs).")
    else:
        _show_runs(lines)


def _show_runs(lines: "list[RunLine]") -> None:
    """Columns that no run has anything in are left out."""
    from assay.report.numbers import with_interval

    rows: list[dict[str, str]] = []
    for line in lines:
        score = "" if line.mean is None else with_interval(line.mean, line.low, line.high)
        row = {"run": line.name, "label": line.label or "", "branch": line.branch or ""}
        commit = (line.git_commit or "")[:8] + ("-dirty" if line.git_dirty else "")
        row |= {"commit": commit, "track": line.track or ""}
        rows.append(
            row | {"metric": line.metric or "", "mean and 95% interval": score, "state": line.state}
        )
    optional = ("label", "branch", "commit")
    headings = [each for each in rows[0] if each not in optional or any(row[each] for row in rows)]
    if len(rows) > _LONG_LIST:
        _show_plain(headings, rows)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=heading == "run")
    for row in rows:
        table.add_row(*(row[each] for each in headings))
    show(table, wide=True)


def _show_plain(headings: "list[str]", rows: "list[dict[str, str]]") -> None:
    """The same columns without a layout, which takes seconds for thousands of lines."""
    import sys

    from assay.net.redact import printable

    widths = {each: max(len(each), *(len(row[each]) for row in rows)) for each in headings}
    every = [{each: each for each in headings}, *rows]
    lines = (" ".join(row[each].ljust(widths[each]) for each in headings).rstrip() for row in every)
    sys.stdout.write("".join(f"{printable(' '.join(line.splitlines()))}\n" for line in lines))


def _listed(line: "RunLine") -> dict[str, str | float | dict[str, str] | None]:
    listed: dict[str, str | float | dict[str, str] | None] = {
        "run": line.name,
        "track": line.track or "",
        "state": line.state,
        "started": line.started,
        "target": line.target,
        "dataset": line.dataset,
        "label": line.label,
        "branch": line.branch,
        "commit": line.git_commit,
        "dirty": None if line.git_dirty is None else bool(line.git_dirty),
        "tags": parse_object(line.tags or "{}") or {},
        "note": line.note,
    }
    if line.mean is not None:
        listed |= {"metric": line.metric, "mean": line.mean, "low": line.low, "high": line.high}
        listed |= {"queries": line.queries, "failed": line.failed}
        listed |= {"gates_failed": line.gates_failed}
    return listed


def report(
    run: Run = "latest",
    html: Html = None,
    in_browser: Open = False,
    of_slice: Annotated[
        str | None,
        typer.Option(
            "--slice",
            help="With --html or --open: only the queries of a slice, such as 'Form of the query: "
            "question', with what was retrieved for each.",
            metavar="TITLE: NAME",
        ),
    ] = None,
    out: Out = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Show a run's report again."""
    from assay.evaluation.reporting import render_report_page
    from assay.report.terminal import render_report
    from assay.run.folder import find_run

    folder = find_run(run, out)
    page = folder.page_file
    if of_slice is not None:
        share_slice(folder, of_slice, html, in_browser)
        return
    if html is not None or (in_browser and not page.exists()):
        write_page(html or page, render_report_page(folder, dataset_of(folder)))
    if in_browser:
        open_page(html or page)
        return
    if html is None:
        folder.validate()
    if as_json:
        print_json(folder.read_json())
    elif html is None:
        show(render_report(folder.read_report(), path=str(folder)))


@with_options(preference_settings())
def compare(
    context: typer.Context,
    run_a: Run,
    run_b: Run = "latest",
    more: Annotated[
        list[str] | None, typer.Argument(help="Further runs to compare with A.", metavar="[RUN]...")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Compare by this metric. Repeatable.")
    ] = None,
    with_preference: Prefer = False,
    prefer_by: PreferBy = None,
    overlap: Annotated[
        bool,
        typer.Option(
            "--overlap",
            help="Compare the rankings alone, without judgments: RBO, documents in common, "
            "queries that changed most.",
        ),
    ] = False,
    matrix: Annotated[
        bool,
        typer.Option(
            "--matrix", help="With --html or --open: every query, with the score of each run."
        ),
    ] = False,
    html: Html = None,
    in_browser: Open = False,
    out: Out = Path("runs"),
    as_json: AsJson = False,
    **options: Any,
) -> None:
    """Compare runs with the first one, query by query."""
    from assay.errors import UsageError
    from assay.measure.metrics import parse_figure
    from assay.report.terminal import render_comparison
    from assay.run.comparison import ComparedRun, compare_with_each, find_judgments
    from assay.run.folder import find_run

    folders = [find_run(each, out) for each in (run_a, run_b, *(more or ()))]
    _refuse_twice(folders)
    if matrix:
        share_matrix(folders, html, in_browser)
        return
    if overlap:
        if metric or html is not None or in_browser:
            raise UsageError("--overlap prints tables or --json; the page has it without --overlap")
        _show_overlap(folders, as_json, several=bool(more))
        return
    metrics = [parse_figure(text) for text in metric or ()]
    first, *others = [ComparedRun.read(folder) for folder in folders]
    comparisons = compare_with_each(first, others, metrics, find_judgments(first, others))
    del first, others  # the page reads what it shows
    preference = None
    if with_preference:
        preference = ask_preferences(context, folders, prefer_by, options)
        comparisons = [comparisons[0].model_copy(update={"preference": preference})]
    else:
        refuse_unused(context)
    if as_json:
        printed = [each.model_dump(mode="json", exclude_unset=True) for each in comparisons]
        print_json(printed if more else printed[0])
    elif html is not None or in_browser:
        from assay.report.html_comparison import ComparedSide, render_comparison_page

        sides = [ComparedSide.read(folder) for folder in folders]
        page = html or temporary_page()
        write_page(page, render_comparison_page(sides, comparisons, dataset_of(folders[0])))
        if in_browser:
            open_page(page)
    else:
        show(*(part for each in comparisons for part in (render_comparison(each), "")))
        if preference is not None:
            from assay.report.terminal_answers import render_preference

            show(render_preference(preference))
    if preference is not None and preference.trouble:
        say(f"not judged: {preference.trouble}")
        raise typer.Exit(3)


def _show_overlap(folders: "list[RunFolder]", as_json: bool, *, several: bool) -> None:
    from assay.report.terminal import render_overlap
    from assay.run.overlap import compare_run_rankings

    found = [compare_run_rankings(folders[0], other) for other in folders[1:]]
    if as_json:
        printed = [each.model_dump(mode="json") for each in found]
        print_json(printed if several else printed[0])
    else:
        show(*(part for each in found for part in (render_overlap(each), "")))


def _refuse_twice(folders: "list[RunFolder]") -> None:
    from assay.errors import UsageError

    paths = [folder.path.resolve() for folder in folders]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise UsageError(
                f"run {folders[place].name!r} would be compared with itself; choose another "
                "one; to list them: assay runs"
            )

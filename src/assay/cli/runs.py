"""`assay runs`, `assay report` and `assay compare`: runs as tables and as pages."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.console import print_json, progress_bar, say, show, warn, write_output
from assay.cli.options import (
    JsonOption,
    RunsOption,
    option,
    read_values,
    refuse_unused,
    settings_with_help,
    switch,
    with_options,
)
from assay.errors import UsageError
from assay.llm.provider_kinds import PROVIDER_FORMS
from assay.net.json import JsonObject, parse_object

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.run.answers import PreferenceReport
    from assay.run.folder import RunFolder
    from assay.run.index import RunLine

Prefer = Annotated[
    bool,
    switch(
        "--prefer",
        "Also ask a judge (--judge) which of the two answers to each question is better, in "
        "both orders: wins, ties, flips, a sign test. Exit code 3 if the judge fails its "
        "controls or contradicts itself too often.",
    ),
]
PreferBy = Annotated[
    Path | None,
    option(
        "With --prefer: a criterion of your own (.md) that says what makes an answer better.",
        None,
        "FILE",
        "--prefer-by",
    ),
]
_PREFERENCE = settings_with_help(
    ("judge", "judge_set", "max_cost"), {"judge": f"With --prefer: the model: {PROVIDER_FORMS}."}
)


def ask_preferences(
    context: typer.Context,
    folders: "list[RunFolder]",
    criterion: Path | None,
    options: dict[str, Any],
) -> "PreferenceReport":
    """Ask the judge about the answers of two runs."""
    if len(folders) != 2:
        raise UsageError("--prefer compares the answers of two runs; name two")
    from assay.cli.dataset_and_judge import judge_spec
    from assay.evaluation.answers.criteria import prefer_runs
    from assay.run.config import RunConfig

    values = read_values(context, _PREFERENCE, options)
    values["judge"] = judge_spec(options["judge"], options["max_cost"])
    if not values["judge"]:
        raise UsageError("--prefer asks a judge; add --judge SPEC")
    config = RunConfig(target="", answers=True, **values)
    with progress_bar() as progress:
        return asyncio.run(prefer_runs(folders, config, criterion, progress=progress))


_LONG_LIST = 500

HtmlFile = Annotated[
    Path | None, option("Write an HTML page to this file.", None, "FILE", "--html")
]
Open = Annotated[bool, switch("--open", "Open the page in the browser.")]


def _run_argument(metavar: str) -> Any:
    return typer.Argument(
        help="A run's folder, its name, a prefix of its name, latest, or the newest complete run "
        "of a label or branch.",
        metavar=metavar,
    )


def runs_command(
    of_label: Annotated[
        str | None, option("Only runs with this label.", None, "NAME", "--label")
    ] = None,
    of_branch: Annotated[
        str | None, option("Only runs made on this git branch.", None, "NAME", "--branch")
    ] = None,
    since: Annotated[
        str | None,
        option("Only runs started since then: 2026-11-01, 12h or 7d.", metavar="TIME|AGE"),
    ] = None,
    failed: Annotated[
        bool,
        switch("--failed", "Only runs that ended early, or in which a gate or a query failed."),
    ] = False,
    sort: Annotated[
        str,
        option(
            "started (newest last), score (best first), latency (fastest first), label or branch.",
            metavar="ORDER",
        ),
    ] = "started",
    out: RunsOption = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """List the runs of a folder, newest last."""
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
    from assay.net.redact import printable

    widths = {each: max(len(each), *(len(row[each]) for row in rows)) for each in headings}
    every = [{each: each for each in headings}, *rows]
    lines = (" ".join(row[each].ljust(widths[each]) for each in headings).rstrip() for row in every)
    sys.stdout.write("".join(f"{printable(' '.join(line.splitlines()))}\n" for line in lines))


def _listed(line: "RunLine") -> JsonObject:
    listed: JsonObject = {
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
    run: Annotated[str, _run_argument("RUN")] = "latest",
    html: HtmlFile = None,
    in_browser: Open = False,
    query: Annotated[
        str | None,
        option("Show one answer: what the judge was asked, and its replies.", None, "ID"),
    ] = None,
    worst: Annotated[
        int | None, option("Show only the queries that lost most.", None, "N", "--worst", min=1)
    ] = None,
    out: RunsOption = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Show the report of a run."""
    from assay.evaluation.reporting import render_report_page
    from assay.report.terminal import render_report, render_worst
    from assay.run.folder import find_run

    folder = find_run(run, out)
    page = folder.page_file
    if query is not None:
        _show_answer(folder, query, as_json)
        return
    if html is not None or (in_browser and not page.exists()):
        write_page(html or page, render_report_page(folder, dataset_of(folder)))
    if in_browser:
        open_page(html or page)
        return
    if html is None:
        folder.validate()
    if worst is not None:
        show(render_worst(folder.read_report(), folder.read_rows(), worst))
    elif as_json:
        print_json(folder.read_json())
    elif html is None:
        show(render_report(folder.read_report(), path=str(folder)))


def _show_answer(folder: "RunFolder", query_id: str, as_json: bool) -> None:
    """One answer with its reference, verdict, and every prompt and reply of the judge."""
    from dataclasses import asdict

    from assay.report.console import facts_table
    from assay.run.judge_log import read_judge_calls

    row = next((each for each in folder.read_answers() if each.query_id == query_id), None)
    if row is None:
        raise UsageError(f"run {folder.name!r} has no answer for query {query_id!r}")
    calls = list(read_judge_calls(folder.path, query_id))
    if as_json:
        print_json({"answer": row.model_dump(), "judge": [asdict(call) for call in calls]})
        return
    right = {True: "right", False: "wrong", None: "undecided"}[row.correct]
    shown = {"question": row.query_text, "answer": row.answer, "reference": row.reference_answer}
    show(
        facts_table([*((name, text or "none") for name, text in shown.items()), ("verdict", right)])
    )
    for call in calls:
        show("", f"{call.kind}: {call.verdict or 'not a verdict'}")
        show(f"reply: {call.reply if call.reply is not None else 'refused'}", call.prompt)
    if not calls:
        say("the run keeps no prompt of a judge: none judged this answer, or it is private")


@with_options(_PREFERENCE)
def compare(
    context: typer.Context,
    run_a: Annotated[str, _run_argument("RUN_A")],
    run_b: Annotated[str, _run_argument("RUN_B")] = "latest",
    more: Annotated[
        list[str] | None, typer.Argument(help="Further runs to compare with RUN_A.", metavar="RUN")
    ] = None,
    metric: Annotated[
        list[str] | None, option("Compare by this metric. Repeatable.", None, "NAME@K")
    ] = None,
    with_preference: Prefer = False,
    prefer_by: PreferBy = None,
    html: HtmlFile = None,
    in_browser: Open = False,
    out: RunsOption = Path("runs"),
    as_json: JsonOption = False,
    **options: Any,
) -> None:
    """Compare runs query by query, each with the first."""
    from assay.answers.figures import parse_figure
    from assay.report.terminal import render_comparison
    from assay.run.comparison import ComparedRun, compare_with_each, find_dataset
    from assay.run.folder import find_run

    folders = [find_run(each, out) for each in (run_a, run_b, *(more or ()))]
    _refuse_twice(folders)
    metrics = [parse_figure(text) for text in metric or ()]
    first, *others = [ComparedRun.read(folder) for folder in folders]
    comparisons = compare_with_each(first, others, metrics, find_dataset([first, *others]))
    del first, others  # the page reads what it shows
    preference = None
    if with_preference:
        preference = ask_preferences(context, folders, prefer_by, options)
        comparisons = [comparisons[0].model_copy(update={"preference": preference})]
    else:
        asked = {"prefer_by"} | {each.param for each in _PREFERENCE}
        refuse_unused(context, asked, "without --prefer; add it")
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


def _refuse_twice(folders: "list[RunFolder]") -> None:
    paths = [folder.path.resolve() for folder in folders]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise UsageError(
                f"run {folders[place].name!r} would be compared with itself; choose another "
                "one; to list them: assay runs"
            )


def dataset_of(folder: "RunFolder") -> "Dataset | None":
    """The data set of a run; a warning where it is missing."""
    from assay.run.folder import find_run_dataset

    dataset, why = find_run_dataset(folder.read_header())
    if dataset is None:
        warn(f"the page shows only ids, without grades and texts: {why}")
    return dataset


def write_page(path: Path, page: str) -> None:
    """Write a page and say where. Raises `UsageError`."""
    write_output(path, page.encode())


def temporary_page(name: str = "comparison.html") -> Path:
    """A file for a page that is only to be seen."""
    import tempfile

    return Path(tempfile.mkdtemp(prefix="assay-")) / name


def open_page(path: Path) -> None:
    """Show a page in the browser."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        warn(f"no browser was found; open {path} yourself")

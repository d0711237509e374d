"""`assay runs`, `assay report` and `assay compare`: runs as tables and as pages."""

import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.table import Table

from assay.cli.console import Unwrapped, warn, write_output
from assay.cli.options import MetricsOption, RunsOption
from assay.cli.verb import Result, argument, option, switch
from assay.errors import UsageError
from assay.net.json import JsonObject
from assay.report.console import facts_table
from assay.report.numbers import with_interval
from assay.report.terminal import render_comparison, render_report, render_worst, split_metrics
from assay.run.comparison import ComparedRun, compare_with_each, find_dataset
from assay.run.folder import RunFolder, find_run, find_run_dataset
from assay.run.listing import RunSearch, list_lines, sort_lines

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.run.listing import RunLine

_LONG_LIST = 500
_ORDERS = {
    "started": "when",
    "score": "-mean",
    "latency": "p50",
    "label": "label",
    "branch": "branch",
}
_LISTED = ("state", "started", "target", "dataset", "label", "branch", "note")
_FIGURES = ("metric", "mean", "low", "high", "queries", "failed", "gates_failed")
HtmlFile = Annotated[
    Path | None, option("Write an HTML page to this file.", None, "FILE", "--html")
]
Open = Annotated[bool, switch("--open", "Open the page in the browser.")]


def _run_argument(metavar: str) -> Any:
    return argument(
        metavar,
        "A run's folder, its name, a prefix of its name, latest, or the newest complete run of a "
        "label or branch.",
    )


def runs(
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
) -> Result:
    """List the runs of a folder, newest last."""
    if sort not in _ORDERS:
        raise UsageError(f"--sort must be one of {', '.join(_ORDERS)}, got {sort!r}")
    asked = {"label": of_label, "branch": of_branch, "since": since, "failed": failed or None}
    search = RunSearch.parse(" ".join(f'{k}:"{v}"' for k, v in asked.items() if v is not None))
    every = list_lines(out)
    lines = sort_lines(filter(search, every), _ORDERS[sort])
    text = _runs_table(lines) if lines else []
    if not every:
        text = [f"No runs in {out} yet. Create one with: assay eval"]
    elif not lines:
        text = [f"No run in {out} matches ({len(every)} without these options: assay runs)."]
    return Result([_listed(line) for line in lines], text, wide=True)


def _runs_table(lines: "list[RunLine]") -> list[Any]:
    """Columns that no run has anything in are left out."""
    rows = []
    for line in lines:
        row = {"run": line.name, "label": line.label or "", "branch": line.branch or ""}
        row["commit"] = (line.git_commit or "")[:8] + "-dirty" * bool(line.git_dirty)
        row |= {"track": line.track or "", "metric": line.metric or ""}
        score = "" if line.mean is None else with_interval(line.mean, line.low, line.high)
        rows.append(row | {"mean and 95% interval": score, "state": line.state})
    optional = ("label", "branch", "commit")
    headings = [name for name in rows[0] if name not in optional or any(row[name] for row in rows)]
    if len(rows) > _LONG_LIST:  # a layout takes seconds for thousands of lines
        widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in headings}
        every = [{name: name for name in headings}, *rows]
        texts = (" ".join(row[name].ljust(widths[name]) for name in headings) for row in every)
        return [Unwrapped(" ".join(text.rstrip().splitlines())) for text in texts]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in headings:
        table.add_column(heading, no_wrap=heading == "run")
    for row in rows:
        table.add_row(*(row[name] for name in headings))
    return [table]


def _listed(line: "RunLine") -> JsonObject:
    listed = {
        "run": line.name,
        "track": line.track or "",
        "commit": line.git_commit,
        "dirty": None if line.git_dirty is None else bool(line.git_dirty),
        "tags": dict(line.tags or {}),
    }
    listed |= {name: getattr(line, name) for name in _LISTED}
    return listed | ({} if line.mean is None else {name: getattr(line, name) for name in _FIGURES})


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
    metrics: MetricsOption = None,
    out: RunsOption = Path("runs"),
) -> Result:
    """Show the report of a run."""
    from assay.report.html import render_run

    folder = find_run(run, out)
    page = folder.page_file
    if query is not None:
        return _answer(folder, query)
    if html is not None or (in_browser and not page.exists()):
        write_output(html or page, render_run(folder, _dataset_of(folder)).encode())
    if in_browser:
        webbrowser.open((html or page).absolute().as_uri())
    if html is not None or in_browser:
        return Result({"page": str(html or page)})
    folder.validate()
    found = folder.read_report()
    if worst is not None:
        return Result(folder.read_json(), [render_worst(found, folder.read_rows(), worst)])
    return Result(
        folder.read_json(), [render_report(found, path=str(folder), metrics=metrics or ())]
    )


def _answer(folder: RunFolder, query_id: str) -> Result:
    """One answer with its reference, verdict, and every prompt and reply of the judge."""
    from assay.run.judge_log import read_judge_calls

    row = next((row for row in folder.read_answers() if row.query_id == query_id), None)
    if row is None:
        raise UsageError(f"run {folder.name!r} has no answer for query {query_id!r}")
    calls = list(read_judge_calls(folder.path, query_id))
    right = {True: "right", False: "wrong", None: "undecided"}[row.correct]
    shown = {"question": row.query_text, "answer": row.answer, "reference": row.reference_answer}
    facts = [*((name, text or "none") for name, text in shown.items()), ("verdict", right)]
    text: list[Any] = [facts_table(facts)]
    for call in calls:
        text += ["", f"{call.kind}: {call.verdict or 'not a verdict'}"]
        text += [f"reply: {call.reply if call.reply is not None else 'refused'}", call.prompt]
    none = "the run keeps no prompt of a judge: none judged this answer, or it is private"
    value = {"answer": row.model_dump(), "judge": [call.model_dump() for call in calls]}
    return Result(value, text, notes=[] if calls else [none])


def compare(
    run_a: Annotated[str, _run_argument("RUN_A")],
    run_b: Annotated[str, _run_argument("RUN_B")] = "latest",
    more: Annotated[
        list[str] | None, argument("RUN", "Further runs to compare with RUN_A.")
    ] = None,
    metrics: Annotated[
        list[str] | None,
        option("Compare by these metrics, such as ndcg@10,map.", "ASSAY_METRICS", "NAME@K,…"),
    ] = None,
    html: HtmlFile = None,
    in_browser: Open = False,
    out: RunsOption = Path("runs"),
) -> Result:
    """Compare runs query by query, each with the first."""
    from assay.metrics.figures import parse_figure

    folders = [find_run(run, out) for run in (run_a, run_b, *(more or ()))]
    _require_different(folders)
    figures = [parse_figure(text) for text in split_metrics(metrics or ())]
    first, *others = [ComparedRun.read(folder) for folder in folders]
    comparisons = compare_with_each(first, others, figures, find_dataset([first, *others]))
    del first, others  # the page reads what it shows
    printed = [found.model_dump(mode="json", exclude_unset=True) for found in comparisons]
    value = printed if more else printed[0]
    if html is None and not in_browser:
        return Result(
            value, [part for found in comparisons for part in (render_comparison(found), "")]
        )
    from assay.report.html_comparison import ComparedSide, compare_page, render_compare_file

    sides = [ComparedSide.read(folder) for folder in folders]
    page = html or Path(tempfile.mkdtemp(prefix="assay-")) / "comparison.html"
    shown = compare_page(sides, comparisons, _dataset_of(folders[0]))
    write_output(page, render_compare_file(shown).encode())
    if in_browser:
        webbrowser.open(page.absolute().as_uri())
    return Result(value)


def _require_different(folders: list[RunFolder]) -> None:
    paths = [folder.path.resolve() for folder in folders]
    for place, path in enumerate(paths):
        if path in paths[:place]:
            raise UsageError(
                f"run {folders[place].name!r} would be compared with itself; choose another "
                "one; to list them: assay runs"
            )


def _dataset_of(folder: RunFolder) -> "Dataset | None":
    """The data set of a run; a warning if it is missing."""
    dataset, why = find_run_dataset(folder.read_header())
    if dataset is None:
        warn(f"the page shows only ids, without grades and texts: {why}")
    return dataset

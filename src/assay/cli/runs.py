"""`assay runs`, `report`, `compare` and `export`: runs as tables, pages and files."""

import os
import tempfile
import webbrowser
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click
import orjson

from assay.cli.console import Unwrapped, warn, write_output
from assay.cli.options import METRICS_OPTION, RUNS_OPTION, require_used
from assay.cli.verb import Output, Result, argument, option, switch
from assay.errors import RunError, UsageError
from assay.evaluation.merge import submission_of
from assay.net.json import JsonObject
from assay.report import export as formats
from assay.report.console import facts_table
from assay.report.export import TABLES, ExportedRun, write_rows
from assay.report.numbers import with_interval
from assay.report.terminal import (
    query_texts,
    render_comparison,
    render_report,
    render_worst,
    split_metrics,
)
from assay.run.comparison import ComparedRun, compare_with_each, find_dataset
from assay.run.folder import RunFolder, find_run, find_run_dataset
from assay.run.listing import list_lines, parse_search, sort_lines

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.run.listing import RunLine

_ORDERS = {
    "started": "when",
    "score": "-mean",
    "latency": "p50",
    "label": "label",
    "branch": "branch",
}
_LISTED = ("state", "started", "target", "dataset", "label", "branch", "note")
_HEADINGS = (
    *("run", "label", "branch", "commit", "track", "metric"),
    "mean and 95% interval",
    "state",
)
_FIGURES = ("metric", "mean", "low", "high", "queries", "failed", "gates_failed")
FORMATS = ("csv", "markdown", "latex", "trec", "parquet", "jsonl")
HTML_FILE_OPTION = option(None, "Write an HTML page to this file.", None, "FILE", "--html")
OPEN_OPTION = switch("--open", "Open the page in the browser.")


def _run_argument(metavar: str, default: Any = ...) -> Any:
    return argument(
        metavar,
        "A run's folder, its name, a prefix of its name, latest, or the newest complete run of a "
        "label or branch.",
        default=default,
    )


def runs(
    of_label: str | None = option(None, "Only runs with this label.", None, "NAME", "--label"),
    of_branch: str | None = option(
        None, "Only runs made on this git branch.", None, "NAME", "--branch"
    ),
    since: str | None = option(
        None, "Only runs started since then: 2026-11-01, 12h or 7d.", metavar="TIME|AGE"
    ),
    failed: bool = switch(
        "--failed", "Only runs that ended early, or in which a gate or a query failed."
    ),
    sort: str = option(
        "started",
        "started (newest last), score (best first), latency (fastest first), label or branch.",
        metavar="ORDER",
        choices=tuple(_ORDERS),
    ),
    out: Path = RUNS_OPTION,
) -> Result:
    """List the runs of a folder, newest last."""
    asked = {"label": of_label, "branch": of_branch, "since": since, "failed": failed or None}
    search = parse_search(" ".join(f'{k}:"{v}"' for k, v in asked.items() if v is not None))
    every = list_lines(out)
    lines = sort_lines(filter(search, every), _ORDERS[sort])
    text: Any = _runs_table(lines)
    if not every:
        text = [f"No runs in {out} yet. Create one with: assay eval"]
    elif not lines:
        text = [f"No run in {out} matches ({len(every)} without these options: assay runs)."]
    return Result([_listed(line) for line in lines], text, wide=True)


def _runs_table(lines: "list[RunLine]") -> Iterator[Unwrapped]:
    # Not a table of rich, which takes seconds for thousands of rows.
    rows = [{name: name for name in _HEADINGS}]
    for line in lines:
        commit = (line.git_commit or "")[:8] + "-dirty" * bool(line.git_dirty)
        score = "" if line.mean is None else with_interval(line.mean, line.low, line.high)
        texts = (line.name, line.label, line.branch, commit, line.track, line.metric, score)
        rows.append(
            dict(zip(_HEADINGS, [text or "" for text in (*texts, line.state)], strict=True))
        )
    optional = ("label", "branch", "commit")
    shown = [name for name in _HEADINGS if name not in optional or any(r[name] for r in rows[1:])]
    widths = {name: max(len(row[name]) for row in rows) for name in shown}
    for row in rows:
        text = "  ".join(row[name].ljust(widths[name]) for name in shown)
        yield Unwrapped(" ".join(text.rstrip().splitlines()))


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
    run: str = _run_argument("RUN", default="latest"),
    html: Path | None = HTML_FILE_OPTION,
    in_browser: bool = OPEN_OPTION,
    query: str | None = option(
        None, "Show one answer: what the judge was asked, and its replies.", None, "ID"
    ),
    worst: int | None = option(
        None, "Show only the queries that lost most.", None, "N", "--worst", min=1
    ),
    metrics: list[str] | None = METRICS_OPTION,
    out: Path = RUNS_OPTION,
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
    texts = {}
    if found.failures or found.answers:  # reading the rows of a large run takes seconds
        texts = query_texts(folder.read_answers(), folder.read_rows())
    table = render_report(found, path=str(folder), metrics=metrics or (), texts=texts)
    return Result(folder.read_json(), [table])


def _answer(folder: RunFolder, query_id: str) -> Result:
    """One answer with its reference, verdict, and every prompt and reply of the judge."""
    row = next((row for row in folder.read_answers() if row.query_id == query_id), None)
    if row is None:
        missing = f"no answer for query {query_id!r}"
        if not folder.answers_file.exists():
            missing = "rankings only; add --answers to assay eval, or look at: assay serve ui"
        raise UsageError(f"run {folder.name!r} has {missing}")
    calls = list(folder.read_judge_calls(query_id))
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
    run_a: str = _run_argument("RUN_A"),
    run_b: str = _run_argument("RUN_B", default="latest"),
    more: list[str] | None = argument("RUN", "Further runs to compare with RUN_A.", default=None),
    metrics: list[str] | None = option(
        None, "Compare by these metrics, such as ndcg@10,map.", "ASSAY_METRICS", "NAME@K,…"
    ),
    html: Path | None = HTML_FILE_OPTION,
    in_browser: bool = OPEN_OPTION,
    out: Path = RUNS_OPTION,
) -> Result:
    """Compare runs query by query, each with the first."""
    from assay.metrics.figures import parse_figure

    folders = [find_run(run, out) for run in (run_a, run_b, *(more or ()))]
    paths = [folder.path.resolve() for folder in folders]
    if twice := [folder.name for folder in folders if paths.count(folder.path.resolve()) > 1]:
        raise UsageError(
            f"run {twice[0]!r} would be compared with itself; choose another one; to list them: "
            "assay runs"
        )
    figures = [parse_figure(text) for text in split_metrics(metrics or ())]
    as_page = in_browser or html is not None
    sides = [ComparedRun.read(folder, keep_rows=as_page) for folder in folders]
    comparisons = compare_with_each(sides[0], sides[1:], figures, find_dataset(sides))
    printed = [found.model_dump(mode="json", exclude_unset=True) for found in comparisons]
    value = printed if more else printed[0]
    if not as_page:
        return Result(
            value, [part for found in comparisons for part in (render_comparison(found), "")]
        )
    from assay.report.html_comparison import compare_page, render_compare_file

    page = html or Path(tempfile.mkdtemp(prefix="assay-")) / "comparison.html"
    shown = compare_page(sides, comparisons, _dataset_of(folders[0]))
    write_output(page, render_compare_file(shown).encode())
    if in_browser:
        webbrowser.open(page.absolute().as_uri())
    return Result(value, [])


def _dataset_of(folder: RunFolder) -> "Dataset | None":
    """The data set of a run; a warning if it is missing."""
    dataset, why = find_run_dataset(folder.read_header())
    if dataset is None:
        warn(f"the page shows only ids, without grades and texts: {why}")
    return dataset


def export(
    context: click.Context,
    runs: list[str] = argument(
        "RUN", "Runs: a folder, a name, a prefix of a name, latest, a label or a branch."
    ),
    form: str = option(
        ...,
        "csv, markdown, latex, trec, parquet, jsonl or agentbeats.",
        None,
        "NAME",
        "--format",
        choices=(*FORMATS, "agentbeats"),
    ),
    table: str | None = option(
        None,
        "runs (one row a run) or queries (one row a query). Default: runs for csv, queries "
        "for parquet and jsonl.",
        metavar="NAME",
        choices=TABLES,
    ),
    metrics: list[str] | None = option(
        None,
        "The metrics to write, such as ndcg@10,map. Default: what all runs have; nDCG, recall "
        "and MRR in markdown and latex.",
        "ASSAY_METRICS",
        "NAME@K,…",
    ),
    out: Path | None = option(None, "Write to this file instead of stdout."),
    folder: Path = RUNS_OPTION,
) -> Output:
    """Export runs as tables, as TREC runs or for AgentBeats.

    --format agentbeats writes the result file of a run, or of all its shards, for the platform's
    leaderboards; AGENTBEATS_AGENT_ID names the agent there.
    """
    if form == "agentbeats":
        require_used(context, ("metrics", "table"), "on a result file of AgentBeats; leave it out")
        shards = [find_run(each, folder) for each in runs]
        document = submission_of(shards, os.environ.get("AGENTBEATS_AGENT_ID"))
        if document["status"] != "completed":
            warn("not every query was asked, so the result is partial")
        content = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        return Output(lambda stream: stream.write(content), out)
    kind = table or ("queries" if form in ("trec", "parquet", "jsonl") else "runs")
    if form == "trec" and (kind != "queries" or len(runs) > 1):
        raise UsageError("--format trec writes the rankings of one run; pass one, without --table")
    if form in ("markdown", "latex") and kind != "runs":
        raise UsageError(f"--format {form} writes a table of runs; use csv for other tables")
    if kind == "queries":
        require_used(context, ("metrics",), "on rows of queries and on a TREC run; leave it out")
    exported = [ExportedRun.read(find_run(each, folder)) for each in runs]
    return Output(partial(_export, exported, form, kind, split_metrics(metrics or ())), out)


def _export(
    runs: list[ExportedRun], form: Any, table: str, metrics: list[str], stream: BinaryIO
) -> None:
    if form == "trec":
        formats.write_trec(runs[0], stream)
        return
    if table == "queries":
        write_rows(formats.query_rows_of(runs), form, stream, formats.query_columns(runs))
        return
    is_paper = form in ("markdown", "latex")
    figures = formats.figures_of(runs, metrics, few=is_paper)
    if not is_paper:
        write_rows(formats.run_rows(runs, figures), form, stream, formats.run_columns(figures))
        return
    comparisons = []
    try:
        if len(runs) > 1:
            comparisons = formats.compare_with_first(runs, figures)
    except RunError as error:
        warn(f"nothing is bold or marked in the table: {error}")
    formats.write_paper_table(runs, figures, comparisons, form, stream)

"""`assay runs`, `report`, `compare` and `export`: runs as tables, pages and files."""

import os
import tempfile
import webbrowser
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import orjson

from assay.cli.console import Unwrapped, facts, warn, write_output, write_stream
from assay.cli.options import METRICS_OPTION, RUNS_OPTION, require_used
from assay.cli.verb import Result, argument, option, switch
from assay.errors import RunError, UsageError
from assay.evaluation.merge import submission_of
from assay.net.json import JsonObject
from assay.report import export as formats
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
_FIGURES = ("metric", "mean", "low", "high", "queries", "failed", "gates_failed")
FORMATS = ("csv", "markdown", "latex", "trec", "parquet", "jsonl")
HTML_FILE_OPTION = option(None, "Write an HTML page to this file.", None, "FILE", "--html")
OPEN_OPTION = switch("--open", "Open the page in the browser.")


_A_RUN = "A run's folder, name, prefix of its name, label or branch, or latest."


def runs(
    of_label: str | None = option(None, "Only runs with this label.", None, "NAME", "--label"),
    of_branch: str | None = option(None, "Only runs of this git branch.", None, "NAME", "--branch"),
    since: str | None = option(None, "Only runs since 2026-11-01, 12h or 7d.", metavar="TIME|AGE"),
    failed: bool = switch("--failed", "Only runs that ended early or failed a gate or query."),
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
    if lines:
        return Result([_listed(line) for line in lines], _runs_table(lines), wide=True)
    what = f"matches ({len(every)} without these options)" if every else "yet: assay eval makes one"
    return Result([], [f"No run in {out} {what}."])


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


def _runs_table(lines: "list[RunLine]") -> Iterator[Unwrapped]:
    # Not a table of rich, which takes seconds for thousands of rows.
    rows = [
        {
            "run": line.name,
            "label": line.label,
            "branch": line.branch,
            "commit": (line.git_commit or "")[:8] + "-dirty" * bool(line.git_dirty),
            "track": line.track,
            "metric": line.metric,
            "mean and 95% interval": line.mean is not None
            and with_interval(line.mean, line.low, line.high),
            "state": line.state,
        }
        for line in lines
    ]
    columns = []
    for name in rows[0]:
        cells = [" ".join(str(row[name] or "").splitlines()) for row in rows]
        if any(cells) or name not in ("label", "branch", "commit"):
            width = max(map(len, (name, *cells)))
            columns.append([cell.ljust(width) for cell in (name, *cells)])
    yield from (Unwrapped("  ".join(cells).rstrip()) for cells in zip(*columns, strict=True))


def report(
    run: str = argument("RUN", _A_RUN, default="latest"),
    html: Path | None = HTML_FILE_OPTION,
    in_browser: bool = OPEN_OPTION,
    query: str | None = option(None, "Show one answer, with what the judge said.", None, "ID"),
    worst: int | None = option(
        None, "Show the queries that lost most.", None, "N", "--worst", min=1
    ),
    metrics: list[str] | None = METRICS_OPTION,
    out: Path = RUNS_OPTION,
) -> Result:
    """Show the report of a run."""
    from assay.report.html import render_run

    folder = find_run(run, out)
    if query is not None:
        return _answer(folder, query)
    if html is not None or in_browser:
        page = html or folder.page_file
        if html is not None or not page.exists():
            write_output(page, render_run(folder, _dataset_of(folder)).encode())
        if in_browser:
            webbrowser.open(page.absolute().as_uri())
        return Result({"page": str(page)})
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
    shown = {"question": row.query_text, "answer": row.answer, "reference": row.reference_answer}
    shown["verdict"] = {True: "right", False: "wrong", None: "undecided"}[row.correct]
    text: list[Any] = [facts(shown)]
    for call in calls:
        text += ["", f"{call.kind}: {call.verdict or 'not a verdict'}"]
        text += [f"reply: {call.reply if call.reply is not None else 'refused'}", call.prompt]
    none = "the run keeps no prompt of a judge: none judged this answer, or it is private"
    value = {"answer": row.model_dump(), "judge": [call.model_dump() for call in calls]}
    return Result(value, text, notes=[] if calls else [none])


def compare(
    run_a: str = argument("RUN_A", _A_RUN),
    run_b: str = argument("RUN_B", _A_RUN, default="latest"),
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
    # By path: two names, such as a label and `latest`, may mean the same run.
    paths = [folder.path.resolve() for folder in folders]
    if twice := [folder.name for folder in folders if paths.count(folder.path.resolve()) > 1]:
        raise UsageError(f"run {twice[0]!r} would be compared with itself; choose another one")
    figures = [parse_figure(text) for text in split_metrics(metrics or ())]
    as_page = in_browser or html is not None
    sides = [ComparedRun.read(folder, keep_rows=as_page) for folder in folders]
    comparisons = compare_with_each(sides[0], sides[1:], figures, find_dataset(sides))
    printed = [found.model_dump(mode="json", exclude_unset=True) for found in comparisons]
    text = [part for found in comparisons for part in (render_comparison(found), "")]
    if as_page:
        from assay.report.html_comparison import compare_page, render_compare_file

        page = html or Path(tempfile.mkdtemp(prefix="assay-")) / "comparison.html"
        shown = compare_page(sides, comparisons, _dataset_of(folders[0]))
        write_output(page, render_compare_file(shown).encode())
        if in_browser:
            webbrowser.open(page.absolute().as_uri())
        text = []
    return Result(printed if more else printed[0], text)


def _dataset_of(folder: RunFolder) -> "Dataset | None":
    """The data set of a run; a warning if it is missing."""
    dataset, why = find_run_dataset(folder.read_header())
    if dataset is None:
        warn(f"the page shows only ids, without grades and texts: {why}")
    return dataset


def export(
    context: click.Context,
    runs: list[str] = argument("RUN", _A_RUN),
    form: Any = option(
        ...,
        "csv, markdown, latex, trec, parquet, jsonl or agentbeats.",
        None,
        "NAME",
        "--format",
        choices=(*FORMATS, "agentbeats"),
    ),
    table: str | None = option(
        None,
        "runs or queries. Default: queries for trec, parquet, jsonl.",
        metavar="NAME",
        choices=TABLES,
    ),
    metrics: list[str] | None = option(
        None, "Which metrics, such as ndcg@10,map. Default: all.", "ASSAY_METRICS", "NAME@K,…"
    ),
    out: Path | None = option(None, "Write to this file instead of stdout."),
    folder: Path = RUNS_OPTION,
) -> None:
    """Export runs as tables, as TREC runs or for AgentBeats.

    AGENTBEATS_AGENT_ID names the agent in a result file of AgentBeats.
    """
    if form == "agentbeats":
        require_used(context, ("metrics", "table"), "on a result file of AgentBeats; leave it out")
        shards = [find_run(each, folder) for each in runs]
        document = submission_of(shards, os.environ.get("AGENTBEATS_AGENT_ID"))
        if document["status"] != "completed":
            warn("not every query was asked, so the result is partial")
        content = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        return write_stream(lambda stream: stream.write(content), out)
    kind = table or ("queries" if form in ("trec", "parquet", "jsonl") else "runs")
    if form == "trec" and (kind != "queries" or len(runs) > 1):
        raise UsageError("--format trec writes the rankings of one run; pass one, without --table")
    if form in ("markdown", "latex") and kind != "runs":
        raise UsageError(f"--format {form} writes a table of runs; use csv for other tables")
    if kind == "queries":
        require_used(context, ("metrics",), "on rows of queries and on a TREC run; leave it out")
    read = [ExportedRun.read(find_run(each, folder)) for each in runs]
    if form == "trec":
        return write_stream(partial(formats.write_trec, read[0]), out)
    if kind == "queries":
        rows, columns = formats.query_rows_of(read), formats.query_columns(read)
        return write_stream(lambda stream: write_rows(rows, form, stream, columns), out)
    figures = formats.figures_of(
        read, split_metrics(metrics or ()), few=form in ("markdown", "latex")
    )
    if form not in ("markdown", "latex"):
        rows, columns = formats.run_rows(read, figures), formats.run_columns(figures)
        return write_stream(lambda stream: write_rows(rows, form, stream, columns), out)
    compared = []
    try:
        compared = formats.compare_with_first(read, figures) if len(read) > 1 else []
    except RunError as error:
        warn(f"nothing is bold or marked in the table: {error}")
    return write_stream(partial(formats.write_paper_table, read, figures, compared, form), out)

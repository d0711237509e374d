"""`assay export`: runs in the formats of other tools and platforms."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import click
import orjson

from assay.cli.console import warn
from assay.cli.options import RunsOption, require_used
from assay.cli.verb import Output, argument, option
from assay.errors import RunError, UsageError
from assay.evaluation.agentbeats import submission_of
from assay.report import export as formats
from assay.report.export import TABLES, ExportedRun, write_rows
from assay.report.terminal import split_metrics
from assay.run.folder import RunFolder, find_run

if TYPE_CHECKING:
    from assay.report.export import Format

FORMATS: "tuple[Format, ...]" = ("csv", "markdown", "latex", "trec", "parquet", "jsonl")
_AGENTBEATS = "agentbeats"
_ROWS_BY_DEFAULT = ("trec", "parquet", "jsonl")


def export(
    context: click.Context,
    runs: Annotated[
        list[str],
        argument("RUN", "Runs: a folder, a name, a prefix of a name, latest, a label or a branch."),
    ],
    form: Annotated[
        str,
        option(
            "csv, markdown, latex, trec, parquet, jsonl or agentbeats.", None, "NAME", "--format"
        ),
    ],
    table: Annotated[
        str | None,
        option(
            "runs (one row a run) or queries (one row a query). Default: runs for csv, queries "
            "for parquet and jsonl.",
            metavar="NAME",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        option(
            "The metrics to write, such as ndcg@10,map. Default: what all runs have; nDCG, recall "
            "and MRR in markdown and latex.",
            "ASSAY_METRICS",
            "NAME@K,…",
        ),
    ] = None,
    out: Annotated[
        Path | None, option("Write to this file instead of stdout.", metavar="FILE")
    ] = None,
    folder: RunsOption = Path("runs"),
) -> Output:
    """Export runs as tables, as TREC runs or for AgentBeats.

    --format agentbeats writes the result file of a run, or of all its shards, for the platform's
    leaderboards; AGENTBEATS_AGENT_ID names the agent there.
    """
    if form == _AGENTBEATS:
        require_used(context, ("metrics", "table"), "on a result file of AgentBeats; leave it out")
        content = _agentbeats([find_run(each, folder) for each in runs])
        return Output(lambda stream: stream.write(content), out)
    chosen = next((each for each in FORMATS if each == form), None)
    if chosen is None:
        names = ", ".join((*FORMATS, _AGENTBEATS))
        raise UsageError(f"--format must be one of {names}, got {form!r}")
    kind = table or ("queries" if form in _ROWS_BY_DEFAULT else "runs")
    _require_possible(form, kind, len(runs))
    if kind == "queries":
        require_used(context, ("metrics",), "on rows of queries and on a TREC run; leave it out")
    exported = [ExportedRun.read(find_run(each, folder)) for each in runs]
    chosen_metrics = split_metrics(metrics or ())
    return Output(partial(_export, exported, chosen, kind, chosen_metrics), out)


def _agentbeats(runs: list[RunFolder]) -> bytes:
    document = submission_of(runs, os.environ.get("AGENTBEATS_AGENT_ID"))
    if document["status"] != "completed":
        warn("not every query was asked, so the result is partial")
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _require_possible(form: str, table: str, runs: int) -> None:
    if table not in TABLES:
        raise UsageError(f"--table must be one of {', '.join(TABLES)}, got {table!r}")
    if form == "trec" and (table != "queries" or runs > 1):
        raise UsageError("--format trec writes the rankings of one run; pass one, without --table")
    if form in ("markdown", "latex") and table != "runs":
        raise UsageError(f"--format {form} writes a table of runs; use csv for other tables")


def _export(
    runs: list[ExportedRun], form: "Format", table: str, metrics: list[str], stream: BinaryIO
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

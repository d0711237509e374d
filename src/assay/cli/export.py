"""`assay export`: runs as CSV, Markdown, LaTeX, Parquet, JSON lines or a TREC run file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from assay.cli.console import say, warn
from assay.cli.options import RunsOption
from assay.errors import RunError, UsageError

if TYPE_CHECKING:
    from assay.report.export import ExportedRun, Format

FORMATS: "tuple[Format, ...]" = ("csv", "markdown", "latex", "trec", "parquet", "jsonl")
_ROWS_BY_DEFAULT = ("trec", "parquet", "jsonl")


def export(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs: a folder, a name, a prefix of a name, latest, a label or a branch.",
            metavar="RUN...",
        ),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="csv, markdown, latex, trec, parquet or jsonl.", metavar="NAME"
        ),
    ],
    table: Annotated[
        str | None,
        typer.Option(
            help="runs (one row a run), queries (one row a query) or comparison (each run with the "
            "first). Default: runs for csv, markdown and latex, queries for parquet and jsonl.",
            metavar="NAME",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="A metric to write, such as ndcg@10. Repeatable. Default: what all runs have; "
            "nDCG, recall and MRR in markdown and latex.",
            metavar="NAME@K",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file instead of stdout.", metavar="FILE")
    ] = None,
    folder: RunsOption = Path("runs"),
) -> None:
    """Write runs in the formats of other tools."""
    from assay.report.export import TABLES, ExportedRun
    from assay.run.folder import find_run

    chosen = next((each for each in FORMATS if each == form), None)
    if chosen is None:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}, got {form!r}")
    kind = table or ("queries" if form in _ROWS_BY_DEFAULT else "runs")
    _refuse_impossible(form, kind, len(runs), TABLES)
    found = [ExportedRun.read(find_run(each, folder)) for each in runs]
    if out is None:
        _export(found, chosen, kind, metric or [], sys.stdout.buffer)
        sys.stdout.buffer.flush()
        return
    from assay.files import atomic_writer

    try:
        with atomic_writer(out) as stream:
            _export(found, chosen, kind, metric or [], stream)
    except OSError as error:
        raise UsageError(f"cannot write {str(out)!r}: {error.strerror}") from None
    say(f"wrote {out}")


def _refuse_impossible(form: str, table: str, runs: int, tables: tuple[str, ...]) -> None:
    if table not in tables:
        raise UsageError(f"--table must be one of {', '.join(tables)}, got {table!r}")
    if form == "trec" and (table != "queries" or runs > 1):
        raise UsageError("a TREC run file holds the rankings of one run; name one run, no --table")
    if form == "latex" and table != "runs":
        raise UsageError("--format latex writes a table of runs; use csv for other tables")
    if table == "comparison" and runs < 2:
        raise UsageError("--table comparison needs two runs or more; the first is compared with")


def _export(
    runs: "list[ExportedRun]", form: "Format", table: str, metrics: list[str], stream: BinaryIO
) -> None:
    from assay.report import export as writing

    if form == "trec":
        writing.write_trec(runs[0], stream)
    elif table == "queries":
        writing.write_rows(writing.query_rows_of(runs), form, stream)
    elif table == "comparison":
        figures = writing.figures_of(runs, metrics, few=True)
        comparisons = writing.compare_with_first(runs, figures)
        writing.write_rows(writing.comparison_rows(comparisons, runs), form, stream)
    elif form in ("markdown", "latex"):
        figures = writing.figures_of(runs, metrics, few=True)
        comparisons = []
        try:
            comparisons = writing.compare_with_first(runs, figures) if len(runs) > 1 else []
        except RunError as error:
            warn(f"nothing is bold or marked in the table: {error}")
        writing.write_paper_table(runs, figures, comparisons, form, stream)
    else:
        figures = writing.figures_of(runs, metrics, few=False)
        writing.write_rows(writing.run_rows(runs, figures), form, stream)

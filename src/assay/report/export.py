"""Runs for other tools: CSV, JSON lines and Parquet, tables for papers, TREC files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import BinaryIO, Literal

import orjson

from assay.data.table import csv_row, text_cell
from assay.errors import RunError, UsageError
from assay.extras import require_extras
from assay.metrics.figures import improvement, parse_figure
from assay.metrics.metric import parse_metric
from assay.net.redact import markdown_text, printable
from assay.report.numbers import figure
from assay.report.terminal import usual_names
from assay.run.comparison import ComparedRun, compare_with_each
from assay.run.folder import RunFolder
from assay.run.models import Comparison, Report, RunHeader

Format = Literal["csv", "markdown", "latex", "trec", "parquet", "jsonl"]
Cell = str | float | int | list[str] | None
Row = Mapping[str, Cell]

TABLES = ("runs", "queries")

_RUN_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("run", "label", "target", "dataset", "split", "state", "started"), str),
    **dict.fromkeys(("branch", "commit"), str),
    **dict.fromkeys(("queries", "failed_queries"), int),
    "latency_p50_ms": float,
}
_QUERY_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("run", "query_id", "query_text", "status", "failure"), str),
    "latency_ms": float,
    "retrieved_docs": list,
}
# Each batch becomes a row group, the part of a file that a reader loads at once.
_PARQUET_ROWS = 10_000
_NOTE = "Differs significantly from the first line (paired test, p < 0.05, Holm)."
_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


@dataclass(frozen=True)
class ExportedRun:
    """A run with what tells it apart."""

    folder: RunFolder
    header: RunHeader
    report: Report

    @classmethod
    def read(cls, folder: RunFolder) -> "ExportedRun":
        """From the files of a run. Raises `RunError`."""
        return cls(folder, folder.read_header(), folder.read_report())

    @property
    def system(self) -> str:
        """What a table calls it: its label, or else its target."""
        return self.header.label or self.report.target.title


def figures_of(
    runs: Sequence[ExportedRun], given: Sequence[str] = (), *, few: bool = False
) -> list[str]:
    """The figures that a table of `runs` has: those `given`, else what all runs have.

    `few` takes only the usual ones, as a paper prints them. Raises `UsageError` if a figure is
    missing in a run, or the runs have none in common.
    """
    if given:
        names = [parse_figure(text).slug for text in given]
        for run in runs:
            if missing := [name for name in names if name not in run.report.figures]:
                has = ", ".join(run.report.figures)
                raise UsageError(f"run {run.folder.name!r} has no {missing[0]}; it has: {has}")
        return names
    every = [run.report.figures for run in runs]
    shared = [name for name in every[0] if all(name in figures for figures in every)]
    if not shared:
        raise UsageError("the runs have no metric in common; run them with the same --top-k")
    if few:
        answers = [name for name in ("correctness", "faithfulness") if name in shared]
        return list(dict.fromkeys([*usual_names(shared), *answers]))
    return shared


def run_rows(runs: Sequence[ExportedRun], figures: Sequence[str]) -> Iterator[Row]:
    """One row a run: where it comes from, and each figure with its interval."""
    for run in runs:
        report, git = run.report, run.header.repository
        row: dict[str, Cell] = {
            "run": run.folder.name,
            "label": run.header.label,
            "target": report.target.name,
            "dataset": report.dataset.name,
            "split": report.dataset.split,
            "state": report.state,
            "started": report.started,
            "branch": git.branch,
            "commit": git.commit,
            "queries": report.summary.total_queries,
            "failed_queries": report.summary.failed_queries,
            "latency_p50_ms": report.latency_ms.p50,
        }
        for name in figures:
            if found := report.figures.get(name):
                row |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
        yield row


def run_columns(figures: Sequence[str]) -> dict[str, type]:
    """The columns of `run_rows`."""
    ends = [f"{name}{end}" for name in figures for end in ("", "_low", "_high")]
    return {**_RUN_COLUMNS, **dict.fromkeys(ends, float)}


def query_rows_of(runs: Iterable[ExportedRun]) -> Iterator[Row]:
    """One row a query of each run: what came back and how it scored."""
    for run in runs:
        for row in run.folder.read_rows():
            facts = {name: getattr(row, name) for name in _QUERY_COLUMNS if name != "run"}
            yield {"run": run.folder.name, **facts, **row.scores}


def query_columns(runs: Iterable[ExportedRun]) -> dict[str, type]:
    """The columns of `query_rows_of`: every score of every run, whatever its --top-k."""
    scores = {parse_metric(name).key: float for run in runs for name in run.report.statistics}
    return {**_QUERY_COLUMNS, **scores}


def write_rows(
    rows: Iterable[Row], form: Format, stream: BinaryIO, columns: Mapping[str, type]
) -> None:
    """Write a table as CSV, JSON lines or Parquet; a row may lack some of the columns.

    Rows are written as they come, so that those of a large run are never held together.
    """
    if form == "jsonl":
        for row in rows:
            stream.write(orjson.dumps(dict(row), option=orjson.OPT_APPEND_NEWLINE))
        return
    if form == "csv":
        stream.write(f"{csv_row(columns)}\n".encode())
        for row in rows:
            cells = [row.get(name) for name in columns]
            flat = [";".join(cell) if isinstance(cell, list) else cell for cell in cells]
            # Labels, branches and targets are a stranger's words: no spreadsheet may run them.
            safe = (text_cell(cell) if isinstance(cell, str) else cell for cell in flat)
            stream.write(f"{csv_row(safe)}\n".encode())
        return
    require_extras("writing Parquet", "pyarrow")
    import pyarrow
    from pyarrow import parquet

    types = {str: pyarrow.string(), float: pyarrow.float64(), int: pyarrow.int64()}
    types[list] = pyarrow.list_(pyarrow.string())
    # Given, not inferred from the first rows: a column may be empty there.
    schema = pyarrow.schema([(name, types[kind]) for name, kind in columns.items()])
    remaining = iter(rows)
    with parquet.ParquetWriter(stream, schema) as writer:
        while batch := list(islice(remaining, _PARQUET_ROWS)):
            writer.write_table(pyarrow.Table.from_pylist(batch, schema=schema))


def compare_with_first(runs: Sequence[ExportedRun], figures: Sequence[str]) -> list[Comparison]:
    """Each further run with the first, corrected for all of them.

    Raises `RunError` for runs whose means are over other queries, or of other depths.
    """
    first, *others = [ComparedRun.read(run.folder) for run in runs]
    compared = compare_with_each(first, others, [parse_figure(name) for name in figures])
    for run, other in zip(runs[1:], others, strict=True):
        names = f"the runs {runs[0].folder.name!r} and {run.folder.name!r}"
        is_as_deep = first.report.config.top_k == other.report.config.top_k
        if not is_as_deep or first.scores.keys() != other.scores.keys():
            what = "queries" if is_as_deep else "numbers of documents a query"
            raise RunError(f"{names} asked for different {what}; see both with: assay compare")
    return compared


def write_paper_table(
    runs: Sequence[ExportedRun],
    figures: Sequence[str],
    comparisons: Sequence[Comparison],
    form: Format,
    stream: BinaryIO,
) -> None:
    """One line a run, the best of each column in bold; a dagger marks a significant difference
    from the first run. `comparisons` are those of `compare_with_first`, or none.
    """
    latex = form == "latex"
    escaped, strong, dagger = (
        (_latex_text, r"\textbf{%s}", r"$^{\dagger}$") if latex else (markdown_text, "**%s**", "†")
    )
    differing = [set[str]()] + [
        {name for name, result in found.metrics.items() if result.significant}
        for found in comparisons
    ]
    differing += [set()] * (len(runs) - len(differing))
    rows = [[escaped(run.system)] for run in runs]
    for name in figures:
        parsed, means = parse_figure(name), [run.report.figures[name].mean for run in runs]
        best = figure(max(means, key=lambda mean: improvement(parsed, mean)))
        for row, mean, different in zip(rows, means, differing, strict=True):
            shown = figure(mean)  # what reads the same as the best is as good
            shown = strong % shown if comparisons and shown == best else shown
            row.append(f"{shown}{dagger}" if name in different else shown)
    headings = [str(parse_figure(name)) for name in figures]
    note = _NOTE if any(differing) else ""
    if latex:
        lines = [r"% needs \usepackage{booktabs}", *([f"% dagger: {note}"] if note else [])]
        lines += [rf"\begin{{tabular}}{{l{'r' * len(headings)}}}", r"\toprule"]
        lines += [rf"{' & '.join(map(_latex_text, ('System', *headings)))} \\", r"\midrule"]
        lines += [rf"{' & '.join(row)} \\" for row in rows]
        lines += [r"\bottomrule", r"\end{tabular}"]
    else:
        lines = [f"| system | {' | '.join(headings)} |", f"|---|{'---:|' * len(headings)}"]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        lines += [f"\n† {note}"] if note else []
    stream.write("".join(f"{line}\n" for line in lines).encode())


def _latex_text(text: str) -> str:
    """A text in one line in which nothing is a command."""
    return "".join(_LATEX.get(each, each) for each in printable(" ".join(text.split())))


def write_trec(run: ExportedRun, stream: BinaryIO) -> None:
    """The rankings as a TREC run file: `qid Q0 docid rank score tag`.

    Scores descend by one, as trec_eval orders by them alone: an agent's own may be equal, or none.
    A repeated id is written once. Raises `RunError` for an id with a blank in it.
    """
    tag = "-".join(printable(run.system).split()) or "assay"
    for row in run.folder.read_rows():
        documents = list(dict.fromkeys(row.retrieved_docs))
        for rank, doc_id in enumerate(documents, start=1):
            for text in (row.query_id, doc_id):
                if text.split() != [text]:
                    raise RunError(
                        f"id {text!r} is empty or holds a blank, which a TREC run file cannot; "
                        "export it with: --format jsonl"
                    )
            score = len(documents) - rank + 1
            stream.write(f"{row.query_id} Q0 {doc_id} {rank} {score} {tag}\n".encode())

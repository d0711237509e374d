"""Runs for other tools: tables of runs, of queries and of comparisons; TREC files."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

from assay.errors import RunError, UsageError
from assay.metrics.figures import AnswerFigure, improvement, parse_figure
from assay.metrics.metric import MRR, Recall, nDCG, parse_metric
from assay.net.redact import markdown_text, printable
from assay.report.numbers import figure
from assay.report.table_files import Cell, Format, Row, latex_lines, latex_text, write_lines
from assay.run.answers import AnswerStatistic
from assay.run.comparison import ComparedRun, compare_with_each
from assay.run.folder import RunFolder
from assay.run.models import Comparison, Report, RunHeader, Statistic

TABLES = ("runs", "queries", "comparison")

_USUAL = (nDCG.name, Recall.name, MRR.name)
_USUAL_ANSWERS = ("correctness", "faithfulness")


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

    def statistic(self, name: str) -> Statistic | AnswerStatistic | None:
        """A figure of rankings or answers by the name that reports have for it."""
        found = self.report.statistics.get(name)
        if found is not None or self.report.answers is None:
            return found
        return self.report.answers.statistics.get(name)

    @property
    def figures(self) -> list[str]:
        """The names of all its figures."""
        answers = self.report.answers.statistics if self.report.answers else {}
        return [*self.report.statistics, *answers]


def figures_of(runs: Sequence[ExportedRun], given: Sequence[str] = (), *, few: bool) -> list[str]:
    """The figures that a table of `runs` has: those `given`, else what all runs have.

    Parameters:
        runs: the runs of the table.
        given: names in any spelling.
        few: take only the usual ones, as a paper prints them.

    Raises:
        UsageError: a figure is missing in a run, or the runs have none in common.
    """
    if given:
        names = [parse_figure(each).slug for each in given]
        for run in runs:
            for name in names:
                if run.statistic(name) is None:
                    has = ", ".join(run.figures)
                    raise UsageError(f"run {run.folder.name!r} has no {name}; it has: {has}")
        return names
    shared = [name for name in runs[0].figures if all(run.statistic(name) for run in runs)]
    if not shared:
        raise UsageError("the runs have no metric in common; run them with the same --top-k")
    usual = [name for name in shared if _is_usual(name)] if few else []
    return usual or shared


def _is_usual(name: str) -> bool:
    parsed = parse_figure(name)
    if isinstance(parsed, AnswerFigure):
        return name in _USUAL_ANSWERS
    return parsed.name in _USUAL and "(" not in str(parsed)


def run_rows(runs: Sequence[ExportedRun], figures: Sequence[str]) -> Iterator[Row]:
    """One row a run: where it comes from, and each figure with its interval."""
    for run in runs:
        report, git = run.report, run.header.git
        row: dict[str, Cell] = {
            "run": run.folder.name,
            "label": run.header.label,
            "target": report.target.name,
            "dataset": report.dataset.name,
            "split": report.dataset.split,
            "state": report.state,
            "started": report.started,
            "branch": git.branch if git else None,
            "commit": git.commit if git else None,
            "queries": report.summary.total_queries,
            "failed_queries": report.summary.failed_queries,
            "latency_p50_ms": report.latency_ms.p50,
        }
        for name in figures:
            if found := run.statistic(name):
                row |= {name: found.mean, f"{name}_low": found.low, f"{name}_high": found.high}
        yield row


def query_rows_of(runs: Iterable[ExportedRun]) -> Iterator[Row]:
    """One row a query of each run: what came back and how it scored."""
    for run in runs:
        for row in run.folder.read_rows():
            yield {
                "run": run.folder.name,
                "query_id": row.query_id,
                "query_text": row.query_text,
                "status": row.status,
                "failure": row.failure,
                "latency_ms": row.latency_ms,
                "retrieved_docs": row.retrieved_docs,
                **row.scores,
            }


def query_columns(runs: Iterable[ExportedRun]) -> dict[str, type]:
    """The columns of `query_rows_of`: every score of every run, whatever its --top-k."""
    facts = {
        "run": str,
        "query_id": str,
        "query_text": str,
        "status": str,
        "failure": str,
        "latency_ms": float,
        "retrieved_docs": list,
    }
    return facts | {parse_metric(name).key: float for run in runs for name in run.report.statistics}


def comparison_rows(
    comparisons: Sequence[Comparison], runs: Sequence[ExportedRun]
) -> Iterator[Row]:
    """One row a metric of each comparison of the first run with another."""
    for comparison, other in zip(comparisons, runs[1:], strict=True):
        names = {"run_a": runs[0].folder.name, "run_b": other.folder.name}
        for name, result in comparison.metrics.items():
            yield {
                **names,
                "metric": name,
                **result.model_dump(),
                "significant": result.significant,
            }


def compare_with_first(
    runs: Sequence[ExportedRun], figures: Sequence[str], *, same_queries: bool = False
) -> list[Comparison]:
    """Each further run with the first, corrected for all of them.

    Parameters:
        runs: the runs of the table.
        figures: the names of what is compared.
        same_queries: refuse runs whose means are over other queries, or of other depths.

    Raises:
        RunError: runs cannot be compared.
    """
    first, *others = [ComparedRun.read(run.folder) for run in runs]
    compared = compare_with_each(first, others, [parse_figure(each) for each in figures])
    for run, other in zip(runs[1:], others, strict=True) if same_queries else ():
        _require_same_queries(runs[0], first, run, other)
    return compared


def _require_same_queries(
    first: ExportedRun, ours: ComparedRun, other: ExportedRun, theirs: ComparedRun
) -> None:
    names = f"the runs {first.folder.name!r} and {other.folder.name!r}"
    depths = [run.report.config.top_k for run in (first, other)]
    if depths[0] != depths[1]:
        raise RunError(f"{names} asked for {depths[0]} and {depths[1]} documents a query")
    if (queries := ours.scores.keys()) != theirs.scores.keys():
        shared = len(queries & theirs.scores.keys())
        raise RunError(
            f"{names} asked different queries ({len(queries):,} and {len(theirs.scores):,}, "
            f"{shared:,} of them the same), so their means do not compare; for the queries of both "
            "use: --table comparison"
        )


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
    marks = [set[str]()] + [
        {name for name, result in each.metrics.items() if result.significant}
        for each in comparisons
    ]
    marks += [set()] * (len(runs) - len(marks))
    comparable = len(runs) > 1 and len(comparisons) == len(runs) - 1
    columns = [[_mean(run, name) for run in runs] for name in figures]
    best = [
        _best(name, column) if comparable else ""
        for name, column in zip(figures, columns, strict=True)
    ]
    latex = form == "latex"
    rows = []
    for number, run in enumerate(runs):
        cells = [latex_text(run.system) if latex else markdown_text(run.system)]
        for name, column, top in zip(figures, columns, best, strict=True):
            text = figure(column[number])
            strong = r"\textbf{%s}" if latex else "**%s**"
            shown = strong % text if text == top else text
            dagger = r"$^{\dagger}$" if latex else "†"
            cells.append(shown + (dagger if name in marks[number] else ""))
        rows.append(cells)
    headings = [str(parse_figure(name)) for name in figures]
    note = "Differs significantly from the first line (paired test, p < 0.05, Holm)."
    shown_note = note if any(marks) else ""
    lines = latex_lines(headings, rows, shown_note) if latex else _plain(headings, rows, shown_note)
    write_lines(lines, stream)


def write_trec(run: ExportedRun, stream: BinaryIO) -> None:
    """The rankings as a TREC run file: `qid Q0 docid rank score tag`.

    Scores descend by one, as trec_eval orders by them alone: an agent's own may be equal, or none.
    A repeated id is written once. Raises `RunError` for an id with a blank in it.
    """
    tag = re.sub(r"\s+", "-", printable(run.system)) or "assay"
    for row in run.folder.read_rows():
        documents = list(dict.fromkeys(row.retrieved_docs))
        for rank, doc_id in enumerate(documents, start=1):
            for text in (row.query_id, doc_id):
                if len(text.split()) != 1 or text.split()[0] != text:
                    raise RunError(
                        f"id {text!r} is empty or holds a blank, which a TREC run file cannot; "
                        "export it with: --format jsonl"
                    )
            score = len(documents) - rank + 1
            stream.write(f"{row.query_id} Q0 {doc_id} {rank} {score} {tag}\n".encode())


def _best(name: str, column: Sequence[float | None]) -> str:
    """The best mean of a column as it is shown: what reads the same is as good."""
    parsed = parse_figure(name)
    known = [mean for mean in column if mean is not None]
    return figure(max(known, key=lambda mean: improvement(parsed, mean))) if known else ""


def _mean(run: ExportedRun, name: str) -> float | None:
    found = run.statistic(name)
    return None if found is None else found.mean


def _plain(headings: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> Iterator[str]:
    yield f"| system | {' | '.join(headings)} |"
    yield f"|---|{'---:|' * len(headings)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    if note:
        yield ""
        yield f"† {note}"

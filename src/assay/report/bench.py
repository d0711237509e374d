"""A bench as a table for a terminal, and as one HTML page."""

from collections.abc import Iterator
from importlib.metadata import version

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.report.html_templates import render_page
from assay.report.numbers import counted, difference, duration, figure, interval, p_value
from assay.run.bench import BenchReport, BenchSystem
from assay.run.models import COMPLETE

_SHOWN_PAIRS = 20


def render_bench(report: BenchReport) -> RenderableType:
    """A line for each system, a column for each data set, then the comparisons in words."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    table.add_column("system")
    for heading in ("mean", "95% interval", "mean rank", *report.datasets):
        table.add_column(heading, justify="right")
    for system in report.systems:
        table.add_row(
            rank_of(system),
            system.name,
            figure(system.mean),
            interval(system.low, system.high),
            "–" if system.mean_rank is None else f"{system.mean_rank:.1f}",
            *(_shown(report, system.name, dataset) for dataset in report.datasets),
            style="bold" if system.rank == 1 else "",
        )
    over = counted(len(report.datasets), "data set")
    title = Text(f"{report.suite}: {report.metric}, mean over {over}")
    lines = [Text(sentence) for sentence in bench_sentences(report)]
    return Group(title, Text(), table, Text(), *lines)


def rank_of(system: BenchSystem) -> str:
    """`1`, or `=2` where others share the rank; empty for a system that was not measured."""
    if system.rank is None:
        return ""
    return f"{'=' if system.shared else ''}{system.rank}"


def _shown(report: BenchReport, system: str, dataset: str) -> str:
    cell = report.cell(system, dataset)
    return figure(cell.mean) if cell.state == COMPLETE else cell.state


def bench_sentences(report: BenchReport) -> Iterator[str]:
    """What the figures mean: the leader, what is not significant, and what is missing."""
    ranked = [system for system in report.systems if system.rank is not None]
    if len(ranked) > 1:
        best = [system.name for system in ranked if system.rank == 1]
        if len(best) == 1:
            which = (
                "every other system"
                if len(ranked) == len(report.systems)
                else "every other of the systems that were measured on every data set"
            )
            yield f"{best[0]} is significantly better than {which}."
        else:
            yield (
                f"{', '.join(best)} share rank 1: none of the others is significantly worse than "
                f"{best[0]}."
            )
        yield (
            "All pairs were compared query by query, each data set counting the same; p-values are "
            f"corrected for {counted(len(report.pairs), 'pair')} (Holm)."
        )
    for cell in report.cells:
        if cell.error:
            yield f"{cell.system} on {cell.dataset} was not measured: {cell.error}"


def render_bench_page(report: BenchReport) -> str:
    """One page without scripts: the table, every pair, and every run with its state."""
    rows = [
        (system, rank_of(system), [report.cell(system.name, each) for each in report.datasets])
        for system in report.systems
    ]
    pairs = sorted(report.pairs, key=lambda pair: (pair.p_adjusted, -abs(pair.difference)))
    return render_page(
        "bench_page.html",
        title=f"{report.suite}: {report.metric}",
        report=report,
        rows=rows,
        pairs=[
            (
                pair,
                difference(pair.difference),
                interval(pair.low, pair.high),
                p_value(pair.p_adjusted).removeprefix("p ").removeprefix("= "),
            )
            for pair in pairs[:_SHOWN_PAIRS]
        ],
        hidden_pairs=max(0, len(pairs) - _SHOWN_PAIRS),
        sentences=list(bench_sentences(report)),
        latency=lambda cell: duration(
            None if cell.latency_p50_ms is None else cell.latency_p50_ms / 1000
        ),
        version=version("agent-assay"),
    )

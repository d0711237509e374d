"""A bench: `bench.json` with macro averages and corrected comparisons, its table and its page."""

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import combinations
from statistics import fmean

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from assay.errors import NotTuned
from assay.metrics.metric import Metric
from assay.metrics.statistics import compare_strata, holm, shared_ranks, summarize_strata
from assay.report.html_templates import render_page
from assay.report.numbers import counted, difference, duration, figure, interval, p_value
from assay.run.models import Report
from assay.run.run_record import RunRecord
from assay.run.state import RunState

BenchScores = Mapping[str, float]
"""The main metric of every query of one run, by the query's id."""

BENCH_FORMAT = 1
NOT_RUN = "not run"

_SHOWN_PAIRS = 20


class BenchCell(RunRecord):
    """One system on one data set; `error` says why there is no figure.

    `not_tuned`: tuning said to use hybrid here, so that no figure is missing.
    """

    system: str
    dataset: str
    state: str
    run: str | None = None
    error: str | None = None
    not_tuned: NotTuned | None = None
    queries: int = 0
    failed: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    latency_p50_ms: float | None = None
    judge_cost: float | None = None
    gates_passed: bool = True

    @classmethod
    def of(cls, system: str, dataset: str, run: str, report: Report, metric: Metric) -> "BenchCell":
        """The result of a run that was made; its figure is the one in `metric`."""
        statistic = report.statistics[metric.slug]
        answered = report.summary.successful_queries > 0
        whole = report.state == RunState.COMPLETE and answered
        judge = report.answers.judge if report.answers else None
        return cls(
            system=system,
            dataset=dataset,
            state=report.state,
            run=run,
            error=None if whole else report.trouble,
            queries=report.summary.total_queries,
            failed=report.summary.failed_queries,
            mean=statistic.mean if whole else None,
            low=statistic.low if whole else None,
            high=statistic.high if whole else None,
            latency_p50_ms=report.summary.figure("latency_p50_ms") if answered else None,
            judge_cost=judge.spending.cost if judge and judge.spending else None,
            gates_passed=report.gates_passed,
        )


class BenchSystem(RunRecord):
    """A target in one setting, over all data sets.

    `mean` is the mean over the data sets, each counting the same; None unless every data set was
    measured. `mean_rank` is the mean of its places on the data sets. `rank` is its place by `mean`,
    which it shares with others unless the best of them is significantly better.
    """

    name: str
    target: str
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    mean_rank: float | None = None
    rank: int | None = None
    shared: bool = False


class BenchPair(RunRecord):
    """Two systems over all data sets: b - a; `p_adjusted` is corrected over all pairs (Holm)."""

    a: str
    b: str
    difference: float
    low: float | None
    high: float | None
    p_value: float
    p_adjusted: float

    @property
    def significant(self) -> bool:
        """Whether the difference is significant at 0.05."""
        return self.p_adjusted < 0.05


class BenchReport(RunRecord):
    """`bench.json`: every run of a suite, the systems in order, the best first, and all pairs."""

    format: int = BENCH_FORMAT
    suite: str
    metric: str
    finished: str
    datasets: list[str]
    systems: list[BenchSystem]
    cells: list[BenchCell]
    pairs: list[BenchPair]

    def cell(self, system: str, dataset: str) -> BenchCell:
        """The result of a system on a data set."""
        return next(e for e in self.cells if (e.system, e.dataset) == (system, dataset))

    @property
    def complete(self) -> bool:
        """Whether every system was measured on every data set."""
        return all(cell.state == RunState.COMPLETE for cell in self.cells)

    @property
    def gates_passed(self) -> bool:
        """Whether no gate of any run failed."""
        return all(cell.gates_passed for cell in self.cells)


def rank_systems(
    targets: Mapping[str, str],
    datasets: Sequence[str],
    cells: Sequence[BenchCell],
    scores: Mapping[tuple[str, str], BenchScores],
) -> tuple[list[BenchSystem], list[BenchPair]]:
    """The systems, best first, and the comparison of each pair.

    Parameters:
        targets: the target of each system, by the system's name.
        datasets: their names.
        cells: the result of every system on every data set.
        scores: of the complete cells, by system and data set.
    """
    whole = [name for name in targets if all((name, each) in scores for each in datasets)]
    pairs = _compare(whole, datasets, scores)
    apart = {frozenset((pair.a, pair.b)) for pair in pairs if pair.significant}
    places = _places(whole, datasets, cells)
    found = {}
    for name in whole:
        strata = [np.array(list(scores[name, each].values())) for each in datasets]
        mean, low, high = summarize_strata(strata)
        found[name] = BenchSystem(
            name=name,
            target=targets[name],
            mean=mean,
            low=low,
            high=high,
            mean_rank=fmean(places[name]),
        )
    order = sorted(whole, key=lambda name: -(found[name].mean or 0.0))
    ranks = shared_ranks(order, lambda best, name: frozenset((best, name)) in apart)
    systems = [
        found[name].model_copy(update={"rank": rank, "shared": ranks.count(rank) > 1})
        for name, rank in zip(order, ranks, strict=True)
    ]
    rest = [BenchSystem(name=name, target=targets[name]) for name in targets if name not in found]
    return systems + rest, pairs


def _compare(
    names: Sequence[str], datasets: Sequence[str], scores: Mapping[tuple[str, str], BenchScores]
) -> list[BenchPair]:
    chosen = list(combinations(names, 2))
    results = []
    for a, b in chosen:
        strata = []
        for dataset in datasets:
            first, second = scores[a, dataset], scores[b, dataset]
            both = [query for query in first if query in second]
            strata.append((np.array([first[q] for q in both]), np.array([second[q] for q in both])))
        results.append(compare_strata(strata))
    adjusted = holm([result.p_value for result in results])
    return [
        BenchPair(
            a=a,
            b=b,
            difference=result.difference,
            low=result.low,
            high=result.high,
            p_value=result.p_value,
            p_adjusted=p_adjusted,
        )
        for (a, b), result, p_adjusted in zip(chosen, results, adjusted, strict=True)
    ]


def _places(
    names: Sequence[str], datasets: Sequence[str], cells: Sequence[BenchCell]
) -> dict[str, list[float]]:
    """The place of each system on each data set; equal means share the mean of their places."""
    means = {(cell.system, cell.dataset): cell.mean or 0.0 for cell in cells}
    places: dict[str, list[float]] = {name: [] for name in names}
    for dataset in datasets:
        own = {name: round(means[name, dataset], 9) for name in names}
        for name in names:
            better = sum(other > own[name] for other in own.values())
            equal = sum(other == own[name] for other in own.values())
            places[name].append(better + (equal + 1) / 2)
    return places


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
    return figure(cell.mean) if cell.state == RunState.COMPLETE else cell.state


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

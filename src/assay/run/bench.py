"""`BenchReport`: many targets on many data sets, with macro averages and corrected comparisons."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean

import numpy as np

from assay.errors import NotTuned
from assay.measure.statistics import compare_strata, holm, shared_ranks, summarize_strata
from assay.run.models import COMPLETE, RunModel

Scores = Mapping[str, float]
"""The main metric of every query of one run, by the query's id."""

BENCH_FORMAT = 1
NOT_RUN = "not run"


class BenchCell(RunModel):
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


class BenchSystem(RunModel):
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


class BenchPair(RunModel):
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


class BenchReport(RunModel):
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
        return all(cell.state == COMPLETE for cell in self.cells)

    @property
    def gates_passed(self) -> bool:
        """Whether no gate of any run failed."""
        return all(cell.gates_passed for cell in self.cells)


def rank_systems(
    targets: Mapping[str, str],
    datasets: Sequence[str],
    cells: Sequence[BenchCell],
    scores: Mapping[tuple[str, str], Scores],
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
    names: Sequence[str], datasets: Sequence[str], scores: Mapping[tuple[str, str], Scores]
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

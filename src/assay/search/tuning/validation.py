"""Is the tuned ranking better than the zero-shot one, on queries that it has not learned from?

The number of trees, and which queries are left to the zero-shot ranking, are chosen here too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from assay.search.tuning.arrays import Bits, Floats, Integers, Sparse, sums
from assay.search.tuning.features import TuningData
from assay.search.tuning.ranking import (
    RANKING_TREES,
    SETS,
    THREADS,
    RankingCandidates,
    TreeSets,
)

PAGE = 100
# Below this, a mean over unfamiliar queries says nothing.
FEWEST_UNFAMILIAR = 10


@dataclass(frozen=True)
class MeanScores:
    """Means over queries, as trec_eval computes them (linear gain)."""

    ndcg_5: float
    ndcg_10: float
    recall_100: float


@dataclass(frozen=True)
class Gain:
    """Of the tuned ranking over the zero-shot one, on the same queries."""

    queries: int
    hybrid: MeanScores
    tuned: MeanScores
    ndcg_10: float
    """The mean difference."""
    standard_error: float


@dataclass(frozen=True)
class HeldOut:
    """How much better the tuned ranking is on queries that it has not learned from."""

    split: str
    """`dev`, or `train` if there is no dev: then every query was answered by a model that had
    learned from the others."""
    all: Gain
    unfamiliar: Gain
    """Only the queries none of whose relevant documents is remembered: skill without memory."""
    by_set: tuple[float, ...] = ()
    """nDCG@10 on all of them with each set of ranking trees alone: what the seed decides."""

    @property
    def harmless(self) -> bool:
        """Not significantly worse on queries whose relevant documents were not in training."""
        return self.unfamiliar.queries < FEWEST_UNFAMILIAR or self.unfamiliar.ndcg_10 >= 0

    @property
    def better(self) -> bool:
        """Significantly better (one-sided, 2.5%)."""
        return self.all.ndcg_10 > 2 * self.all.standard_error


def compare_rankings(
    split: str,
    hybrid: Sequence[Integers],
    tuned: Sequence[Integers],
    grades: Sparse,
    familiar: Bits,
) -> HeldOut:
    """Rankings are document indexes, best first; `grades` are queries by documents."""
    before, after = scores_by_query(hybrid, grades), scores_by_query(tuned, grades)
    return HeldOut(split, _gain(before, after), _gain(before[~familiar], after[~familiar]))


def _gain(before: Floats, after: Floats) -> Gain:
    differences = after[:, 1] - before[:, 1]
    count = len(differences)
    spread = float(differences.std(ddof=1)) if count > 1 else 0.0
    return Gain(
        queries=count,
        hybrid=_means(before),
        tuned=_means(after),
        ndcg_10=float(differences.mean()) if count else 0.0,
        standard_error=spread / max(1, count) ** 0.5,
    )


def scores_by_query(rankings: Sequence[Integers], grades: Sparse) -> Floats:
    """Queries by (nDCG@5, nDCG@10, recall@100)."""
    rows = [
        _score_ranking(ranking, np.asarray(grades[row].toarray(), np.float32).ravel())
        for row, ranking in enumerate(rankings)
    ]
    return np.array(rows, np.float32).reshape(len(rankings), 3)


def _score_ranking(ranking: Integers, grades: Floats) -> tuple[float, float, float]:
    ideal = -np.sort(-grades[grades > 0])
    if not len(ideal):
        return 0.0, 0.0, 0.0
    gains = grades[ranking[:PAGE]]
    return (
        _dcg(gains[:5]) / _dcg(ideal[:5]),
        _dcg(gains[:10]) / _dcg(ideal[:10]),
        float((gains > 0).sum() / len(ideal)),
    )


def _dcg(gains: Floats) -> float:
    return float((gains / np.log2(2 + np.arange(len(gains)))).sum())


def _means(per_query: Floats) -> MeanScores:
    means = per_query.mean(0) if len(per_query) else np.zeros(3)
    return MeanScores(*(float(value) for value in means))


TREE_COUNTS = (20, 40, 80, 120, 160, RANKING_TREES)
# 0 trusts the trees with every query.
FAMILIAR_FROM = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

ZeroShot = Callable[[Sequence[int]], list[Integers]]
"""The ranking that needs no tuning: for each query (by index) the documents, best first."""


@dataclass(frozen=True)
class ValidationFold:
    """Queries that the trees have not learned from."""

    queries: list[int]
    candidates: list[RankingCandidates]
    trees: TreeSets
    remembered: list[int]
    """Training queries whose judgments helped."""


@dataclass(frozen=True)
class RankerSettings:
    """How many trees are used, and how familiar a query must be for them."""

    trees: int
    familiar_from: float


def choose_settings(
    split: str, data: TuningData, tests: Sequence[ValidationFold], ask_zero_shot: ZeroShot
) -> tuple[RankerSettings, HeldOut]:
    """The best number of trees, and which queries are left to the zero-shot ranking."""
    queries = [query for test in tests for query in test.queries]
    grades, zero_shot = data.grades(split, queries), ask_zero_shot(queries)
    familiar = np.concatenate([_familiar(data, split, test) for test in tests])
    candidates = [one for test in tests for one in test.candidates]

    def compare(rankings: Sequence[Integers], familiar_from: float) -> HeldOut:
        chosen = [
            tuned if one.familiarity >= familiar_from else untuned
            for tuned, one, untuned in zip(rankings, candidates, zero_shot, strict=True)
        ]
        return compare_rankings(split, zero_shot, chosen, grades, familiar)

    by_trees = {trees: _rankings(tests, trees) for trees in TREE_COUNTS}
    trees = max(TREE_COUNTS, key=lambda count: compare(by_trees[count], 0.0).all.ndcg_10)
    # Trust the trees as far as they do no harm, and not less: a start that merely scores higher
    # on these queries is chance.
    outcomes = {start: compare(by_trees[trees], start) for start in FAMILIAR_FROM}
    best = max(FAMILIAR_FROM, key=lambda start: outcomes[start].all.ndcg_10)
    start = next((start for start in FAMILIAR_FROM if outcomes[start].harmless), best)
    alone = [compare(_rankings(tests, trees, only), start) for only in range(SETS)]
    by_set = tuple(one.all.tuned.ndcg_10 for one in alone)
    return RankerSettings(trees, start), replace(outcomes[start], by_set=by_set)


def _familiar(data: TuningData, split: str, test: ValidationFold) -> Bits:
    """Which queries have a relevant document that a remembered query has, too."""
    known = sums(data.grades("train", test.remembered), 0) > 0
    return np.asarray(data.grades(split, test.queries) @ known.astype(np.float32) > 0)


def _rankings(
    tests: Sequence[ValidationFold], trees: int, only: int | None = None
) -> list[Integers]:
    """`only`: with this one of the sets of trees."""
    found = []
    for test in tests:
        chosen = test.trees if only is None else TreeSets(test.trees.sets[only : only + 1])
        rows = np.concatenate([one.features for one in test.candidates])
        scores = chosen.predict(rows, trees, THREADS)
        ends = np.cumsum([len(one.sizes) for one in test.candidates])
        for one, own in zip(test.candidates, np.split(scores, ends[:-1]), strict=True):
            found.append(one.documents[one.order(own)])
    return found

"""Is the tuned ranking better than the zero-shot one, on queries that it has not learned from?

The number of trees, and how far the tuned ranking is trusted with queries unlike any judged one,
are chosen here too: over all held-out queries, those of train (each ranked by a set of trees that
learned without it) and of dev.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from assay.search.fusion import blend
from assay.search.tuning.arrays import Bits, Floats, Integers, Sparse, sums, vertical_stack
from assay.search.tuning.features import TuningData
from assay.search.tuning.ranking import (
    RANKING_TREES,
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
    """`train`, or `train and dev`. Of train, every query is answered by trees that have learned
    from the others."""
    all: Gain
    unfamiliar: Gain
    """Only the queries none of whose relevant documents is remembered: skill without memory."""
    dev: Gain | None = None
    """Only dev, where all sets of trees are asked together, as they are for a new query."""
    by_set: tuple[float, ...] = ()
    """nDCG@10 on dev with each set of ranking trees alone: what the seed decides."""

    @property
    def seed_spread(self) -> float | None:
        """How far another seed moves nDCG@10 on dev: the standard error of the mean of sets."""
        if len(self.by_set) < 2:
            return None
        return float(np.std(self.by_set, ddof=1) / len(self.by_set) ** 0.5)

    @property
    def harmless(self) -> bool:
        """Not significantly worse on queries whose relevant documents were not in training."""
        few = self.unfamiliar.queries < FEWEST_UNFAMILIAR
        return few or self.unfamiliar.ndcg_10 >= -2 * self.unfamiliar.standard_error

    @property
    def better(self) -> bool:
        """Significantly better (one-sided, 2.5%)."""
        return self.all.ndcg_10 > 2 * self.all.standard_error


def gain(before: Floats, after: Floats) -> Gain:
    """From what `scores_by_query` says about two rankings of the same queries."""
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


TREE_COUNTS = (20, 40, 60, 80, RANKING_TREES)
# The predicted overlap from which the trees alone decide; 0 trusts them with every query.
TRUSTED_FROM = (0.0, 0.25, 0.5, 0.75, 1.0)

ZeroShot = Callable[[Sequence[int]], list[Integers]]
"""The ranking that needs no tuning: for each query (by index) the documents, best first."""


@dataclass(frozen=True)
class ValidationFold:
    """Queries that the trees have not learned from."""

    split: str
    queries: list[int]
    candidates: list[RankingCandidates]
    trees: TreeSets
    remembered: list[int]
    """Training queries whose judgments helped."""


@dataclass(frozen=True)
class RankerSettings:
    """How many trees are used, and how familiar a query must be for them to decide alone."""

    trees: int
    trusted_from: float


def trust(familiarity: float, trusted_from: float) -> float:
    """The weight of the tuned ranking; the zero-shot ranking has the rest."""
    return min(1.0, max(0.0, familiarity) / trusted_from) if trusted_from > 0 else 1.0


def choose_settings(
    data: TuningData, tests: Sequence[ValidationFold], ask_zero_shot: ZeroShot
) -> tuple[RankerSettings, HeldOut]:
    """The best number of trees, and how far they are trusted.

    Of the ways to trust them that are not worse than the best by more than a standard error, the
    one that does best on unfamiliar queries is chosen: judged queries are often of one kind, and
    others may be asked later.
    """
    grades = vertical_stack([data.grades(test.split, test.queries) for test in tests])
    zero_shot = ask_zero_shot([query for test in tests for query in test.queries])
    familiar = np.concatenate([_familiar(data, test) for test in tests])
    candidates = [one for test in tests for one in test.candidates]
    before = scores_by_query(zero_shot, grades)
    by_trees = {trees: _rankings(tests, trees) for trees in TREE_COUNTS}
    plain = {trees: scores_by_query(ranked, grades) for trees, ranked in by_trees.items()}
    trees = max(TREE_COUNTS, key=lambda count: plain[count][:, 1].mean())

    def blended(start: float) -> Floats:
        if start == 0:
            return plain[trees]
        triples = zip(by_trees[trees], zero_shot, candidates, strict=True)
        weighed = [
            _blend(tuned, untuned, trust(one.familiarity, start)) for tuned, untuned, one in triples
        ]
        return scores_by_query(weighed, grades)

    outcomes = {start: blended(start) for start in TRUSTED_FROM}
    best = max(outcomes.values(), key=lambda scores: scores[:, 1].mean())
    as_good = [start for start, scores in outcomes.items() if _as_good(scores, best)]
    unfamiliar = ~familiar if (~familiar).sum() >= FEWEST_UNFAMILIAR else np.ones_like(familiar)
    start = max(as_good, key=lambda one: outcomes[one][unfamiliar, 1].mean())
    splits = [split for test in tests for split in [test.split] * len(test.queries)]
    dev = np.array([split == "dev" for split in splits])
    after = outcomes[start]
    return RankerSettings(trees, start), HeldOut(
        split=" and ".join(dict.fromkeys(splits)),
        all=gain(before, after),
        unfamiliar=gain(before[~familiar], after[~familiar]),
        dev=gain(before[dev], after[dev]) if dev.any() else None,
        by_set=_by_set(data, tests, trees),
    )


def _as_good(scores: Floats, best: Floats) -> bool:
    lost = best[:, 1] - scores[:, 1]
    return bool(lost.mean() <= lost.std() / max(1, len(lost)) ** 0.5)


def _blend(tuned: Integers, untuned: Integers, weight: float) -> Integers:
    if weight >= 1:
        return tuned
    scores = blend(tuned[:PAGE].tolist(), untuned[:PAGE].tolist(), weight)
    return np.array(sorted(scores, key=lambda one: -scores[one]), np.int64)


def _by_set(data: TuningData, tests: Sequence[ValidationFold], trees: int) -> tuple[float, ...]:
    """nDCG@10 on dev of each set alone; nothing without dev, whose queries no set has seen."""
    return tuple(
        float(scores_by_query(_rankings([test], trees, only), grades)[:, 1].mean())
        for test in tests
        if test.split == "dev"
        for grades in [data.grades("dev", test.queries)]
        for only in range(len(test.trees.sets))
    )


def _familiar(data: TuningData, test: ValidationFold) -> Bits:
    """Which queries have a relevant document that a remembered query has, too."""
    known = sums(data.grades("train", test.remembered), 0) > 0
    return np.asarray(data.grades(test.split, test.queries) @ known.astype(np.float32) > 0)


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

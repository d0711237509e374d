"""Is the tuned ranking better than the zero-shot one, on queries that it has not learned from?

The number of trees, and how far the tuned ranking is trusted with queries unlike any judged one,
are chosen here too: over all held-out queries, those of train (each ranked by a set of trees that
learned without it) and of dev.

A predicted overlap alone trusts too much: where queries mostly have one relevant document, a high
one is often wrong, and means another thing in each data set. The held-out queries, of which it is
known whether a relevant document is remembered, turn it into a probability.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from assay.search.fusion import blend
from assay.search.ndcg import ndcg_at
from assay.search.tuning.arrays import Bits, Floats, Integers, Sparse, sums, vertical_stack
from assay.search.tuning.features import TuningData
from assay.search.tuning.ranking import (
    PAGE,
    RANKING_TREES,
    THREADS,
    RankingCandidates,
    TreeSets,
)

# Below this, a mean over unfamiliar queries says nothing.
MIN_UNFAMILIAR = 10
NEWTON_STEPS = 20


@dataclass(frozen=True)
class TuningGain:
    """Of the tuned ranking over the zero-shot one, on the same queries.

    `hybrid` and `tuned` are means of nDCG@10, as trec_eval computes it (linear gain).
    """

    queries: int
    hybrid: float
    tuned: float
    ndcg_10: float
    """The mean difference."""
    standard_error: float


@dataclass(frozen=True)
class HeldOut:
    """How much better the tuned ranking is on queries that it has not learned from."""

    split: str
    """`train`, or `train and dev`. Of train, every query is answered by trees that have learned
    from the others."""
    all: TuningGain
    unfamiliar: TuningGain
    """Only the queries none of whose relevant documents is remembered: skill without memory."""
    dev: TuningGain | None = None
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
        few = self.unfamiliar.queries < MIN_UNFAMILIAR
        return few or self.unfamiliar.ndcg_10 >= -2 * self.unfamiliar.standard_error

    @property
    def better(self) -> bool:
        """Significantly better (one-sided, 2.5%)."""
        return self.all.ndcg_10 > 2 * self.all.standard_error


def gain(before: Floats, after: Floats) -> TuningGain:
    """From what `scores_by_query` says about two rankings of the same queries."""
    differences = after - before
    count = len(differences)
    spread = float(differences.std(ddof=1)) if count > 1 else 0.0
    return TuningGain(
        queries=count,
        hybrid=_mean(before),
        tuned=_mean(after),
        ndcg_10=float(differences.mean()) if count else 0.0,
        standard_error=spread / max(1, count) ** 0.5,
    )


def scores_by_query(rankings: Sequence[Integers], grades: Sparse) -> Floats:
    """nDCG@10 of each query."""
    rows = [
        _score_ranking(ranking, np.asarray(grades[row].toarray(), np.float32).ravel())
        for row, ranking in enumerate(rankings)
    ]
    return np.array(rows, np.float32)


def _score_ranking(ranking: Integers, grades: Floats) -> float:
    relevant = grades[grades > 0]
    return ndcg_at(grades[ranking[:10]], relevant, 10) if len(relevant) else 0.0


def _mean(per_query: Floats) -> float:
    return float(per_query.mean()) if len(per_query) else 0.0


TREE_COUNTS = (20, 40, 60, 80, RANKING_TREES)
# The probability of a familiar query from which the trees alone decide, and half of which leaves it
# to the zero-shot ranking; 0 trusts the trees with every query.
TRUSTED_FROM = (0.0, 0.5, 0.75, 1.0)

Doubles = NDArray[np.float64]
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
class FamiliarityGate:
    """How far the trees are trusted with a query, by how likely it is that they remember one of
    its relevant documents: a logistic function of what `familiar_signs` says.
    """

    weights: tuple[float, ...]
    trusted_from: float

    def trust(self, candidates: RankingCandidates, first: int) -> float:
        """The weight of the tuned ranking, which has `first` first; the zero-shot ranking has the
        rest.
        """
        likely = _probability(familiar_signs(candidates, first), np.array(self.weights))
        return float(_trust(likely, self.trusted_from))


def familiar_signs(candidates: RankingCandidates, first: int) -> Doubles:
    """A constant, the highest predicted overlap, and how far down the zero-shot ranking has the
    document that the trees put first: they lift one from far below where they remember it, and
    change places near the top on a guess.
    """
    place = np.flatnonzero(candidates.zero_shot[:PAGE] == first)
    rank = int(place[0]) + 1 if len(place) else PAGE + 1
    return np.array([1.0, candidates.familiarity, np.log(rank)])


def fit_familiarity(signs: Doubles, familiar: Bits) -> Doubles:
    """Weights of a logistic regression with a ridge of 1, by Newton's method."""
    weights = np.zeros(signs.shape[1])
    for _ in range(NEWTON_STEPS):
        likely = _probability(signs, weights)
        curvature = (signs.T * (likely * (1 - likely))) @ signs + np.eye(len(weights))
        weights += np.linalg.solve(curvature, signs.T @ (familiar - likely) - weights)
    return weights


def _probability(signs: Doubles, weights: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-np.clip(signs @ weights, -30, 30))))


def _trust(likely: Doubles, trusted_from: float) -> Doubles:
    if trusted_from <= 0:
        return np.ones_like(likely)
    return np.asarray(np.clip(2 * likely / trusted_from - 1, 0, 1))


@dataclass(frozen=True)
class RankerSettings:
    """How many trees are used, and which queries they decide alone."""

    trees: int
    gate: FamiliarityGate


def choose_settings(
    data: TuningData, tests: Sequence[ValidationFold], ask_zero_shot: ZeroShot
) -> tuple[RankerSettings, HeldOut]:
    """The best number of trees, and how far they are trusted.

    Of the ways to trust them that are not worse than full trust by more than a standard error, the
    one that does best on unfamiliar queries is chosen: judged queries are often of one kind, and
    others may be asked later. The zero-shot ranking is a second search: without a gain on
    unfamiliar queries beyond a standard error, there is none.
    """
    grades = vertical_stack([data.grades(test.split, test.queries) for test in tests])
    zero_shot = ask_zero_shot([query for test in tests for query in test.queries])
    familiar = np.concatenate([_familiar(data, test) for test in tests])
    candidates = [one for test in tests for one in test.candidates]
    before = scores_by_query(zero_shot, grades)
    by_trees = {trees: _rankings(tests, trees) for trees in TREE_COUNTS}
    plain = {trees: scores_by_query(ranked, grades) for trees, ranked in by_trees.items()}
    trees = max(TREE_COUNTS, key=lambda count: plain[count].mean())
    pairs = zip(candidates, by_trees[trees], strict=True)
    signs = np.stack([familiar_signs(one, ranking[0]) for one, ranking in pairs])
    likely = _held_out_probability(signs, familiar, [len(test.queries) for test in tests])

    def blended(start: float) -> Floats:
        triples = zip(by_trees[trees], zero_shot, _trust(likely, start), strict=True)
        return scores_by_query([_blend(*triple) for triple in triples], grades)

    outcomes = {start: blended(start) for start in TRUSTED_FROM}
    as_good = [start for start, scores in outcomes.items() if _as_good(scores, plain[trees])]
    unfamiliar = ~familiar if (~familiar).sum() >= MIN_UNFAMILIAR else np.ones_like(familiar)
    start = max(as_good, key=lambda one: outcomes[one][unfamiliar].mean())
    if _as_good(plain[trees][unfamiliar], outcomes[start][unfamiliar]):
        start = 0.0
    splits = [split for test in tests for split in [test.split] * len(test.queries)]
    dev = np.array([split == "dev" for split in splits])
    after = outcomes[start]
    gate = FamiliarityGate(tuple(fit_familiarity(signs, familiar).tolist()), start)
    return RankerSettings(trees, gate), HeldOut(
        split=" and ".join(dict.fromkeys(splits)),
        all=gain(before, after),
        unfamiliar=gain(before[~familiar], after[~familiar]),
        dev=gain(before[dev], after[dev]) if dev.any() else None,
        by_set=_by_set(data, tests, trees),
    )


def _held_out_probability(signs: Doubles, familiar: Bits, sizes: Sequence[int]) -> Doubles:
    """Of each query being familiar, as the queries of the other folds tell it."""
    fold = np.repeat(np.arange(len(sizes)), sizes)
    weights = [fit_familiarity(signs[fold != one], familiar[fold != one]) for one in set(fold)]
    return np.concatenate([_probability(signs[fold == one], weights[one]) for one in set(fold)])


def _as_good(scores: Floats, best: Floats) -> bool:
    lost = best - scores
    return bool(lost.mean() <= lost.std() / max(1, len(lost)) ** 0.5)


def _blend(tuned: Integers, untuned: Integers, weight: float) -> Integers:
    if weight >= 1:
        return tuned
    scores = blend(tuned[:PAGE].tolist(), untuned[:PAGE].tolist(), weight)
    return np.array(sorted(scores, key=lambda one: -scores[one]), np.int64)


def _by_set(data: TuningData, tests: Sequence[ValidationFold], trees: int) -> tuple[float, ...]:
    """nDCG@10 on dev of each set alone; nothing without dev, whose queries no set has seen."""
    return tuple(
        float(scores_by_query(_rankings([test], trees, only), grades).mean())
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

"""Is the tuned ranking better than the zero-shot one, on queries that it has not learned from?

The number of trees, and how far they are trusted with queries unlike any judged one, are chosen
here too: over all held-out queries of train and dev.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse  # type: ignore[import-untyped]
from numpy.typing import NDArray

from assay.search.retriever import blend
from assay.search.tuning.features import Bits, Floats, Integers, Sparse, TuningData, sums
from assay.search.tuning.signals import PAGE, RankingCandidates
from assay.search.tuning.trees import RANKING_TREES, TreeSets, mean_prediction

# Below this, a mean over unfamiliar queries says nothing.
MIN_UNFAMILIAR = 10
NEWTON_STEPS = 20
TREE_COUNTS = (20, 40, 60, 80, RANKING_TREES)
# The probability of a familiar query from which the trees alone decide, and half of which leaves it
# to the zero-shot ranking; 0 trusts the trees with every query.
TRUSTED_FROM = (0.0, 0.5, 0.75, 1.0)

Doubles = NDArray[np.float64]
# The ranking that needs no tuning: for each query (by index) the documents, best first.
ZeroShot = Callable[[Sequence[int]], list[Integers]]


@dataclass(frozen=True)
class TuningGain:
    """Means of nDCG@10 of the zero-shot and the tuned ranking; `ndcg_10` is their difference."""

    queries: int
    hybrid: float
    tuned: float
    ndcg_10: float
    standard_error: float


@dataclass(frozen=True)
class HeldOut:
    """How much better the tuned ranking is on queries that it has not learned from.

    `split` is `train`, or `train and dev`. `unfamiliar` are the queries none of whose relevant
    documents is remembered: skill without memory.
    """

    split: str
    all: TuningGain
    unfamiliar: TuningGain

    @property
    def harmless(self) -> bool:
        """Not significantly worse on queries whose relevant documents were not in training."""
        few = self.unfamiliar.queries < MIN_UNFAMILIAR
        return few or self.unfamiliar.ndcg_10 >= -2 * self.unfamiliar.standard_error

    @property
    def better(self) -> bool:
        """Significantly better (one-sided, 2.5%)."""
        return self.all.ndcg_10 > 2 * self.all.standard_error


@dataclass(frozen=True)
class ValidationFold:
    """Queries that the trees have not learned from, and those that are remembered for them."""

    split: str
    queries: list[int]
    candidates: list[RankingCandidates]
    trees: TreeSets
    remembered: list[int]


@dataclass(frozen=True)
class FamiliarityGate:
    """How far the trees are trusted with a query, by how likely it is that they remember one of
    its relevant documents: a logistic function of `familiar_signs`. A predicted overlap alone
    trusts too much where queries mostly have one relevant document.
    """

    weights: tuple[float, ...]
    trusted_from: float

    def trust(self, candidates: RankingCandidates, first: int) -> float:
        """The weight of the tuned ranking, which has `first` first."""
        likely = _probability(familiar_signs(candidates, first), np.array(self.weights))
        return float(_trust(likely, self.trusted_from))


def familiar_signs(candidates: RankingCandidates, first: int) -> Doubles:
    """A constant, the highest predicted overlap, and how far down the zero-shot ranking has the
    document that the trees put first: one that they remember is lifted from far below.
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


def choose_settings(
    data: TuningData, tests: Sequence[ValidationFold], ask_zero_shot: ZeroShot
) -> tuple[int, FamiliarityGate, HeldOut]:
    """The best number of trees, how far they are trusted, and what they are worth.

    Of the ways to trust them that are not worse than full trust by more than a standard error, the
    one that does best on unfamiliar queries is chosen: others may be asked later than were judged.
    The zero-shot ranking is a second search, and has to gain more than a standard error on them.
    """
    grades = sparse.vstack([data.grades(test.split, test.queries) for test in tests]).tocsr()
    zero_shot = ask_zero_shot([query for test in tests for query in test.queries])
    familiar = np.concatenate([_familiar(data, test) for test in tests])
    before = scores_by_query(zero_shot, grades)
    by_trees = {count: _rankings(tests, count) for count in TREE_COUNTS}
    plain = {count: scores_by_query(ranked, grades) for count, ranked in by_trees.items()}
    trees = max(TREE_COUNTS, key=lambda count: plain[count].mean())
    candidates = [one for test in tests for one in test.candidates]
    pairs = zip(candidates, by_trees[trees], strict=True)
    signs = np.stack([familiar_signs(one, ranking[0]) for one, ranking in pairs])
    likely = _held_out_probability(signs, familiar, [len(test.queries) for test in tests])

    def blended(start: float) -> Floats:
        rankings = []
        for tuned, other, weight in zip(
            by_trees[trees], zero_shot, _trust(likely, start), strict=True
        ):
            scores = blend(tuned[:PAGE].tolist(), other[:PAGE].tolist(), weight)
            mixed = np.array(sorted(scores, key=lambda one: -scores[one]), np.int64)
            rankings.append(tuned if weight >= 1 else mixed)
        return scores_by_query(rankings, grades)

    outcomes = {start: blended(start) for start in TRUSTED_FROM}
    as_good = [start for start, scores in outcomes.items() if _as_good(scores, plain[trees])]
    unfamiliar = ~familiar if (~familiar).sum() >= MIN_UNFAMILIAR else np.ones_like(familiar)
    start = max(as_good, key=lambda one: outcomes[one][unfamiliar].mean())
    if _as_good(plain[trees][unfamiliar], outcomes[start][unfamiliar]):
        start = 0.0
    after = outcomes[start]
    held_out = HeldOut(
        split=" and ".join(dict.fromkeys(test.split for test in tests)),
        all=gain(before, after),
        unfamiliar=gain(before[~familiar], after[~familiar]),
    )
    weights = tuple(fit_familiarity(signs, familiar).tolist())
    return trees, FamiliarityGate(weights, start), held_out


def gain(before: Floats, after: Floats) -> TuningGain:
    """From what `scores_by_query` says about two rankings of the same queries."""
    count = len(before)
    if not count:
        return TuningGain(0, 0.0, 0.0, 0.0, 0.0)
    differences = after - before
    spread = float(differences.std(ddof=1)) if count > 1 else 0.0
    return TuningGain(
        queries=count,
        hybrid=float(before.mean()),
        tuned=float(after.mean()),
        ndcg_10=float(differences.mean()),
        standard_error=spread / count**0.5,
    )


def scores_by_query(rankings: Sequence[Integers], grades: Sparse) -> Floats:
    """nDCG@10 of each query, with linear gain and the discount of trec_eval."""
    scores = []
    for row, ranking in enumerate(rankings):
        ideal = np.sort(grades[row].data)[::-1][:10]
        found = grades[row].toarray().ravel()[ranking[:10]]
        best, own = ((some / np.log2(2 + np.arange(len(some)))).sum() for some in (ideal, found))
        scores.append(own / best if best else 0.0)
    return np.array(scores, np.float32)


def _held_out_probability(signs: Doubles, familiar: Bits, sizes: Sequence[int]) -> Doubles:
    """Of each query being familiar, as the queries of the other folds tell it."""
    fold = np.repeat(np.arange(len(sizes)), sizes)
    weights = [fit_familiarity(signs[fold != one], familiar[fold != one]) for one in set(fold)]
    return np.concatenate([_probability(signs[fold == one], weights[one]) for one in set(fold)])


def _as_good(scores: Floats, best: Floats) -> bool:
    lost = best - scores
    return bool(lost.mean() <= lost.std() / max(1, len(lost)) ** 0.5)


def _familiar(data: TuningData, test: ValidationFold) -> Bits:
    """Which queries have a relevant document that a remembered query has, too."""
    known = sums(data.grades("train", test.remembered), 0) > 0
    return np.asarray(data.grades(test.split, test.queries) @ known.astype(np.float32) > 0)


def _rankings(tests: Sequence[ValidationFold], trees: int) -> list[Integers]:
    found = []
    for test in tests:
        rows = np.concatenate([one.features for one in test.candidates])
        scores = mean_prediction(test.trees, rows, trees)
        ends = np.cumsum([len(one.sizes) for one in test.candidates])
        for one, own in zip(test.candidates, np.split(scores, ends[:-1]), strict=True):
            found.append(one.documents[one.order(own)])
    return found

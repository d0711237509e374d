"""Is the tuned ranking better than the zero-shot one, on queries that it has not learned from?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from assay.search.tuning.arrays import Bits, Floats, Integers, Sparse

PAGE = 100
# Below this, a mean over unfamiliar queries says nothing.
FEWEST_UNFAMILIAR = 10


@dataclass(frozen=True)
class Figures:
    """Means over queries, as trec_eval computes them (linear gain)."""

    ndcg_5: float
    ndcg_10: float
    recall_100: float


@dataclass(frozen=True)
class Gain:
    """Of the tuned ranking over the zero-shot one, on the same queries."""

    queries: int
    hybrid: Figures
    tuned: Figures
    ndcg_10: float
    """The mean difference."""
    standard_error: float


@dataclass(frozen=True)
class HeldOut:
    split: str
    """`dev`, or `train` where there is no dev: then every query was answered by a model that had
    learned from the others."""
    all: Gain
    unfamiliar: Gain
    """Only the queries none of whose relevant documents is remembered: skill without memory."""

    @property
    def harmless(self) -> bool:
        """Not worse where memory does not help, as far as that can be told."""
        return self.unfamiliar.queries < FEWEST_UNFAMILIAR or self.unfamiliar.ndcg_10 >= 0

    @property
    def better(self) -> bool:
        """By more than chance would give one time in forty."""
        return self.all.ndcg_10 > 2 * self.all.standard_error


def compare_rankings(
    split: str,
    hybrid: Sequence[Integers],
    tuned: Sequence[Integers],
    grades: Sparse,
    familiar: Bits,
) -> HeldOut:
    """Rankings are document indexes, best first; `grades` are queries by documents."""
    before, after = measure(hybrid, grades), measure(tuned, grades)
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


def measure(rankings: Sequence[Integers], grades: Sparse) -> Floats:
    """Queries by (nDCG@5, nDCG@10, recall@100)."""
    rows = [
        _measure_one(ranking, np.asarray(grades[row].toarray(), np.float32).ravel())
        for row, ranking in enumerate(rankings)
    ]
    return np.array(rows, np.float32).reshape(len(rankings), 3)


def _measure_one(ranking: Integers, grades: Floats) -> tuple[float, float, float]:
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


def _means(per_query: Floats) -> Figures:
    means = per_query.mean(0) if len(per_query) else np.zeros(3)
    return Figures(*(float(value) for value in means))

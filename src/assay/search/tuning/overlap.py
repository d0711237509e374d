"""Which judged queries will turn out to have the same relevant documents as this one?

For a query and each of its most promising judged queries, trees predict the cosine of the two
sets of relevant documents: from the likeness of the queries, and from how well the judged query's
set fits what the first look has found.
"""

from dataclasses import dataclass

import numpy as np

from assay.search.tuning.arrays import (
    Floats,
    Integers,
    Sparse,
    best_columns,
    by_maximum,
    dense,
    min_max,
    products,
    sparse_of_rows,
    sums,
    unit_rows,
)
from assay.search.tuning.first_pass import FirstPass, Signals
from assay.search.tuning.memory import Memory

NEIGHBOURS = 200
# The rankings of the first look that sets are compared with, and how far down.
RANKINGS = ("base", "expanded", "start")
DEPTHS = (3, 10, 40)
CENTRE_DEPTH = 10


@dataclass(frozen=True)
class Pairs:
    """Queries by their neighbours."""

    neighbours: Integers
    features: Floats
    """Queries by neighbours by features."""


def compare_with_judged(memory: Memory, first: FirstPass) -> Pairs:
    found, promise = _fits(memory, first)
    neighbours = best_columns(promise, NEIGHBOURS)
    rows = np.arange(len(neighbours))[:, None]
    near = np.stack([scores[rows, neighbours] for scores in found.values()], -1)
    lengths = np.broadcast_to(first.questions.lengths[:, None], neighbours.shape)
    alone = np.stack([np.log1p(memory.counts)[neighbours], lengths, memory.lengths[neighbours]], -1)
    return Pairs(
        neighbours,
        np.concatenate([near, by_maximum(near), alone], -1).astype(np.float32),
    )


def pair_feature_names() -> list[str]:
    fits = [
        f"{ranking}_{fit}"
        for ranking in RANKINGS
        for fit in (*(f"top_{depth}" for depth in DEPTHS), "mean", "peak", "centre")
    ]
    names = ["meaning", "words", "grams", "profiles", "share", *fits, "set_centre", "promise"]
    alone = ["set_size", "query_length", "judged_length"]
    return [*names, *(f"{name}/max" for name in names), *alone]


def true_overlap(relevant: Sparse, remembered: Sparse, neighbours: Integers) -> Floats:
    """What the trees learn; both matrices hold grades, queries by documents."""
    own, other = (relevant > 0).astype(np.float32), (remembered > 0).astype(np.float32)
    sizes = np.maximum(sums(own, 1), 1)[:, None] * np.maximum(sums(other, 1), 1)
    return np.take_along_axis(dense(own @ other.T) / np.sqrt(sizes), neighbours, 1)


def _fits(memory: Memory, first: FirstPass) -> tuple[Signals, Floats]:
    found = dict(first.likenesses)
    promise = 2 * found["meaning"] + 0.5 * found["grams"] + 0.5 * found["words"] + found["profiles"]
    best = {name: best_columns(first.signals[name], max(DEPTHS)) for name in RANKINGS}
    fits = _cosines_with_top(memory, best)
    means = _means_over_sets(memory, {name: min_max(first.signals[name]) for name in RANKINGS})
    for ranking in RANKINGS:
        for depth in DEPTHS:
            found[f"{ranking}_top_{depth}"] = fits[ranking, depth]
        found |= {name: means[name] for name in (f"{ranking}_mean", f"{ranking}_peak")}
        centre = _centre(memory, best[ranking][:, :CENTRE_DEPTH])
        found[f"{ranking}_centre"] = np.asarray(centre @ memory.set_vectors.T, np.float32)
        promise = (
            promise
            + 0.4 * by_maximum(found[f"{ranking}_top_10"])
            + 0.3 * by_maximum(found[f"{ranking}_top_40"])
            + 0.6 * by_maximum(found[f"{ranking}_mean"])
        )
    found["set_centre"] = np.asarray(first.questions.vectors @ memory.set_vectors.T, np.float32)
    found["promise"] = promise
    return found, promise


def _cosines_with_top(memory: Memory, best: dict[str, Integers]) -> dict[tuple[str, int], Floats]:
    """Of the top of each ranking with each judged set."""
    tops = {
        (ranking, depth): columns[:, :depth]
        for ranking, columns in best.items()
        for depth in DEPTHS
    }
    sizes = [memory.bundles.sizes[columns] for columns in tops.values()]
    shares = [np.sqrt(some / some.sum(1, keepdims=True)) for some in sizes]
    rows = sparse_of_rows(list(tops.values()), shares, len(memory.bundles))
    return dict(zip(tops, np.split(dense(rows @ memory.cosines), len(tops)), strict=True))


def _means_over_sets(memory: Memory, levels: Signals) -> Signals:
    """Of each ranking's scores, and of what is left of them when only the best count."""
    weights: Signals = {}
    for ranking, level in levels.items():
        weights[f"{ranking}_mean"] = level * memory.bundles.sizes
        weights[f"{ranking}_peak"] = level**4 * memory.bundles.sizes
    totals = products(weights, memory.relevant.T)
    return {name: total / memory.counts for name, total in totals.items()}


def _centre(memory: Memory, best: Integers) -> Floats:
    weights = memory.bundles.sizes[best]
    return unit_rows(np.einsum("qk,qkd->qd", weights, memory.centres[best]))

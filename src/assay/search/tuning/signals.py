"""The signals for a query: those that need no learned tree, then those passed on by judgments.

**Overlap.** Which judged queries will turn out to have the same relevant documents as this one? For
a query and each of its most promising judged queries, trees predict the cosine of the two sets of
relevant documents: from the likeness of the queries, and from how well the judged query's set fits
what the first pass has found.

**Propagation** from the predicted overlaps to the relevance of bundles. The plain way adds up the
judgments of the neighbors, weighted. But many neighbors repeat each other, and what they have in
common is then counted again and again. Kriging (best linear prediction, Cressie, "The Origins of
Kriging", 1990) knows the true overlaps among the neighbors: it looks for the relevance that
explains all predicted overlaps together.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import sposv  # type: ignore[import-untyped]

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
    sparse_rows,
    sums,
    times_symmetric,
    unit_rows,
)
from assay.search.tuning.features import CorpusFeatures, QueryFeatures, compare_content
from assay.search.tuning.memory import TEXTS, Memory, likeness, profile

Signals = dict[str, Floats]
"""By name, in a fixed order: queries by bundles."""


@dataclass(frozen=True)
class FirstPass:
    """What is known of some queries before any tree is asked."""

    questions: QueryFeatures
    hybrid: Floats
    """Queries by documents."""
    signals: Signals
    likenesses: Signals
    """Queries by judged queries."""


def first_pass(corpus: CorpusFeatures, memory: Memory, questions: QueryFeatures) -> FirstPass:
    """Compare queries with documents and with the judged queries."""
    hybrid, signals = _content_signals(corpus, memory, questions)
    profiles = profile(signals["hybrid_mean"], signals["hybrid_best"], signals["text"])
    likenesses = _likenesses(memory, questions, profiles)
    signals |= _judged_signals(memory, questions, likenesses)
    # Three rankings that the later stages start from. The weights are round numbers, hardly
    # tuned; the trees correct them.
    signals["base"] = (
        min_max(signals["hybrid_mean"])
        + min_max(signals["hybrid_best"])
        + 0.5 * min_max(signals["text"])
        + 0.5 * min_max(signals["near_15_evenly"])
    )
    signals["start"] = signals["base"] + 2 * min_max(signals["ridge"])
    return FirstPass(questions, hybrid, signals, likenesses)


def _likenesses(memory: Memory, questions: QueryFeatures, profiles: Sparse) -> Signals:
    found = {
        "meaning": np.asarray(questions.vectors @ memory.vectors.T, np.float32),
        "words": dense(questions.words @ memory.words),
        "grams": dense(questions.grams @ memory.grams),
        "profiles": dense(profiles @ memory.profiles),
    }
    found["share"] = times_symmetric(likeness(**found), memory.inverse)
    return found


def _content_signals(
    corpus: CorpusFeatures, memory: Memory, questions: QueryFeatures
) -> tuple[Floats, Signals]:
    content = compare_content(corpus, questions)
    scores = vars(content)
    means = products(scores, memory.bundles.members)
    best = np.split(memory.bundles.best(np.concatenate(list(scores.values()))), len(scores))
    found: Signals = {}
    for name, highest in zip(scores, best, strict=True):
        found[f"{name}_best"] = highest
        found[f"{name}_mean"] = means[name]
    written = dense(questions.stems @ memory.texts)
    found |= dict(zip(TEXTS, np.split(written, len(TEXTS), axis=1), strict=True))
    for name in ("centres", "asked_centres", "both_centres"):
        found[name] = np.asarray(questions.vectors @ getattr(memory, name).T, np.float32)
    return content.hybrid, found


def _judged_signals(memory: Memory, questions: QueryFeatures, likenesses: Signals) -> Signals:
    """Judgments of similar queries, passed on; and what is known of a bundle by itself."""
    weights: Signals = {}
    for sharpness in (8, 15):
        near = np.exp(sharpness * (likenesses["meaning"] - 1))
        weights[f"near_{sharpness}"] = near
        weights[f"near_{sharpness}_evenly"] = near * memory.evenly
    weights["same_words"] = likenesses["words"] ** 2 * memory.evenly
    weights["ridge"] = likenesses["share"]
    weights["ridge_evenly"] = likenesses["share"] * memory.evenly
    found = products(weights, memory.by_bundle)
    shape = (len(questions), len(memory.bundles))
    for name, values in (
        ("popularity", memory.popularity),
        ("size", memory.bundles.sizes),
        ("focus", memory.focus),
    ):
        found[name] = np.broadcast_to(values, shape)
    return found


NEIGHBOURS = 200
# The rankings of the first look that sets are compared with, and how far down.
RANKINGS = ("base", "expanded", "start")
DEPTHS = (3, 10, 40)
CENTRE_DEPTH = 10
PAIR_FEATURES = (
    *("meaning", "words", "grams", "profiles", "share"),
    *(
        f"{ranking}_{what}"
        for ranking in RANKINGS
        for what in (*(f"top_{depth}" for depth in DEPTHS), "mean", "peak", "center")
    ),
    *("set_centre", "promise"),
)


@dataclass(frozen=True)
class Pairs:
    """Queries by their neighbors."""

    neighbours: Integers
    features: Floats
    """Queries by neighbours by features."""


def compare_with_judged(memory: Memory, first: FirstPass) -> Pairs:
    """The most promising judged queries for each query, with features of each pair."""
    found, promise, centers = _fits(memory, first)
    neighbours = best_columns(promise, NEIGHBOURS)
    rows = np.arange(len(neighbours))[:, None]
    columns = {name: scores[rows, neighbours] for name, scores in found.items()}
    columns |= _cosines_with_sets(memory, neighbours, centers)
    near = np.stack([columns[name] for name in PAIR_FEATURES], -1)
    lengths = np.broadcast_to(first.questions.lengths[:, None], neighbours.shape)
    alone = np.stack([np.log1p(memory.counts)[neighbours], lengths, memory.lengths[neighbours]], -1)
    return Pairs(
        neighbours,
        np.concatenate([near, by_maximum(near), alone], -1).astype(np.float32),
    )


def true_overlap(relevant: Sparse, remembered: Sparse, neighbours: Integers) -> Floats:
    """What the trees learn; both matrices hold grades, queries by documents."""
    own, other = (relevant > 0).astype(np.float32), (remembered > 0).astype(np.float32)
    sizes = np.maximum(sums(own, 1), 1)[:, None] * np.maximum(sums(other, 1), 1)
    return np.take_along_axis(dense(own @ other.T) / np.sqrt(sizes), neighbours, 1)


def _fits(memory: Memory, first: FirstPass) -> tuple[Signals, Floats, Signals]:
    """What all judged queries are compared by, how promising that makes them, and the vectors that
    the sets of the promising ones are compared with.
    """
    found = dict(first.likenesses)
    promise = 2 * found["meaning"] + 0.5 * found["grams"] + 0.5 * found["words"] + found["profiles"]
    best = {name: best_columns(first.signals[name], max(DEPTHS)) for name in RANKINGS}
    fits = _cosines_with_top(memory, best)
    means = _means_over_sets(memory, {name: min_max(first.signals[name]) for name in RANKINGS})
    for ranking in RANKINGS:
        for depth in DEPTHS:
            found[f"{ranking}_top_{depth}"] = fits[ranking, depth]
        found |= {name: means[name] for name in (f"{ranking}_mean", f"{ranking}_peak")}
        promise = (
            promise
            + 0.4 * by_maximum(found[f"{ranking}_top_10"])
            + 0.3 * by_maximum(found[f"{ranking}_top_40"])
            + 0.6 * by_maximum(found[f"{ranking}_mean"])
        )
    found["promise"] = promise
    centers = {
        f"{ranking}_center": _center(memory, best[ranking][:, :CENTRE_DEPTH])
        for ranking in RANKINGS
    }
    return found, promise, centers | {"set_centre": first.questions.vectors}


def _cosines_with_sets(memory: Memory, neighbours: Integers, centers: Signals) -> Signals:
    """Of a single query, with its neighbors alone: all sets are much of what it would read."""
    if len(neighbours) == 1:
        sets = memory.set_vectors[neighbours[0]]
        return {name: (sets @ one[0])[None, :] for name, one in centers.items()}
    return {
        name: np.take_along_axis(one @ memory.set_vectors.T, neighbours, 1)
        for name, one in centers.items()
    }


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
    totals = products(weights, memory.relevant)
    return {name: total / memory.counts for name, total in totals.items()}


def _center(memory: Memory, best: Integers) -> Floats:
    weights = memory.bundles.sizes[best]
    return unit_rows(np.einsum("qk,qkd->qd", weights, memory.centres[best]))


POWERS = (1, 2, 4)
# How unreliable a predicted overlap is taken to be: a sharp answer and a smooth one.
NOISES = (1.0, 4.0)
ALMOST_CERTAIN = 0.98


def _explained(among: Floats, overlap: Floats, noise: float) -> Floats:
    """By Cholesky, in half the time of the general way: cosines are positive semidefinite."""
    own = np.float32(noise) * np.eye(overlap.shape[1], dtype=np.float32)
    solved = [sposv(one + own, row)[1] for one, row in zip(among, overlap, strict=True)]
    return np.asarray(solved, np.float32)


def propagate(memory: Memory, neighbours: Integers, overlap: Floats) -> Signals:
    """Signals for bundles, from the predicted overlap with each neighbor."""
    overlap = np.clip(overlap, 0, 1).astype(np.float32)
    evenly = memory.evenly[neighbours]
    weights: Signals = {}
    for power in POWERS:
        weights[f"overlap_{power}"] = overlap**power
        weights[f"overlap_{power}_evenly"] = overlap**power * evenly
    weights["any_overlap"] = -np.log1p(-np.minimum(overlap, ALMOST_CERTAIN))
    among = memory.overlaps[neighbours[:, :, None], neighbours[:, None, :]]
    for noise in NOISES:
        weights[f"kriging_{noise:g}"] = _explained(among, overlap, noise) * evenly
    # One product for all: each sparse product has overhead.
    spread = sparse_rows(
        np.tile(neighbours, (len(weights), 1)),
        np.concatenate(list(weights.values())).astype(np.float32),
        len(memory.counts),
    )
    passed_on = np.split(dense(spread @ memory.relevant), len(weights))
    return dict(zip(weights, passed_on, strict=True))

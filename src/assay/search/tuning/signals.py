"""The signals for a query, in two passes: without learned trees, then passed on by judgments.

Trees predict how far each judged query will turn out to have the same relevant documents as this
one; `propagate` turns these overlaps into the relevance of bundles of documents.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import sposv  # type: ignore[import-untyped]

from assay.search.tuning.features import (
    TINY,
    CorpusFeatures,
    Floats,
    Integers,
    QueryFeatures,
    Sparse,
    best_columns,
    by_maximum,
    columns_of,
    compare_content,
    dense,
    fourth_power,
    min_max,
    products,
    sort_keys,
    sums,
    unit_rows,
)
from assay.search.tuning.memory import TEXTS, Memory, likeness, profile

# By name, in a fixed order: queries by bundles
Signals = dict[str, Floats]


@dataclass(frozen=True)
class FirstPass:
    """What is known of some queries before any tree is asked."""

    questions: QueryFeatures
    hybrid: Floats  # queries by documents
    signals: Signals
    likenesses: Signals  # queries by judged queries


def first_pass(corpus: CorpusFeatures, memory: Memory, questions: QueryFeatures) -> FirstPass:
    """Compare queries with documents and with the judged queries."""
    hybrid, signals = _content_signals(corpus, memory, questions)
    profiles = profile(signals["hybrid_mean"], signals["hybrid_best"], signals["text"])
    likenesses = _likenesses(memory, questions, profiles)
    signals |= _judged_signals(memory, questions, likenesses)
    signals["both_centres"] = signals["centres"] + signals["asked_centres"]
    signals["both_centres"] /= memory.both_lengths
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
    found["share"] = memory.shares(likeness(**found))
    return found


def _content_signals(
    corpus: CorpusFeatures, memory: Memory, questions: QueryFeatures
) -> tuple[Floats, Signals]:
    scores = compare_content(corpus, questions)
    means = products(scores, memory.bundles.members)
    best = np.split(memory.bundles.best(np.concatenate(list(scores.values()))), len(scores))
    found: Signals = {}
    for name, highest in zip(scores, best, strict=True):
        found[f"{name}_best"] = highest
        found[f"{name}_mean"] = means[name]
    written = dense(questions.stems @ memory.texts)
    found |= dict(zip(TEXTS, np.split(written, len(TEXTS), axis=1), strict=True))
    # The product with a mean is the mean of the products.
    found["centres"] = found["meaning_mean"] / memory.mean_lengths
    return scores["hybrid"], found


def _judged_signals(memory: Memory, questions: QueryFeatures, likenesses: Signals) -> Signals:
    """What judgments of similar queries say of each bundle, and its size and popularity."""
    weights: Signals = {}
    for sharpness in (8, 15):
        near = np.exp(sharpness * (likenesses["meaning"] - 1))
        weights[f"near_{sharpness}"] = near
        weights[f"near_{sharpness}_evenly"] = near * memory.evenly
    weights["asked_centres"] = likenesses["meaning"] * memory.evenly
    weights["same_words"] = likenesses["words"] ** 2 * memory.evenly
    weights["ridge"] = likenesses["share"]
    weights["ridge_evenly"] = likenesses["share"] * memory.evenly
    found = products(weights, memory.by_bundle)
    found["asked_centres"] = found["asked_centres"] / memory.asked_lengths
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


def compare_with_judged(memory: Memory, first: FirstPass) -> tuple[Integers, Floats]:
    """The most promising judged queries for each query, and features of each pair."""
    found, promise, centers = _fits(memory, first)
    neighbours = best_columns(promise, NEIGHBOURS)
    rows = np.arange(len(neighbours))[:, None]
    together = np.stack(list(found.values()))[:, rows, neighbours]
    columns = dict(zip(found, together, strict=True))
    columns |= _cosines_with_sets(memory, neighbours, centers)
    near = np.stack([columns[name] for name in PAIR_FEATURES], -1)
    lengths = np.broadcast_to(first.questions.lengths[:, None], neighbours.shape)
    alone = np.stack([np.log1p(memory.counts)[neighbours], lengths, memory.lengths[neighbours]], -1)
    return neighbours, np.concatenate([near, by_maximum(near), alone], -1).astype(np.float32)


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
    scores = np.concatenate([first.signals[name] for name in RANKINGS])
    tops = best_columns(scores, max(DEPTHS))
    for what, totals in _totals_over_sets(memory, min_max(scores), tops).items():
        parts = np.split(totals, len(RANKINGS))
        found |= {f"{name}_{what}": part for name, part in zip(RANKINGS, parts, strict=True)}
    for ranking in RANKINGS:
        promise = (
            promise
            + 0.4 * by_maximum(found[f"{ranking}_top_10"])
            + 0.3 * by_maximum(found[f"{ranking}_top_40"])
            + 0.6 * by_maximum(found[f"{ranking}_mean"])
        )
    found["promise"] = promise
    best = tops[:, :CENTRE_DEPTH]
    together = np.einsum("qk,qkd->qd", memory.bundles.sizes[best], memory.centres[best])
    middles = np.split(unit_rows(together), len(RANKINGS))
    centers = {f"{name}_center": one for name, one in zip(RANKINGS, middles, strict=True)}
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


def _totals_over_sets(memory: Memory, levels: Floats, tops: Integers) -> Signals:
    """Of each ranking (rows of `levels`) with each judged set: the cosine of the first few of the
    ranking (`tops`), the mean of its scores, and what is left of that when only the best count.
    """
    sizes = memory.bundles.sizes
    weights = {"mean": levels * sizes, "peak": fourth_power(levels) * sizes}
    for depth in DEPTHS:
        top = tops[:, :depth]
        own = sizes[top]
        weights[f"top_{depth}"] = np.zeros_like(levels)
        shares = own / np.sqrt(own.sum(1, keepdims=True))
        np.put_along_axis(weights[f"top_{depth}"], top, shares, 1)
    return {
        name: total * memory.evenly if name.startswith("top") else total / memory.counts
        for name, total in products(weights, memory.relevant).items()
    }


POWERS = (1, 2, 4)
# How unreliable a predicted overlap is taken to be: a sharp answer and a smooth one.
NOISES = (1.0, 4.0)
ALMOST_CERTAIN = 0.98


# What the others of the neighbors add: nothing on NFCorpus dev, for most of the time.
EXPLAINED = 100


def _kriging(memory: Memory, neighbours: Integers, overlap: Floats) -> Iterator[Floats]:
    """For each noise, the relevance that explains all predicted overlaps together (Cressie 1990):
    many neighbors repeat each other, and a plain sum would count that again and again.
    """
    # By Cholesky, in half the time of the general way: cosines are positive semidefinite.
    best = best_columns(overlap, EXPLAINED)
    chosen = np.take_along_axis(neighbours, best, 1)
    known = np.take_along_axis(overlap, best, 1)
    among = memory.overlaps[chosen[:, :, None], chosen[:, None, :]]
    own = np.eye(best.shape[1], dtype=np.float32)
    for noise in NOISES:
        rows = zip(among + np.float32(noise) * own, known, strict=True)
        solved = np.zeros_like(overlap)
        np.put_along_axis(solved, best, np.stack([sposv(one, row)[1] for one, row in rows]), 1)
        yield solved


def propagate(memory: Memory, neighbours: Integers, overlap: Floats) -> Signals:
    """Signals for bundles, from the predicted overlap with each neighbor."""
    overlap = np.clip(overlap, 0, 1).astype(np.float32)
    evenly = memory.evenly[neighbours]
    weights: Signals = {}
    for power in POWERS:
        weights[f"overlap_{power}"] = overlap**power
        weights[f"overlap_{power}_evenly"] = overlap**power * evenly
    weights["any_overlap"] = -np.log1p(-np.minimum(overlap, ALMOST_CERTAIN))
    for noise, solved in zip(NOISES, _kriging(memory, neighbours, overlap), strict=True):
        weights[f"kriging_{noise:g}"] = solved * evenly
    together = np.stack(list(weights.values()), -1)
    passed_on = [
        memory.relevant[near].T @ own for near, own in zip(neighbours, together, strict=True)
    ]
    return dict(zip(weights, np.stack(passed_on).transpose(2, 0, 1), strict=True))


DEPTH = 50
# How many documents a page of results has at most.
PAGE = 100
PROPOSING = (
    "body_best",
    "expanded",
    "meaning_best",
    "asked_centres",
    "both_centres",
    "near_8_evenly",
    "near_15_evenly",
    "hybrid_best",
    "text",
    "start",
    "ridge",
    "overlap_1_evenly",
    "overlap_2_evenly",
    "any_overlap",
    "kriging_1",
)
# The best vector similarity but four: low if nothing in the collection is about the query.
CLOSENESS_RANK = 5


@dataclass(frozen=True)
class RankingCandidates:
    """The bundles that a query proposes, by features, and their documents."""

    features: Floats
    sizes: Floats
    documents: Integers  # bundle after bundle; inside each the best zero-shot document first
    owners: Integers  # the candidate that each document belongs to
    zero_shot: Integers  # the best documents of the zero-shot ranking
    familiarity: float  # the highest overlap that is predicted with any judged query

    def order(self, scores: Floats) -> Integers:
        """Places in `documents`, best first, when the candidates have these scores."""
        return np.argsort(-scores[self.owners], kind="stable")


def second_pass(
    memory: Memory, first: FirstPass, predict: Callable[[Floats], Floats], page: int = PAGE
) -> list[RankingCandidates]:
    """The candidates of each query; `predict` gives the overlap for the features of each pair."""
    neighbours, features = compare_with_judged(memory, first)
    overlap = predict(features.reshape(-1, features.shape[-1])).reshape(neighbours.shape)
    signals = first.signals | propagate(memory, neighbours, overlap)
    bundles, familiarity = memory.bundles, overlap.max(1)
    scores = np.stack([signals[name] for name in PROPOSING], axis=1)
    best = best_columns(scores.reshape(-1, scores.shape[2]), DEPTH).reshape(len(scores), -1)
    meaning = signals["meaning_best"]
    rank = min(CLOSENESS_RANK, meaning.shape[1])
    closeness = -np.partition(-meaning, rank - 1, axis=1)[:, rank - 1]
    # As many for every page: how far a query is trusted depends on them.
    zero_shot = best_columns(first.hybrid, max(page, PAGE))
    found = []
    for row in range(len(best)):
        proposed = np.zeros(len(bundles), np.bool_)
        proposed[best[row]] = True
        chosen = np.flatnonzero(proposed)
        raw = np.stack([values[row, chosen] for values in signals.values()])
        of_query = np.array([first.questions.lengths[row], closeness[row]], np.float32)
        place = np.full(len(bundles), -1, np.int64)
        place[chosen] = np.arange(len(chosen))
        owner = place[bundles.label]
        documents = np.flatnonzero(owner >= 0)
        documents = documents[np.lexsort((-first.hybrid[row, documents], owner[documents]))]
        found.append(
            RankingCandidates(
                features=_features(raw, of_query),
                sizes=bundles.sizes[chosen],
                documents=documents,
                owners=owner[documents],
                zero_shot=zero_shot[row],
                familiarity=float(familiarity[row]),
            )
        )
    return found


def _features(raw: Floats, of_query: Floats) -> Floats:
    """Each signal (`raw`: signals by candidates), by its maximum, and the rank that it gives."""
    signals, candidates = raw.shape
    features = np.empty((candidates, 3 * signals + len(of_query)), np.float32)
    features[:, :signals] = raw.T
    features[:, signals : 2 * signals] = (raw / (raw.max(1, keepdims=True) + TINY)).T
    order = columns_of(np.sort(sort_keys(raw), axis=1))
    ranks = np.arange(2 * signals, 3 * signals)[:, None]
    features[order, ranks] = 1 / np.arange(1, candidates + 1)
    features[:, 3 * signals :] = of_query
    return features

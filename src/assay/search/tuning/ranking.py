"""The candidates of a query, which the ranking trees put in order."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from assay.search.tuning.arrays import (
    TINY,
    Floats,
    Integers,
    best_columns,
    columns_of,
    sort_keys,
)
from assay.search.tuning.memory import Bundles, Memory
from assay.search.tuning.signals import FirstPass, Signals, compare_with_judged, propagate

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

    def mean_grades(self, grades: Floats) -> Floats:
        """Grades of all documents to those of the candidates."""
        total = np.bincount(self.owners, grades[self.documents], minlength=len(self.sizes))
        return np.asarray(total / self.sizes, np.float32)


def second_pass(
    memory: Memory, first: FirstPass, predict: Callable[[Floats], Floats], page: int = PAGE
) -> tuple[Signals, list[RankingCandidates]]:
    """From the first look to the candidates of each query, by way of the overlaps with judged
    queries that `predict` gives for the features of each pair.
    """
    neighbours, features = compare_with_judged(memory, first)
    overlap = predict(features.reshape(-1, features.shape[-1])).reshape(neighbours.shape)
    signals = first.signals | propagate(memory, neighbours, overlap)
    return signals, propose(memory.bundles, first, signals, overlap.max(1), page)


def propose(
    bundles: Bundles, first: FirstPass, signals: Signals, familiarity: Floats, page: int = PAGE
) -> list[RankingCandidates]:
    """`signals`: those of the first look and those that were propagated."""
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
        documents, owners = _documents(bundles, chosen, first.hybrid[row])
        found.append(
            RankingCandidates(
                features=_features(raw, of_query),
                sizes=bundles.sizes[chosen],
                documents=documents,
                owners=owners,
                zero_shot=zero_shot[row],
                familiarity=float(familiarity[row]),
            )
        )
    return found


def _documents(bundles: Bundles, chosen: Integers, hybrid: Floats) -> tuple[Integers, Integers]:
    place = np.full(len(bundles), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    owner = place[bundles.label]
    documents = np.flatnonzero(owner >= 0)
    documents = documents[np.lexsort((-hybrid[documents], owner[documents]))]
    return documents, owner[documents]


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

"""The bundles worth ranking for a query, and what the ranking trees see of each."""

from dataclasses import dataclass

import numpy as np

from assay.search.tuning.arrays import TINY, Floats, Integers, best_columns
from assay.search.tuning.bundles import Bundles
from assay.search.tuning.first_pass import FirstPass, Signals

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
# The best vector similarity but four: low where nothing in the collection is about the query.
CLOSENESS_RANK = 5


@dataclass(frozen=True)
class Candidates:
    """Of one query."""

    features: Floats
    """Candidate bundles by features."""
    sizes: Floats
    documents: Integers
    """Of all candidates, bundle after bundle; inside each the best zero-shot document first."""
    owners: Integers
    """The candidate that each document belongs to."""
    zero_shot: Integers
    """The best documents of the zero-shot ranking."""
    familiarity: float
    """The highest overlap that is predicted with any judged query."""

    def order(self, scores: Floats) -> Integers:
        """Places in `documents`, best first, when the candidates have these scores."""
        return np.argsort(-scores[self.owners], kind="stable")

    def mean_grades(self, grades: Floats) -> Floats:
        """Grades of all documents to those of the candidates."""
        total = np.bincount(self.owners, grades[self.documents], minlength=len(self.sizes))
        return np.asarray(total / self.sizes, np.float32)


def feature_names(signals: Signals) -> list[str]:
    names = list(signals)
    return [
        *names,
        *(f"{name}/max" for name in names),
        *(f"{name}/rank" for name in names),
        "query_length",
        "closeness",
    ]


def propose(
    bundles: Bundles, first: FirstPass, signals: Signals, familiarity: Floats, page: int = PAGE
) -> list[Candidates]:
    """`signals`: those of the first look and those that were propagated."""
    best = _proposed(signals)
    meaning = signals["meaning_best"]
    rank = min(CLOSENESS_RANK, meaning.shape[1])
    closeness = -np.partition(-meaning, rank - 1, axis=1)[:, rank - 1]
    zero_shot = best_columns(first.hybrid, page)
    found = []
    for row in range(len(best)):
        chosen = np.unique(best[row])
        of_query = np.array([first.questions.lengths[row], closeness[row]], np.float32)
        documents, owners = _documents(bundles, chosen, first.hybrid[row])
        found.append(
            Candidates(
                features=_features(
                    np.stack([scores[row, chosen] for scores in signals.values()]), of_query
                ),
                sizes=bundles.sizes[chosen],
                documents=documents,
                owners=owners,
                zero_shot=zero_shot[row],
                familiarity=float(familiarity[row]),
            )
        )
    return found


def _proposed(signals: Signals) -> Integers:
    """Queries by the best of each signal, unsorted: it only counts whether one is there."""
    scores = np.stack([signals[name] for name in PROPOSING], axis=1)
    depth = min(DEPTH, scores.shape[2])
    best = np.argpartition(-scores, depth - 1, axis=2)[:, :, :depth]
    return best.reshape(len(scores), -1)


def _documents(bundles: Bundles, chosen: Integers, hybrid: Floats) -> tuple[Integers, Integers]:
    place = np.full(len(bundles), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    owner = place[bundles.label]
    documents = np.flatnonzero(owner >= 0)
    documents = documents[np.lexsort((-hybrid[documents], owner[documents]))]
    return documents, owner[documents]


def _features(raw: Floats, of_query: Floats) -> Floats:
    """`raw`: signals by candidates."""
    order = np.argsort(-raw, axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(raw.shape[1])[None, :], axis=1)
    features = np.concatenate(
        [
            raw,
            raw / (raw.max(1, keepdims=True) + np.float32(TINY)),
            1 / (1 + ranks),
            np.broadcast_to(of_query[:, None], (len(of_query), raw.shape[1])),
        ]
    )
    return np.ascontiguousarray(features.T, np.float32)

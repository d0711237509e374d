"""Two signals become one ranking: the documents that a query brings up, and how they are mixed.

Each signal is divided by its best score for the query, and the two are mixed: the convex
combination with theoretical minima (both 0 here) of Bruch, Gai and Ingber, "An Analysis of Fusion
Functions for Hybrid Retrieval", 2023. Constants were chosen on NFCorpus dev and checked on SciFact
train.

A signal returns chunks; a document counts with its best one. Every candidate is scored by both
signals, whichever of them found it: to a fusion, a missing score is a guess.
"""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from assay.search.embedding import Vectors

Key = TypeVar("Key", str, int)

LEXICAL_WEIGHT = 0.35
# How many documents a signal proposes, and how many BM25 does to a fusion: further down, shared
# words are chance.
DEPTH = 100
LEXICAL_DEPTH = 50
# Feedback: the query vector moves towards the mean of the first documents (Rocchio's formula).
FEEDBACK_DOCUMENTS = 3
FEEDBACK_WEIGHT = 1.0
# A document that stands out counts for more than its score says: the others may be off the topic.
FEEDBACK_POWER = 3


def fuse(lexical: Mapping[str, float], dense: Mapping[str, float]) -> dict[str, float]:
    """Scores from 0 to 1 for every document that either signal knows."""
    words = _scale(LEXICAL_WEIGHT, max(lexical.values(), default=0.0))
    near = _scale(1 - LEXICAL_WEIGHT, max(dense.values(), default=0.0))
    # Loops over what there is: this is done for some hundred documents, twice a query.
    fused = {doc_id: words * score if score > 0 else 0.0 for doc_id, score in lexical.items()}
    for doc_id, score in dense.items():
        fused[doc_id] = fused.get(doc_id, 0.0) + (near * score if score > 0 else 0.0)
    return fused


def rocchio_feedback(
    query: Vectors, vectors: Sequence[Sequence[float] | Vectors], scores: Sequence[float]
) -> Vectors:
    """The query, moved towards the mean of what it found, weighted by scores."""
    mean = np.asarray(scores, np.float32) ** FEEDBACK_POWER @ np.asarray(vectors, np.float32)
    return unit(query + FEEDBACK_WEIGHT * unit(mean))


def unit(vector: Vectors) -> Vectors:
    """The vector with length 1."""
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Best first; equal scores in the order of document ids, so that it never depends on chance."""
    # Sorting is stable, in reverse too: equal scores keep the order of ids.
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)


def ranks_in(orders: Mapping[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    """The rank of each document in the order of each signal."""
    return {
        signal: {doc_id: rank for rank, doc_id in enumerate(order, 1)}
        for signal, order in orders.items()
    }


def _scale(weight: float, best: float) -> float:
    return weight / best if best > 0 else 0.0


def blend(trusted: Sequence[Key], other: Sequence[Key], trust: float) -> dict[Key, float]:
    """Reciprocal ranks in two rankings, the first with a weight of `trust`, from 0 to 1.

    What is first in both scores 1.
    """
    scores = {one: trust / rank for rank, one in enumerate(trusted, 1)}
    for rank, one in enumerate(other, 1):
        scores[one] = scores.get(one, 0.0) + (1 - trust) / rank
    return scores

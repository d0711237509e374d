"""Two signals become one ranking.

Each signal is divided by its best score for the query, and the two are mixed: the convex
combination with theoretical minima (both 0 here) of Bruch, Gai and Ingber, "An Analysis of Fusion
Functions for Hybrid Retrieval", 2023. Every candidate is scored by both signals, whichever of them
found it. Constants were chosen on NFCorpus dev and checked on SciFact train.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from assay.search.embedding import Vectors

LEXICAL_WEIGHT = 0.35
# How many documents a signal proposes, and how many BM25 does to a fusion: further down, shared
# words are chance.
DEPTH = 100
LEXICAL_DEPTH = 50
# Feedback: the query vector moves towards the mean of the first documents (Rocchio's formula).
FEEDBACK_DOCUMENTS = 3
FEEDBACK_WEIGHT = 1.0


def fuse(lexical: Mapping[str, float], dense: Mapping[str, float]) -> dict[str, float]:
    """Scores from 0 to 1 for every document that either signal knows."""
    lexical_best = max(lexical.values(), default=0.0)
    dense_best = max(dense.values(), default=0.0)
    return {
        doc_id: LEXICAL_WEIGHT * _share(lexical.get(doc_id, 0.0), lexical_best)
        + (1 - LEXICAL_WEIGHT) * _share(dense.get(doc_id, 0.0), dense_best)
        for doc_id in lexical.keys() | dense.keys()
    }


def moved(query: Vectors, vectors: Sequence[Sequence[float]], weights: Sequence[float]) -> Vectors:
    """The query, moved towards the weighted mean of what it found."""
    mean = np.asarray(weights, np.float32) @ np.asarray(vectors, np.float32)
    return unit(query + FEEDBACK_WEIGHT * unit(mean))


def unit(vector: Vectors) -> Vectors:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Best first; equal scores in the order of document ids, so that it never depends on chance."""
    return sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))


def _share(score: float, best: float) -> float:
    return max(0.0, score) / best if best > 0 else 0.0

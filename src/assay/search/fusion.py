"""Two signals become one ranking: the documents that a query brings up, and how they are mixed.

Each signal is divided by its best score for the query, and the two are mixed: the convex
combination with theoretical minima (both 0 here) of Bruch, Gai and Ingber, "An Analysis of Fusion
Functions for Hybrid Retrieval", 2023. Constants were chosen on NFCorpus dev and checked on SciFact
train.

A signal returns chunks; a document counts with its best one. Every candidate is scored by both
signals, whichever of them found it: to a fusion, a missing score is a guess.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from assay.search.bm25 import SparseVector
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition
from assay.search.store import Found, PointSearcher, point_id

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


# Of a document as long as a book, an engine scores this many chunks when another signal found it.
CHUNKS_SCORED = 64
# More than are needed, so that ties at the end seldom need a second look.
_TIES = 20

_Scores = dict[str, float]


class PointCandidates:
    """The candidates of one query, from an engine that is asked for points: see `Candidates`."""

    def __init__(self, searcher: PointSearcher, where: Sequence[FilterCondition] = ()) -> None:
        self._searcher, self._where = searcher, where
        self._chunks: dict[str, int] = {}
        self._best_chunk: dict[str, int] = {}
        self._found_by: dict[str, list[str]] = {}

    def lexical(self, query: SparseVector, depth: int = DEPTH) -> _Scores:
        """The best of the documents that share a word with the query.

        An engine breaks ties as it likes: all documents that tie with the last one are asked for.
        """
        if not query:
            return {}
        limit = depth + _TIES
        while True:
            found = self._searcher.nearest("bm25", query, limit, where=self._where)
            if len(found) < limit or found[-1].score < found[depth - 1].score:
                break
            limit *= 4
        scores = self._by_document(found)
        order = ranked(scores)[:depth]
        self._found_by["bm25"] = order
        return {doc_id: scores[doc_id] for doc_id in order}

    def dense(self, vector: Vectors, *, signal: str = "dense") -> _Scores:
        """The nearest documents; where they have many chunks, more chunks are asked for."""
        limit = 2 * DEPTH
        while True:
            found = self._searcher.nearest("dense", vector, limit, where=self._where)
            scores = self._by_document(found, self._best_chunk)
            if len(scores) >= DEPTH or len(found) < limit:
                break
            limit *= 4
        order = ranked(scores)[:DEPTH]
        self._found_by[signal] = order
        return {doc_id: scores[doc_id] for doc_id in order}

    def lexical_of(self, doc_ids: Iterable[str], query: SparseVector) -> _Scores:
        """Documents that another signal found."""
        among = [point_id(doc_id, 0) for doc_id in sorted(doc_ids)]
        if not query or not among:
            return {}
        return self._by_document(self._searcher.nearest("bm25", query, len(among), among=among))

    def dense_of(self, doc_ids: Collection[str], vector: Vectors) -> _Scores:
        """Documents that another signal, or none, found."""
        if unknown := [point_id(one, 0) for one in doc_ids if one not in self._chunks]:
            for stored in self._searcher.fetch(unknown):
                self._chunks[stored.payload["doc_id"]] = stored.payload["total_chunks"]
        among = [
            point_id(doc_id, chunk)
            for doc_id in sorted(doc_ids)
            for chunk in range(min(self._chunks.get(doc_id, 0), CHUNKS_SCORED))
        ]
        if not among:
            return {}
        found = self._searcher.nearest("dense", vector, len(among), among=among)
        return self._by_document(found, self._best_chunk)

    def ranks(self) -> dict[str, dict[str, int]]:
        """Of each document in each signal that found it."""
        return ranks_in(self._found_by)

    def best_chunks(self, doc_ids: Iterable[str]) -> dict[str, int]:
        """Of documents with a dense score, the chunk that it is of."""
        return {one: self._best_chunk[one] for one in doc_ids if one in self._best_chunk}

    def chunks_of(self, doc_id: str) -> int:
        """How many chunks the document has."""
        return self._chunks[doc_id]

    def vectors(self, doc_ids: Sequence[str]) -> dict[str, Sequence[float]]:
        """Of each document's best chunk; a server may have dropped it since it was found."""
        ids = {one: point_id(one, self._best_chunk.get(one, 0)) for one in doc_ids}
        fetched = self._searcher.fetch(list(ids.values()), vectors=True)
        stored = {one.id: one.dense for one in fetched}
        return {one: stored[key] for one, key in ids.items() if key in stored}

    def _by_document(
        self, found: Iterable[Found], best_chunk: dict[str, int] | None = None
    ) -> _Scores:
        """Best first comes in, so the first chunk of a document is its best."""
        scores: _Scores = {}
        for one in found:
            if one.doc_id not in scores:
                scores[one.doc_id] = one.score
                self._chunks[one.doc_id] = one.total_chunks
                if best_chunk is not None:
                    best_chunk[one.doc_id] = one.chunk_index
        return scores


def blend(trusted: Sequence[Key], other: Sequence[Key], trust: float) -> dict[Key, float]:
    """Reciprocal ranks in two rankings, the first with a weight of `trust`, from 0 to 1.

    What is first in both scores 1.
    """
    scores = {one: trust / rank for rank, one in enumerate(trusted, 1)}
    for rank, one in enumerate(other, 1):
        scores[one] = scores.get(one, 0.0) + (1 - trust) / rank
    return scores

"""Postings of BM25: for each term the rows that have it, and what scoring them takes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.search.bm25 import SparseVector

_Array = NDArray[Any]


@dataclass(frozen=True)
class Postings:
    """For each term, the rows that have it and its weight in each.

    Rows are numbered in the order of their ids, so that `best_rows` breaks ties by these.
    """

    terms: _Array
    """Hashes, in order."""
    ends: _Array
    """Where the postings of each term end."""
    rows: _Array
    weights: _Array

    def span(self, term: int) -> tuple[int, int] | None:
        """Where the postings of a term are; None for a term that no row has."""
        place = int(np.searchsorted(self.terms, np.uint32(term)))
        if place == len(self.terms) or self.terms[place] != term:
            return None
        return int(self.ends[place - 1]) if place else 0, int(self.ends[place])

    def scores(self, query: SparseVector, size: int, steps: int = 1) -> NDArray[np.float32]:
        """The score of each of `size` rows; 0 for one without a word of the query.

        Exact whatever the order of the terms, as weights are rounded to steps.

        Parameters:
            query: the weight of each term in the query.
            size: how many rows there are.
            steps: a power of two, which the weights are divided by.
        """
        scores = np.zeros(size, np.float32)
        for term, value in zip(query.indices, query.values, strict=True):
            start, end = self.span(term) or (0, 0)
            scores[self.rows[start:end]] += self.weights[start:end] * np.float32(value / steps)
        return scores


def best_rows(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The rows of the highest scores, best first; of equal ones the lower row."""
    rows = np.arange(len(scores))
    if 0 < count < len(scores):
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        rows = np.flatnonzero(scores >= least)
    return np.asarray(rows[np.argsort(-scores[rows], kind="stable")][:count], np.int64)

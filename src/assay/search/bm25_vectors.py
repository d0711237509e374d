"""BM25 as sparse vectors: term weights here, IDF by Qdrant's modifier at query time.

The embedded engine's own BM25 makes the vectors for a server too, so that both rank alike.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import qdrant_edge

from assay.search.plain_text import plain

# The textbook's values; on NFCorpus dev nothing between k 0.6 and 2.0, b 0.2 and 0.9 is better.
K = 1.2
B = 0.75
# The share of English words that are no stop words, which BM25 does not count.
_CONTENT = 0.6


@dataclass(frozen=True, slots=True)
class SparseVector:
    indices: list[int]
    values: list[float]

    def __bool__(self) -> bool:
        return bool(self.indices)


class Bm25Encoder:
    """`average_length` belongs to the corpus: see `average_length`."""

    def __init__(self, average_length: float) -> None:
        config = qdrant_edge.Bm25Config(k=K, b=B, avg_len=average_length, language="english")
        self._bm25 = qdrant_edge.Bm25(config)
        self.settings = f"bm25 k={K} b={B} length={average_length:g} english"

    def document(self, text: str) -> SparseVector:
        vector = self._bm25.embed_document(plain(text))
        return SparseVector(vector.indices, vector.values)

    def query(self, text: str) -> SparseVector:
        vector = self._bm25.embed_query(plain(text))
        return SparseVector(vector.indices, vector.values)


def average_length(texts: Iterable[str]) -> float:
    """Rounded to a power of the square root of 2, so that a few changed documents leave the
    vectors of all others as they are.
    """
    lengths = [len(text.split()) for text in texts]
    mean = max(1.0, _CONTENT * sum(lengths) / max(1, len(lengths)))
    return round(2 ** (round(2 * math.log2(mean)) / 2), 1)


def overlap(document: SparseVector, query: SparseVector) -> float:
    """The share of a query's terms that a text has, weighted as in the text."""
    weights = dict(zip(document.indices, document.values, strict=True))
    return sum(weights.get(index, 0.0) for index in query.indices)

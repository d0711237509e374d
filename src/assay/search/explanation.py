"""`assay search --explain`: why a document has its rank."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from assay.search.bm25 import Bm25Model, SparseVector
from assay.search.embedding import Vectors
from assay.search.fusion import LEXICAL_WEIGHT
from assay.search.store import Searcher


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A judged query that spoke for a document. `overlap`: predicted, from 0 to 1."""

    query_id: str
    overlap: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a document's score is made of.

    Parameters:
        shares: of each signal in the score; they add up to it where the mode is a sum. For hybrid:
            `bm25` (shared words), `dense` (near to the query) and `feedback` (near to the
            documents in `feedback`).
        terms: what each word of the query, as BM25 counts it, adds to the BM25 score.
        feedback: the documents that the query was moved towards, best first.
        judged: for tuned, the judged queries that spoke for the document, most alike first.
    """

    shares: Mapping[str, float] = field(default_factory=dict)
    terms: Mapping[str, float] = field(default_factory=dict)
    feedback: tuple[str, ...] = ()
    judged: tuple[JudgedQuery, ...] = ()


@dataclass(frozen=True, slots=True)
class FusionTrace:
    """How hybrid came to its scores.

    Parameters:
        lexical: BM25 scores of the candidates.
        dense: their cosines with the moved query.
        scale: what the mixture is multiplied by.
        query: the query's vector, in the metric of the index.
        moved: the same, moved towards the feedback documents.
        feedback: their ids.
    """

    lexical: Mapping[str, float]
    dense: Mapping[str, float]
    scale: float
    query: Vectors
    moved: Vectors
    feedback: tuple[str, ...]

    def shares(self, doc_id: str, vector: Vectors) -> dict[str, float]:
        """What each signal adds to the score of a document, whose best chunk has this vector."""
        words = self.scale * LEXICAL_WEIGHT / max([*self.lexical.values(), 1e-12])
        near = self.scale * (1 - LEXICAL_WEIGHT) / max([*self.dense.values(), 1e-12])
        cosine = max(0.0, self.dense.get(doc_id, 0.0))
        # The moved query is (query + feedback) / n, both of length 1, so n is twice its cosine
        # with the query: this much of its cosine with the document is the query's own.
        both = 2 * float(self.moved @ self.query) * float(self.moved @ vector)
        own = min(1.0, max(0.0, float(self.query @ vector) / both)) if both > 0 else 0.0
        return {
            "bm25": words * max(0.0, self.lexical.get(doc_id, 0.0)),
            "dense": near * cosine * own,
            "feedback": near * cosine * (1 - own),
        }


def term_shares(
    searcher: Searcher, model: Bm25Model, text: str, doc_ids: Sequence[str]
) -> dict[str, dict[str, float]]:
    """What each word of the query adds to the BM25 score of these documents.

    The index is asked word by word: it has the weights, and a chunk has only a part of the text.
    """
    query = model.query(text)
    values = dict(zip(query.indices, query.values, strict=True))
    found: dict[str, dict[str, float]] = {doc_id: {} for doc_id in doc_ids}
    for term in dict.fromkeys(model.terms(text)):
        index = zlib.crc32(term.encode())
        if index not in values:
            continue
        word = SparseVector([index], [values[index]])
        for doc_id, score in searcher.candidates().lexical_of(doc_ids, word).items():
            if score > 0:
                found[doc_id][term] = float(np.float32(score))
    return found

"""One call for every way to search: BM25, dense, both fused, or a tuned model.

Constants were chosen on NFCorpus dev and checked on SciFact train.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from assay.data.dataset import Document
from assay.errors import SearchError, UsageError
from assay.net.json import JsonObject
from assay.search import MODES, Mode
from assay.search.bm25 import QUERY_CHARACTERS, Bm25Index, Bm25Model
from assay.search.chunks import shown_text
from assay.search.embedding import Embedder, Vectors
from assay.search.filters import conditions, meets
from assay.search.store import Index, Near, Place, StoredChunk
from assay.text import strip_controls

if TYPE_CHECKING:
    from assay.search.tuning.model import TunedRanker  # brings scipy

MAX_TOP_K = 100
# The BM25 score that maps to 0.5: BM25 has no upper end
BM25_MIDPOINT = 4.5
LEXICAL_WEIGHT = 0.35
# How many documents a signal proposes
DEPTH = 100
# How many BM25 proposes to a fusion: further down, shared words are chance
LEXICAL_DEPTH = 50
# The query vector moves towards the mean of the first documents (Rocchio's formula).
FEEDBACK_DOCUMENTS = 3
FEEDBACK_WEIGHT = 1.0
# A document that stands out counts for more than its score says: the others may be off the topic.
FEEDBACK_POWER = 3

_Key = TypeVar("_Key", str, int)
# The documents that meet a filter; None without one.
_Allowed = Collection[str] | None


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A document, shown by its best chunk. `signals`: its rank in each signal that found it."""

    doc_id: str
    score: float
    title: str
    text: str
    chunk_index: int = 0
    total_chunks: int = 1
    metadata: Mapping[str, Any] = field(default_factory=dict)
    signals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Document ids best first, their scores, their best chunks, and their ranks in each signal."""

    order: Sequence[str]
    scores: Mapping[str, float]
    chunks: Mapping[str, int]
    signals: Mapping[str, dict[str, int]]


class Retriever:
    """Searches the documents of one data set; safe to use from several threads at once.

    Without an `index`, which has the vectors, there is only mode bm25. `ranker`: for mode tuned;
    its numbers are the places of the documents in the data set. It may be set later.
    """

    def __init__(
        self,
        documents: Mapping[str, Document],
        words: Bm25Index,
        index: Index | None = None,
        embedder: Embedder | None = None,
        mode: Mode = "hybrid",
        *,
        ranker: "TunedRanker | None" = None,
    ) -> None:
        self._documents, self._words, self._index = documents, words, index
        self._embedder, self._mode, self.ranker = embedder, mode, ranker

    @property
    def bm25(self) -> Bm25Model:
        """Settings, and what is known of the words of the documents."""
        return self._words.model

    def close(self) -> None:
        """Release the index: its files and connections close when nothing else uses it."""
        self._index = None

    def __enter__(self) -> "Retriever":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def search(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Mode | None = None,
        filters: Mapping[str, object] | None = None,
    ) -> list[SearchHit]:
        """Best first, at most `top_k`; scores from 0 to 1, equal ones in the order of ids.

        `mode`: another one than the retriever was opened with, if its index allows that.
        """
        chosen = check_request(query, top_k, mode or self._mode)
        return self._hits(self._rank(readable_query(query), top_k, chosen, self._allowed(filters)))

    @property
    def _vectors(self) -> Index:
        if self._index is None:
            raise UsageError("this index has words and no vectors: search it with mode bm25")
        return self._index

    def _allowed(self, filters: Mapping[str, object] | None) -> _Allowed:
        if not (wanted := conditions(filters)):
            return None
        return {doc_id for doc_id, about in self._metadata.items() if meets(wanted, about)}

    @cached_property
    def _metadata(self) -> dict[str, JsonObject]:
        """Of each document, parsed once: every filter asks about all of them."""
        return {one.id: plain_metadata(one) for one in self._documents.values()}

    def _rank(self, text: str, top_k: int, mode: Mode, allowed: _Allowed) -> _Ranking:
        if mode == "bm25":
            return self._lexical(text, top_k, allowed)
        index, vector = self._vectors, self._query_vector(text)
        if mode == "tuned":
            return self._tuned(text, vector, top_k, allowed)
        vector = index.manifest.metric.apply(vector)
        if mode == "hybrid":
            return self._hybrid(text, vector, top_k, allowed)
        near = index.nearest(vector, top_k, among=allowed)
        chunks = {doc_id: one.chunk for doc_id, one in near.items()}
        return _Ranking(list(near), _cosines(near), chunks, _ranks(near, dense=near))

    def _query_vector(self, text: str) -> Vectors:
        assert self._embedder is not None, "an index of vectors comes with its embedder"
        vectors = self._embedder.embed([self._embedder.prompts.query + text])
        return np.asarray(vectors[0], np.float32)

    def _lexical(self, text: str, top_k: int, allowed: _Allowed) -> _Ranking:
        query = self._words.query(text)
        found = self._words.find(query, top_k, among=allowed)
        scores = {doc_id: score / (score + BM25_MIDPOINT) for doc_id, score in found.items()}
        # BM25 is of whole documents: of their chunks, the one with most of the words is shown.
        first = self._index.chunks((doc_id, 0) for doc_id in found) if self._index else {}
        several = [(place[0], one.total) for place, one in first.items() if one.total > 1]
        places = [(doc_id, chunk) for doc_id, total in several for chunk in range(total)]
        passages = [(*at, text) for at, (_, text) in self._shown(places).items()]
        best = [(self._words.score_text(text, query), -chunk, one) for one, chunk, text in passages]
        chunks = {doc_id: -chunk for _, chunk, doc_id in sorted(best)}  # the last one stays
        return _Ranking(list(found), scores, chunks, _ranks(found, bm25=found))

    def _hybrid(self, text: str, vector: Vectors, top_k: int, allowed: _Allowed) -> _Ranking:
        """BM25 and dense in two rounds: feedback from the first results refines the query."""
        query, bm25, index = self._words.query(text), self._words, self._vectors
        lexical = bm25.find(query, LEXICAL_DEPTH, among=allowed)
        dense = index.nearest(vector, DEPTH, among=allowed)
        # Both signals for every candidate of a round: to a fusion, a missing score is a guess.
        words = lexical | bm25.find(query, among=dense.keys() - lexical.keys())
        near = dense | index.nearest(vector, among=lexical.keys() - dense.keys())
        first = fuse(words, _cosines(near))
        places = [(doc_id, near[doc_id].chunk) for doc_id in ranked(first)[:FEEDBACK_DOCUMENTS]]
        stored = index.chunks(places, vectors=True)
        best = {place[0]: stored[place].vector for place in places if place in stored}
        if not best:
            return _Ranking((), {}, {}, {})
        again = rocchio_feedback(vector, list(best.values()), [first[doc_id] for doc_id in best])
        nearer = index.nearest(again, DEPTH, among=allowed)
        words |= bm25.find(query, among=nearer.keys() - near.keys())
        both = {one: words[one] for one in nearer.keys() | lexical.keys() if one in words}
        near = nearer | index.nearest(again, among=lexical.keys() - nearer.keys())
        fused = fuse(both, _cosines(near))
        # In proportion to the query's own best cosine: if nothing is near, scores are low.
        scale = max(_cosines(dense).values())
        order = ranked(fused)[:top_k]
        return _Ranking(
            order,
            {doc_id: scale * score for doc_id, score in fused.items()},
            {doc_id: near[doc_id].chunk for doc_id in order if doc_id in near},
            _ranks(order, bm25=lexical, dense=dense, feedback=nearer),
        )

    def _tuned(self, text: str, vector: Vectors, top_k: int, allowed: _Allowed) -> _Ranking:
        if self.ranker is None:
            raise SearchError("there is no tuned ranking for this index yet; run: assay tune")
        ids, index = self._words.ids, self._vectors
        most = MAX_TOP_K if allowed is None else len(ids)
        learned, trust = self.ranker.rank(text, vector, most)
        vector = index.manifest.metric.apply(vector)
        if trust <= 0:
            return self._hybrid(text, vector, top_k, allowed)
        scores = {ids[place]: score for place, score in learned.items()}
        order = [doc_id for doc_id in scores if allowed is None or doc_id in allowed][:MAX_TOP_K]
        signals = _ranks(order, tuned=order)
        if trust < 1:
            untuned = self._hybrid(text, vector, MAX_TOP_K, allowed)
            scores = blend(order, untuned.order, trust)
            for doc_id in scores:
                by_hybrid = untuned.signals.get(doc_id, {})
                signals[doc_id] = signals.get(doc_id, {}) | by_hybrid
            order = ranked(scores)
        order = order[:top_k]
        chunks = {one: near.chunk for one, near in index.nearest(vector, among=order).items()}
        return _Ranking(order, scores, chunks, signals)

    def _hits(self, ranking: _Ranking) -> list[SearchHit]:
        places = [(doc_id, ranking.chunks.get(doc_id, 0)) for doc_id in ranking.order]
        hits = []
        for (doc_id, chunk), (total, text) in self._shown(places).items():
            document = self._documents[doc_id]
            hits.append(
                SearchHit(
                    doc_id=doc_id,
                    score=min(1.0, max(0.0, ranking.scores[doc_id])),
                    title=strip_controls(document.title),
                    text=text,
                    chunk_index=chunk,
                    total_chunks=total,
                    metadata=plain_metadata(document),
                    signals=ranking.signals.get(doc_id, {}),
                )
            )
        return hits

    def _shown(self, places: Sequence[Place]) -> dict[Place, tuple[int, str]]:
        """Of each chunk, how many its document has, and the text; in the order of `places`."""
        stored = self._index.chunks(places) if self._index else {}
        shown = {}
        for place in places:
            span, total, _ = stored.get(place, StoredChunk((0, 0), 1))
            shown[place] = total, shown_text(self._documents[place[0]], span, total)
        return shown


def plain_metadata(document: Document) -> JsonObject:
    """The metadata of a document as JSON can hold it, without control characters."""
    values = document.metadata.values()
    if all(type(one) is int or (type(one) is str and one.isprintable()) for one in values):
        return dict(document.metadata)  # the usual ones, without a way through JSON
    text = json.dumps(dict(document.metadata), ensure_ascii=False, default=str)
    metadata: JsonObject = json.loads(strip_controls(text))
    return metadata


def fuse(lexical: Mapping[str, float], dense: Mapping[str, float]) -> dict[str, float]:
    """Scores from 0 to 1 for every document that either signal knows: the mix of both, each divided
    by its best (Bruch, Gai and Ingber 2023, "An Analysis of Fusion Functions").
    """
    # Nothing above 0 is worth nothing, whatever it is divided by.
    words = LEXICAL_WEIGHT / (max(lexical.values(), default=0.0) or 1.0)
    near = (1 - LEXICAL_WEIGHT) / (max(dense.values(), default=0.0) or 1.0)
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
    return _unit(query + FEEDBACK_WEIGHT * _unit(mean))


def _unit(vector: Vectors) -> Vectors:
    return np.asarray(vector / max(float(np.linalg.norm(vector)), 1e-12), np.float32)


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Best first; equal scores in the order of document ids, so that it never depends on chance."""
    # Sorting is stable, in reverse too: equal scores keep the order of ids.
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)


def blend(trusted: Sequence[_Key], other: Sequence[_Key], trust: float) -> dict[_Key, float]:
    """Reciprocal ranks in two rankings, the first with a weight of `trust`, from 0 to 1."""
    # By ranks: the scores of trees and of a fusion have no scale in common.
    scores = {one: trust / rank for rank, one in enumerate(trusted, 1)}
    for rank, one in enumerate(other, 1):
        scores[one] = scores.get(one, 0.0) + (1 - trust) / rank
    return scores


def _cosines(near: Mapping[str, Near]) -> dict[str, float]:
    return {doc_id: one.score for doc_id, one in near.items()}


def _ranks(shown: Iterable[str], **orders: Iterable[str]) -> dict[str, dict[str, int]]:
    """For each document that is shown, its rank in the order of each signal that has it."""
    found: dict[str, dict[str, int]] = {doc_id: {} for doc_id in shown}
    for signal, order in orders.items():
        for rank, doc_id in enumerate(order, 1):
            if doc_id in found:
                found[doc_id][signal] = rank
    return found


def check_request(query: str, top_k: int, mode: str) -> Mode:
    """Raise `UsageError` for a search that cannot be answered, before anything is loaded."""
    if not 1 <= top_k <= MAX_TOP_K:
        raise UsageError(f"top_k must be from 1 to {MAX_TOP_K}, got {top_k}")
    if not readable_query(query):
        raise UsageError("the query is empty; pass at least one word")
    if mode not in MODES:
        raise UsageError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")
    return mode


def readable_query(query: str) -> str:
    """What of a query is searched for: no control characters, and not more than fits."""
    return strip_controls(query[:QUERY_CHARACTERS]).strip()

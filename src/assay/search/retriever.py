"""One call for every way to search: BM25, dense, both fused, or a tuned model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from assay.errors import SearchError, UsageError
from assay.search.bm25 import QUERY_CHARACTERS, SparseVector
from assay.search.embedding import Embedder, Vectors
from assay.search.explanation import Explanation, FusionTrace, JudgedQuery, term_shares
from assay.search.filters import FilterCondition, conditions
from assay.search.fusion import (
    FEEDBACK_DOCUMENTS,
    LEXICAL_DEPTH,
    blend,
    fuse,
    ranked,
    rocchio_feedback,
)
from assay.search.modes import MODES, Mode
from assay.search.store import Candidates, Manifest, Searcher, StoredChunk
from assay.text import strip_controls


class Ranked(NamedTuple):
    """A document by its place in the index, with a score from 0 to 1."""

    document: int
    score: float
    signals: Mapping[str, int]
    """The document's rank for each kind of evidence that brought it up."""


class LearnedRanking(NamedTuple):
    """What a learned ranking says about a query.

    `trust`, from 0 to 1: how far the query is like those that it learned from. The rest of the
    weight is the zero-shot ranking's.
    """

    documents: Sequence[Ranked]
    trust: float = 1.0


class Ranker(Protocol):
    """A ranking that was learned from judgments."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits whose judgments it learned from."""
        ...

    def rank(
        self, query_text: str, query_vector: NDArray[np.float32], top_k: int
    ) -> LearnedRanking:
        """The documents for a query, best first."""
        ...

    def judged_for(
        self, query_text: str, query_vector: NDArray[np.float32], documents: Sequence[int]
    ) -> list[tuple[JudgedQuery, ...]]:
        """For each document, the judged queries that spoke for it, most alike first."""
        ...


MAX_TOP_K = 100
BM25_MIDPOINT = 4.5
"""The BM25 score that maps to 0.5: BM25 has no upper end."""


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
    """Document ids best first, their scores, their best chunks, and the rank of
    documents in each signal.
    """

    order: Sequence[str]
    scores: Mapping[str, float]
    chunks: Mapping[str, int]
    signals: Mapping[str, Mapping[str, int]]
    trace: FusionTrace | None = None
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Where the score is a blend of rankings: by document, what each of them adds."""


class Retriever:
    """Searches one index in every mode; safe to use from several threads at once."""

    def __init__(
        self,
        searcher: Searcher,
        embedder: Embedder | None,
        *,
        ranker: Ranker | None = None,
        doc_ids: Sequence[str] = (),
    ) -> None:
        self._searcher, self._embedder = searcher, embedder
        self._ranker, self._doc_ids = ranker, doc_ids
        self._bm25 = searcher.manifest.bm25

    def with_ranking(self, ranker: Ranker, doc_ids: Sequence[str]) -> "Retriever":
        """The same index with a tuned mode; `doc_ids`: what the ranker's numbers mean."""
        return Retriever(self._searcher, self._embedder, ranker=ranker, doc_ids=doc_ids)

    @property
    def manifest(self) -> Manifest:
        """What the index was made of, and how."""
        return self._searcher.manifest

    @property
    def learned_from(self) -> tuple[str, ...]:
        """The splits whose judgments the tuned mode knows; empty without that mode."""
        return self._ranker.splits if self._ranker is not None else ()

    def close(self) -> None:
        """Close the index."""
        self._searcher.close()

    def __enter__(self) -> "Retriever":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def search(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Mode = "hybrid",
        filters: Mapping[str, object] | None = None,
    ) -> list[SearchHit]:
        """Best first, at most `top_k`; scores from 0 to 1, equal ones in the order of ids."""
        check_request(query, top_k, mode)
        return self._hits(self._rank(readable_query(query), top_k, mode, conditions(filters)))

    def explain(
        self,
        query: str,
        top_k: int = 10,
        *,
        mode: Mode = "hybrid",
        filters: Mapping[str, object] | None = None,
    ) -> list[tuple[SearchHit, Explanation]]:
        """What `search` returns, each with what its score is made of; takes a little longer."""
        check_request(query, top_k, mode)
        text = readable_query(query)
        ranking = self._rank(text, top_k, mode, conditions(filters))
        hits = self._hits(ranking)
        doc_ids = [hit.doc_id for hit in hits]
        words = term_shares(self._searcher, self._bm25, text, doc_ids) if mode != "dense" else {}
        chunks = [(hit.doc_id, hit.chunk_index) for hit in hits]
        stored = self._searcher.fetch(chunks, vectors=True)
        judged = self._judged(text, doc_ids) if mode == "tuned" and ranking.trace is None else {}
        return [
            (
                hit,
                Explanation(
                    shares=_shares(ranking, hit, mode, stored[place].vector),
                    terms=words.get(hit.doc_id, {}),
                    feedback=ranking.trace.feedback if ranking.trace else (),
                    judged=judged.get(hit.doc_id, ()),
                ),
            )
            for hit, place in zip(hits, chunks, strict=True)
        ]

    def _rank(
        self, text: str, top_k: int, mode: Mode, where: Sequence[FilterCondition]
    ) -> _Ranking:
        if mode == "bm25":
            return self._lexical(text, top_k, where)
        vector = self._query_vector(text)
        if mode == "dense":
            return self._dense(self._project(vector), top_k, where)
        if mode == "hybrid":
            return self._hybrid(text, self._project(vector), top_k, where)
        return self._tuned(text, vector, top_k, where)

    def _query_vector(self, text: str) -> Vectors:
        if self._embedder is None:
            raise UsageError("this index has words and no vectors: search it with mode bm25")
        vectors = self._embedder.embed([self._embedder.prompts.query + text])
        return np.asarray(vectors[0], np.float32)

    def _judged(self, text: str, doc_ids: Sequence[str]) -> dict[str, tuple[JudgedQuery, ...]]:
        assert self._ranker is not None
        places = {doc_id: place for place, doc_id in enumerate(self._doc_ids)}
        found = self._ranker.judged_for(
            text, self._query_vector(text), [places[doc_id] for doc_id in doc_ids]
        )
        return dict(zip(doc_ids, found, strict=True))

    def _project(self, vector: Vectors) -> Vectors:
        """Apply the index's metric to a query vector."""
        metric = self._searcher.manifest.metric
        return metric.apply(vector) if metric else vector

    def _lexical(self, text: str, top_k: int, where: Sequence[FilterCondition]) -> _Ranking:
        query = self._bm25.query(text)
        candidates = self._searcher.candidates(where)
        scores = {
            doc_id: score / (score + BM25_MIDPOINT)
            for doc_id, score in candidates.lexical(query).items()
        }
        order = ranked(scores)[:top_k]
        chunks = self._lexical_chunks(order, candidates, query)
        return _Ranking(order, scores, chunks, candidates.ranks())

    def _dense(self, vector: Vectors, top_k: int, where: Sequence[FilterCondition]) -> _Ranking:
        candidates = self._searcher.candidates(where)
        scores = candidates.dense(vector)
        order = ranked(scores)[:top_k]
        return _Ranking(order, scores, candidates.best_chunks(order), candidates.ranks())

    def _hybrid(
        self, text: str, vector: Vectors, top_k: int, where: Sequence[FilterCondition]
    ) -> _Ranking:
        """BM25 and dense in two rounds: feedback from the first results refines the query."""
        query = self._bm25.query(text)
        candidates = self._searcher.candidates(where)
        lexical, dense = candidates.lexical(query, LEXICAL_DEPTH), candidates.dense(vector)
        # Both signals for every candidate of the first round: a missing score is a guess.
        words = lexical | candidates.lexical_of(dense.keys() - lexical.keys(), query)
        first = fuse(words, dense | candidates.dense_of(lexical.keys() - dense.keys(), vector))
        best = candidates.vectors(ranked(first)[:FEEDBACK_DOCUMENTS])
        if not best:
            return _Ranking((), {}, {}, {})
        again = rocchio_feedback(vector, list(best.values()), [first[doc_id] for doc_id in best])
        nearer = candidates.dense(again, signal="feedback")
        both = {one: words[one] for one in nearer.keys() | lexical.keys() if one in words}
        both |= candidates.lexical_of(nearer.keys() - dense.keys() - lexical.keys(), query)
        near = nearer | candidates.dense_of(lexical.keys() - nearer.keys(), again)
        fused = fuse(both, near)
        # In proportion to the query's own best cosine: if nothing is near, scores are low.
        scale = max(dense.values())
        scores = {doc_id: scale * score for doc_id, score in fused.items()}
        order = ranked(fused)[:top_k]
        trace = FusionTrace(both, near, scale, vector, again, tuple(best))
        return _Ranking(order, scores, candidates.best_chunks(order), candidates.ranks(), trace)

    def _tuned(
        self, text: str, vector: Vectors, top_k: int, where: Sequence[FilterCondition]
    ) -> _Ranking:
        if self._ranker is None:
            raise SearchError("there is no tuned ranking for this index yet; run: assay tune")
        found = self._ranker.rank(text, vector, len(self._doc_ids) if where else MAX_TOP_K)
        vector = self._project(vector)
        if found.trust <= 0:
            return self._hybrid(text, vector, top_k, where)
        ranking = {self._doc_ids[one.document]: one for one in found.documents}
        order = self._allowed(list(ranking), where)[:MAX_TOP_K]
        scores = {doc_id: ranking[doc_id].score for doc_id in order}
        other: Mapping[str, Mapping[str, int]] = {}
        shares: dict[str, dict[str, float]] = {}
        if found.trust < 1:
            untuned = self._hybrid(text, vector, MAX_TOP_K, where)
            scores = blend(order, untuned.order, found.trust)
            learned = blend(order, (), found.trust)
            for doc_id, score in scores.items():
                own = learned.get(doc_id, 0.0)
                shares[doc_id] = {"tuned": own, "hybrid": score - own}
            other = untuned.signals
        order = ranked(scores)[:top_k] if shares else order[:top_k]
        signals = {**_evidence(ranking, order), **other}
        candidates = self._searcher.candidates()
        candidates.dense_of(order, vector)
        return _Ranking(order, scores, candidates.best_chunks(order), signals, shares=shares)

    def _allowed(self, doc_ids: list[str], where: Sequence[FilterCondition]) -> list[str]:
        if not where:
            return doc_ids
        allowed = self._searcher.matching(doc_ids, where)
        return [doc_id for doc_id in doc_ids if doc_id in allowed]

    def _lexical_chunks(
        self, order: Sequence[str], candidates: Candidates, query: SparseVector
    ) -> dict[str, int]:
        """BM25 is of whole documents: of their chunks, the one with most of the words is shown."""
        places = [
            (doc_id, chunk)
            for doc_id in order
            if candidates.chunks_of(doc_id) > 1
            for chunk in range(candidates.chunks_of(doc_id))
        ]
        best: dict[str, tuple[float, int]] = {}
        for (doc_id, chunk), stored in self._searcher.fetch(places).items():
            found = (self._bm25.score(stored.text, query), -chunk)
            best[doc_id] = max(found, best.get(doc_id, found))
        return {doc_id: -chunk for doc_id, (_, chunk) in best.items()}

    def _hits(self, ranking: _Ranking) -> list[SearchHit]:
        places = [(doc_id, ranking.chunks.get(doc_id, 0)) for doc_id in ranking.order]
        stored = self._searcher.fetch(places)
        return [
            _hit(stored[place], ranking.scores[place[0]], ranking.signals)
            for place in places
            if place in stored
        ]


def _hit(chunk: StoredChunk, score: float, ranks: Mapping[str, Mapping[str, int]]) -> SearchHit:
    return SearchHit(
        doc_id=chunk.doc_id,
        score=min(1.0, max(0.0, score)),
        title=chunk.title,
        text=chunk.text,
        chunk_index=chunk.chunk_index,
        total_chunks=chunk.total_chunks,
        metadata=chunk.metadata,
        signals={
            signal: order[chunk.doc_id] for signal, order in ranks.items() if chunk.doc_id in order
        },
    )


def _shares(
    ranking: _Ranking, hit: SearchHit, mode: Mode, vector: Sequence[float] | Vectors
) -> dict[str, float]:
    if ranking.trace is not None and len(vector):
        return ranking.trace.shares(hit.doc_id, np.asarray(vector, np.float32))
    return dict(ranking.shares.get(hit.doc_id, {mode: hit.score}))


def _evidence(ranking: Mapping[str, Ranked], order: Sequence[str]) -> dict[str, dict[str, int]]:
    """The rank of each document by kind of evidence, as other rankings have it by signal."""
    ranks: dict[str, dict[str, int]] = {}
    for doc_id in order:
        for kind, rank in ranking[doc_id].signals.items() if doc_id in ranking else ():
            ranks.setdefault(kind, {})[doc_id] = rank
    return ranks


def check_request(query: str, top_k: int, mode: str) -> Mode:
    """Raise `UsageError` for a search that cannot be answered, before anything is loaded."""
    if not 1 <= top_k <= MAX_TOP_K:
        raise UsageError(f"top_k must be from 1 to {MAX_TOP_K}, got {top_k}")
    if not readable_query(query):
        raise UsageError("the query is empty; pass at least one word")
    for known in MODES:
        if known == mode:
            return known
    raise UsageError(f"mode must be one of {', '.join(MODES)}, got {mode!r}")


def readable_query(query: str) -> str:
    """What of a query is searched for: no control characters, and not more than fits."""
    return strip_controls(query[:QUERY_CHARACTERS]).strip()

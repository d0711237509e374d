"""Qdrant's own engine on a folder of this process, no server: for indexes too large for arrays.

The engine's write-ahead log is off: a generation is complete before it is named, and never changed
afterwards, so there is nothing to log. As it is the log that the engine locks, several processes
can then search one index at the same time.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import qdrant_edge as edge

from assay.search.bm25 import SparseVector
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition, as_texts
from assay.search.fusion import PointCandidates
from assay.search.index_changes import batches
from assay.search.index_files import engine_errors
from assay.search.store import (
    BM25,
    DENSE,
    FLAT_KB,
    PLACE,
    ChunkPayload,
    Found,
    Manifest,
    Point,
    Signal,
    Stored,
)

# Vectors are compared one by one, by copies of 4 bits a number; the best are scored by the whole
# vectors. That finds what comparing whole vectors finds, and to some 100,000
# vectors costs less than walking a graph of neighbors (HNSW) that finds as much; making a graph
# doubles what a document costs. Figures: benchmarks/README.md, "Growth".
_NO_GRAPH = edge.HnswIndexConfig(m=0, ef_construct=64, full_scan_threshold=10_000)
_RESCORED = edge.SearchParams(
    quantization=edge.QuantizationSearchParams(rescore=True, oversampling=2.0)
)
# So many KB of vectors are a segment: what is open at a time, and one thread's part of a search.
_SEGMENT_KB = 200_000
_POINTS_IN_A_CALL = 512
_POINTS_IN_A_PAGE = 5000
# About 60 MB.
_PLACES_KEPT = 200_000


class EdgeSearcher:
    """Searches a generation that the engine has written."""

    def __init__(self, generation: Path, manifest: Manifest) -> None:
        self._where = str(generation.parent)
        self.manifest = manifest
        self._places: dict[Any, tuple[str, int, int]] = {}
        with engine_errors(self._where):
            self._shard = edge.EdgeShard.load(str(generation))

    def candidates(self, where: Sequence[FilterCondition] = ()) -> PointCandidates:
        """The candidates of one query: see `Searcher`."""
        return PointCandidates(self, where)

    def nearest(
        self,
        signal: Signal,
        vector: Vectors | SparseVector,
        limit: int,
        *,
        where: Sequence[FilterCondition] = (),
        among: Sequence[str] | None = None,
    ) -> list[Found]:
        """The best points, best first: see `Searcher`."""
        request = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(_vector(vector), using=signal),
            filter=_filter(where, among),
            params=_RESCORED if signal == DENSE else None,
            with_payload=False,
        )
        with engine_errors(self._where):
            return self._placed(self._shard.query(request))

    def fetch(self, ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        """The points that exist, with their dense vectors if asked for."""
        with engine_errors(self._where):
            records = self._shard.retrieve(
                list(ids), with_payload=True, with_vector=[DENSE] if vectors else False
            )
        return [_stored(record) for record in records]

    def matching(self, ids: Sequence[str], where: Sequence[FilterCondition]) -> set[str]:
        """The ids of those points that meet the conditions."""
        request = edge.ScrollRequest(
            limit=max(1, len(ids)), filter=_filter(where, ids), with_payload=False
        )
        with engine_errors(self._where):
            records, _ = self._shard.scroll(request)
        return {str(record.id) for record in records}

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Document id, content hash and number of chunks, of each chunk."""
        wanted = ["doc_id", "content_hash", "total_chunks"]
        with engine_errors(self._where):
            for record in _scrolled(self._shard, with_payload=wanted):
                payload = record.payload or {}
                yield payload["doc_id"], payload["content_hash"], payload["total_chunks"]

    def _placed(self, points: Sequence[edge.ScoredPoint]) -> list[Found]:
        """Payloads hold whole texts, which take longer to read than a search does: what a search
        needs of them is kept in memory, as a generation never changes.
        """
        scores = [(point.id, point.score) for point in points]
        kept = self._places  # never shrunk, only replaced: other threads may hold it too
        try:
            return [Found(*kept[one], score) for one, score in scores]
        except KeyError:
            kept = kept if len(kept) < _PLACES_KEPT else {}
            kept.update(self._read_places([one for one, _ in scores if one not in kept]))
            self._places = kept
            return [Found(*kept[one], score) for one, score in scores]

    def _read_places(self, ids: Sequence[Any]) -> dict[Any, tuple[str, int, int]]:
        records = self._shard.retrieve(list(ids), PLACE, with_vector=False) if ids else ()
        return {record.id: _place(record) for record in records}

    def close(self) -> None:
        """Close the engine; the files stay."""
        self._shard.close()


class EdgeWriter:
    """Writes points into a generation that is not named yet."""

    def __init__(self, generation: Path, shard: edge.EdgeShard, dimension: int) -> None:
        self._generation, self._shard = generation, shard
        self._in_a_segment = max(1, _SEGMENT_KB * 1024 // (4 * dimension))
        self._open_points = 0

    @classmethod
    def into(cls, generation: Path, dimension: int) -> Self:
        """A writer into an empty folder."""
        return cls(
            generation, edge.EdgeShard.create(str(generation), _config(dimension)), dimension
        )

    @classmethod
    def onto(cls, generation: Path, dimension: int) -> Self:
        """A writer onto the copy of another generation, which gets the settings of this version."""
        shard = edge.EdgeShard.load(str(generation), _config(dimension))
        return cls(generation, shard, dimension)

    def write(self, points: Sequence[Point]) -> None:
        """Write points; one of the same id is replaced."""
        for some in batches(points, _POINTS_IN_A_CALL):
            batch = [_edge_point(point) for point in some]
            self._shard.update(edge.UpdateOperation.upsert_points(batch))
            self._open_points += len(batch)
            if self._open_points >= self._in_a_segment:
                self._end_segment()

    def delete(self, ids: Iterable[str]) -> None:
        """Remove points that were copied."""
        for some in batches(ids, _POINTS_IN_A_PAGE):
            self._shard.update(edge.UpdateOperation.delete_points(list(some)))

    def count(self) -> int:
        """How many points there are."""
        return self._shard.count(edge.CountRequest(exact=True))

    def points(self) -> Iterator[Point]:
        """Every point that was written."""
        for record in _scrolled(self._shard, with_payload=True, with_vector=True):
            vectors: Any = record.vector or {}
            words = vectors.get(BM25)
            yield Point(
                str(record.id),
                np.array(vectors[DENSE], np.float32),  # a list takes eight times the memory
                SparseVector(words.indices, words.values) if words is not None else None,
                cast(ChunkPayload, record.payload or {}),
            )

    def finish(self) -> None:
        """Complete the files, so that a searcher can open them."""
        self._end_segment()
        self.close()
        # The engine rewrites a few files when it first loads a shard: let it do so now.
        edge.EdgeShard.load(str(self._generation)).close()

    def close(self) -> None:
        """Close the engine."""
        self._shard.flush()
        self._shard.close()

    def _end_segment(self) -> None:
        """Copy the vectors since the last time in 4 bits; points to come go to a new segment."""
        self._shard.flush()
        self._shard.optimize()
        self._open_points = 0


def _place(record: edge.Record) -> tuple[str, int, int]:
    payload = record.payload or {}
    return payload["doc_id"], payload["chunk_index"], payload["total_chunks"]


def _scrolled(shard: edge.EdgeShard, **wanted: Any) -> Iterator[edge.Record]:
    """Every point, a page at a time."""
    offset: Any = None
    while True:
        request = edge.ScrollRequest(offset=offset, limit=_POINTS_IN_A_PAGE, **wanted)
        records, offset = shard.scroll(request)
        yield from records
        if offset is None:
            return


def _edge_point(point: Point) -> edge.Point:
    vectors: dict[str, Any] = {DENSE: point.dense.tolist()}
    if point.bm25:
        vectors[BM25] = edge.SparseVector(point.bm25.indices, point.bm25.values)
    return edge.Point(point.id, vectors, dict(point.payload))


def _config(dimension: int) -> edge.EdgeConfig:
    """Everything is mapped from its file into memory, so that the system can take it back."""
    mapped = edge.Memory.Cached
    return edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(dimension, edge.Distance.Cosine, memory=mapped)},
        sparse_vectors={BM25: edge.EdgeSparseVectorParams(memory=mapped)},
        hnsw_config=_NO_GRAPH,
        quantization_config=edge.TurboQuantQuantizationConfig(
            bits=edge.TurboQuantBitSize.Bits4, memory=mapped
        ),
        optimizers=edge.EdgeOptimizersConfig(
            indexing_threshold=FLAT_KB, max_segment_size=_SEGMENT_KB
        ),
        payload_memory=mapped,
        wal_enabled=False,
    )


def _vector(vector: Vectors | SparseVector) -> Any:
    if isinstance(vector, SparseVector):
        return edge.SparseVector(vector.indices, vector.values)
    return vector.tolist()


def _filter(where: Sequence[FilterCondition], among: Sequence[str] | None) -> edge.Filter | None:
    must: list[Any] = [_condition(one) for one in where]
    if among is not None:
        must.append(edge.HasIdCondition(set(among)))
    return edge.Filter(must=must) if must else None


def _condition(condition: FilterCondition) -> edge.FieldCondition:
    if condition.bounds is not None:
        dates = as_texts(condition.bounds)
        bounds: Any = edge.RangeDateTime(**dates) if dates else edge.RangeFloat(**condition.bounds)
        return edge.FieldCondition(condition.key, range=bounds)
    # Of Python's True the engine makes 1, which is another value; of numpy's it does not.
    values: list[Any] = [
        np.bool_(one) if one is True or one is False else one for one in condition.values
    ]
    match: Any = edge.MatchValue(values[0]) if len(values) == 1 else edge.MatchAny(values)
    return edge.FieldCondition(condition.key, match=match)


def _stored(record: edge.Record) -> Stored:
    vectors: Any = record.vector or {}
    payload = cast(ChunkPayload, record.payload or {})
    return Stored(str(record.id), payload, vectors.get(DENSE, ()))

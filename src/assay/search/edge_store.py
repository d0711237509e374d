"""The index in this process: Qdrant's own engine on a folder, no server.

FOLDER/COLLECTION/current           the name of the live generation
FOLDER/COLLECTION/<generation>/     manifest.json and the engine's files; flat/ of a small index
FOLDER/COLLECTION/writer.lock       held while a new generation is made

The engine's write-ahead log is off: a generation is complete before `current` names it, and never
changed afterwards, so there is nothing to log. As it is the log that the engine locks, several
processes can then search one index at the same time.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import qdrant_edge as edge

from assay.errors import SearchError, UsageError
from assay.files import make_private_folder
from assay.privacy import is_private
from assay.progress import Progress
from assay.search.bm25 import SparseVector
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition
from assay.search.flat_index import (
    FlatCandidates,
    FlatIndex,
    FlatPoint,
    has_flat,
    remove_flat,
    write_flat,
)
from assay.search.fusion import PointCandidates
from assay.search.index_changes import batches
from assay.search.index_files import (
    check_files,
    copy_generation,
    disk_errors,
    engine_errors,
    is_hashed_when_opened,
    live_generation,
    name_live_generation,
    read_manifest,
    refuse_full_disk,
    remove_generations_but,
    seal,
    writer_lock,
)
from assay.search.store import (
    BM25,
    DENSE,
    PLACE,
    Candidates,
    ChunkPayload,
    Found,
    IndexWriter,
    Manifest,
    Point,
    Signal,
    Stored,
)

# Vectors of less than this many KB are compared one by one as they are: see `FlatIndex`.
_INDEXING_THRESHOLD_KB = 20_000
# From this many on, the engine opens the files of such an index without reading them.
_SMALL_THRESHOLD_KB = 256
# Those of a larger index are compared one by one too, by copies of 4 bits a number; the best are
# scored by the whole vectors. That finds what comparing whole vectors finds, and to some 100,000
# vectors costs less than walking a graph of neighbors (HNSW) that finds as much; making a graph
# doubles what a document costs. Figures: benchmarks/README.md, "Growth".
_NO_GRAPH = edge.HnswIndexConfig(m=0, ef_construct=64, full_scan_threshold=10_000)
_RESCORED = edge.SearchParams(
    quantization=edge.QuantizationSearchParams(rescore=True, oversampling=2.0)
)
_WHOLE = edge.SearchParams(quantization=edge.QuantizationSearchParams(ignore=True))
# So many KB of vectors are a segment: what is open at a time, and one thread's part of a search.
_SEGMENT_KB = 200_000
_POINTS_IN_A_CALL = 512
_POINTS_IN_A_PAGE = 5000
_PLACES_KEPT = 200_000  # about 60 MB


class EdgeSearcher:
    """Searches a generation of the embedded index."""

    def __init__(self, generation: Path, manifest: Manifest) -> None:
        self._where = str(generation.parent)
        self._manifest = manifest
        self._places: dict[Any, tuple[str, int, int]] = {}
        with engine_errors(self._where):
            self._flat = FlatIndex.of(generation)
            self._shard = edge.EdgeShard.load(str(generation))

    @property
    def manifest(self) -> Manifest:
        """What the index says about itself."""
        return self._manifest

    def candidates(self, where: Sequence[FilterCondition] = ()) -> Candidates:
        """For one query: see `Searcher`."""
        if self._flat is not None and not where:
            return FlatCandidates(self._flat)
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
            params=(_WHOLE if self._flat else _RESCORED) if signal == DENSE else None,
            with_payload=False,
        )
        with engine_errors(self._where):
            return self._placed(self._shard.query(request))

    def fetch(self, ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        """Those of the points that exist, with their dense vectors if asked for."""
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


class EdgeStore:
    """`folder` holds one folder for each collection."""

    def __init__(self, folder: Path, collection: str) -> None:
        self._home = folder.expanduser().absolute() / collection
        self._hashed: Path | None = None

    @property
    def where(self) -> str:
        """The folder of the collection."""
        return str(self._home)

    def manifest(self) -> Manifest | None:
        """Of the live index; None if there is none."""
        generation = self._live()
        if generation is None:
            return None
        check_files(generation)
        return self._manifest_of(generation)

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Document id, content hash and number of chunks, of each chunk."""
        with closing(self.open()) as searcher:
            yield from searcher.entries()

    def contents(self) -> dict[str, tuple[str, int]]:
        """Document id to content hash and number of chunks."""
        return {doc_id: (content, chunks) for doc_id, content, chunks in self.entries()}

    def open(self) -> EdgeSearcher:
        """A writer may replace and remove the generation between two steps: then look again."""
        generation = self._live()
        while generation is not None:
            try:
                manifest = self._manifest_of(generation)
                self._check(generation)
                return EdgeSearcher(generation, manifest)
            except SearchError:
                newer = self._live()
                if newer == generation:
                    raise
                generation = newer
        raise SearchError(f"there is no index at {self.where}; build it: assay index")

    def _check(self, generation: Path) -> None:
        """Once for each generation all files that can be read in a moment, then by time alone."""
        check_files(
            generation, every=self._hashed != generation and is_hashed_when_opened(generation)
        )
        self._hashed = generation

    @contextmanager
    def lock(self, progress: Progress) -> Iterator[None]:
        """Wait until no other process writes this index."""
        if is_private():
            raise UsageError(
                "a private run keeps no index, which would hold the texts of documents: use "
                "builtin:bm25, which needs none, or build the index before, with: assay index"
            )
        with disk_errors(self._home):
            make_private_folder(self._home)
        with writer_lock(self._home / "writer.lock", progress):
            yield

    @contextmanager
    def writer(self, manifest: Manifest, *, from_live: bool) -> Iterator[IndexWriter]:
        """The next generation: a copy of the live one, or empty. Removed unless committed."""
        live = self._live()
        remove_generations_but(self._home, live)
        generation = self._home / uuid.uuid4().hex[:12]
        small = from_live and live is not None and has_flat(live)
        config = _config(manifest.dimension, small=small)
        try:
            with disk_errors(self._home):
                if from_live and live is not None:
                    copy_generation(live, generation)
                    # One of an earlier version gets the settings of this one.
                    shard = edge.EdgeShard.load(str(generation), config)
                else:
                    generation.mkdir(parents=True)
                    shard = edge.EdgeShard.create(str(generation), config)
            yield _EdgeWriter(self._home, generation, shard, manifest)
        finally:
            remove_generations_but(self._home, self._live())

    def _manifest_of(self, generation: Path) -> Manifest:
        return Manifest.from_json(read_manifest(generation), self.where)

    def _live(self) -> Path | None:
        return live_generation(self._home)


class _EdgeWriter:
    def __init__(
        self, home: Path, generation: Path, shard: edge.EdgeShard, manifest: Manifest
    ) -> None:
        self._home, self._generation = home, generation
        self._shard, self._manifest, self._dimension = shard, manifest, manifest.dimension
        self._in_a_segment = max(1, _SEGMENT_KB * 1024 // (4 * self._dimension))
        self._open_points = 0

    def write(self, points: Sequence[Point]) -> None:
        """Write points; `SearchError` before the disk is full."""
        for start in range(0, len(points), _POINTS_IN_A_CALL):
            batch = [_edge_point(point) for point in points[start : start + _POINTS_IN_A_CALL]]
            with disk_errors(self._home):
                refuse_full_disk(self._home, 0)
                self._shard.update(edge.UpdateOperation.upsert_points(batch))
                self._open_points += len(batch)
                if self._open_points >= self._in_a_segment:
                    self._end_segment()

    def _end_segment(self) -> None:
        """Copy the vectors since the last time in 4 bits; points to come go to a new segment."""
        self._shard.flush()
        self._shard.optimize()
        self._open_points = 0

    def delete(self, ids: Iterable[str]) -> None:
        """Remove points that were copied."""
        with disk_errors(self._home):
            for some in batches(ids, _POINTS_IN_A_PAGE):
                self._shard.update(edge.UpdateOperation.delete_points(list(some)))

    def commit(self) -> None:
        """Seal the generation and make it the live one."""
        with disk_errors(self._home):
            self._end_segment()
            size = 4 * self._dimension * self._shard.count(edge.CountRequest(exact=True))
            small = size <= _INDEXING_THRESHOLD_KB * 1024
            self._reload(_config(self._dimension, small=small))
            self._end_segment()
            self._reload()  # the engine rewrites a few files when it first does: let it do so now
            remove_flat(self._generation)  # of the live index, if this one began as its copy
            if small:
                refuse_full_disk(self._home, 2 * size)
                write_flat(self._generation, _flat_points(self._shard), self._dimension)
            self._shard.close()
            seal(self._generation, self._manifest.as_json())
            name_live_generation(self._home, self._generation)

    def _reload(self, config: edge.EdgeConfig | None = None) -> None:
        self._shard.close()
        self._shard = edge.EdgeShard.load(str(self._generation), config)


def _flat_points(shard: edge.EdgeShard) -> Iterator[FlatPoint]:
    for record in _scrolled(shard, with_payload=PLACE, with_vector=True):
        vectors = cast("dict[str, Any]", record.vector or {})
        words = vectors.get(BM25)
        yield FlatPoint(
            str(record.id),
            *_place(record),
            np.array(vectors[DENSE], np.float32),  # a list takes eight times the memory
            SparseVector(words.indices, words.values) if words is not None else None,
        )


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


def _config(dimension: int, *, small: bool) -> edge.EdgeConfig:
    """Mapped from files, so that the system can take memory back. `small`: not even read."""
    mapped = edge.Memory.Cold if small else edge.Memory.Cached
    return edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(dimension, edge.Distance.Cosine, memory=mapped)},
        sparse_vectors={BM25: edge.EdgeSparseVectorParams(memory=mapped)},
        hnsw_config=_NO_GRAPH,
        quantization_config=edge.TurboQuantQuantizationConfig(
            bits=edge.TurboQuantBitSize.Bits4, memory=mapped
        ),
        optimizers=edge.EdgeOptimizersConfig(
            indexing_threshold=_SMALL_THRESHOLD_KB if small else _INDEXING_THRESHOLD_KB,
            max_segment_size=_SEGMENT_KB,
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
        return edge.FieldCondition(condition.key, range=edge.RangeFloat(**condition.bounds))
    values: list[Any] = list(condition.values)
    match: Any = edge.MatchValue(values[0]) if len(values) == 1 else edge.MatchAny(values)
    return edge.FieldCondition(condition.key, match=match)


def _stored(record: edge.Record) -> Stored:
    vectors: Any = record.vector or {}
    payload = cast(ChunkPayload, record.payload or {})
    return Stored(str(record.id), payload, vectors.get(DENSE, ()))

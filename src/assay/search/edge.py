"""The index in this process: Qdrant's own engine on a folder, no server.

FOLDER/COLLECTION/current           the name of the live generation
FOLDER/COLLECTION/<generation>/     manifest.json and the engine's files
FOLDER/COLLECTION/writer.lock       held while a new generation is made

The engine's write-ahead log is off: a generation is complete before `current` names it, and never
changed afterwards, so there is nothing to log. As it is the log that the engine locks, several
processes can then search one index at the same time.
"""

import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from assay.errors import SearchError
from assay.progress import Progress
from assay.search.edge_searcher import EdgeSearcher
from assay.search.generation import (
    check_sizes,
    copy_generation,
    disk_errors,
    read_manifest,
    refuse_full_disk,
    replace_text,
    seal,
)
from assay.search.store import BM25, DENSE, Draft, Manifest, Point
from assay.search.writer_lock import writer_lock

# Vectors of less than this many KB are compared one by one, which is exact; beyond it, by HNSW.
_INDEXING_THRESHOLD_KB = 20_000
_POINTS_IN_A_CALL = 512


class EdgeStore:
    """`folder` holds one folder for each collection."""

    def __init__(self, folder: Path, collection: str) -> None:
        self._home = folder.expanduser().absolute() / collection

    @property
    def where(self) -> str:
        return str(self._home)

    def manifest(self) -> Manifest | None:
        generation = self._live()
        if generation is None:
            return None
        check_sizes(generation)
        return read_manifest(generation)

    def contents(self) -> dict[str, tuple[str, int]]:
        searcher = self.open()
        try:
            return searcher.contents()
        finally:
            searcher.close()

    def open(self) -> EdgeSearcher:
        """A writer may replace and remove the generation between two steps: then look again."""
        generation = self._live()
        while generation is not None:
            try:
                manifest = read_manifest(generation)
                check_sizes(generation)
                return EdgeSearcher(generation, manifest)
            except SearchError:
                newer = self._live()
                if newer == generation:
                    raise
                generation = newer
        raise SearchError(f"there is no index at {self.where}; build it: assay index")

    @contextmanager
    def writing(self, progress: Progress) -> Iterator[None]:
        with disk_errors(self._home):
            self._home.mkdir(parents=True, exist_ok=True)
        with writer_lock(self._home / "writer.lock", progress):
            yield

    @contextmanager
    def draft(self, manifest: Manifest, *, from_live: bool) -> Iterator[Draft]:
        live = self._live()
        self._remove_all_but(live)
        generation = self._home / uuid.uuid4().hex[:12]
        try:
            with disk_errors(self._home):
                if from_live and live is not None:
                    copy_generation(live, generation)
                    shard = edge.EdgeShard.load(str(generation))
                else:
                    generation.mkdir(parents=True)
                    shard = edge.EdgeShard.create(str(generation), _config(manifest.dimension))
            yield _EdgeDraft(self._home, generation, shard, manifest)
        finally:
            self._remove_all_but(self._live())

    def _live(self) -> Path | None:
        try:
            name = (self._home / "current").read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            return None
        # Emptied or overwritten, it names no generation: then there is none.
        return self._home / name if name.isalnum() else None

    def _remove_all_but(self, live: Path | None) -> None:
        """Old generations, and drafts of killed writers. A process that still searches an old one
        has its files open, and so keeps them.
        """
        for path in self._home.iterdir() if self._home.is_dir() else ():
            if path.is_dir() and path != live:
                shutil.rmtree(path, ignore_errors=True)


class _EdgeDraft:
    def __init__(
        self, home: Path, generation: Path, shard: edge.EdgeShard, manifest: Manifest
    ) -> None:
        self._home, self._generation = home, generation
        self._shard, self._manifest = shard, manifest

    def write(self, points: Sequence[Point]) -> None:
        for start in range(0, len(points), _POINTS_IN_A_CALL):
            batch = [_edge_point(point) for point in points[start : start + _POINTS_IN_A_CALL]]
            with disk_errors(self._home):
                refuse_full_disk(self._home, 0)
                self._shard.update(edge.UpdateOperation.upsert_points(batch))

    def delete(self, ids: Iterable[str]) -> None:
        with disk_errors(self._home):
            self._shard.update(edge.UpdateOperation.delete_points(list(ids)))

    def commit(self) -> None:
        with disk_errors(self._home):
            self._shard.flush()
            self._shard.optimize()
            self._shard.flush()
            self._shard.close()
            # The engine writes a few files anew when it first loads a shard: let it do so now.
            edge.EdgeShard.load(str(self._generation)).close()
            seal(self._generation, self._manifest)
            replace_text(self._home / "current", self._generation.name)


def _edge_point(point: Point) -> edge.Point:
    vectors: dict[str, Any] = {DENSE: point.dense.tolist()}
    if point.bm25:
        vectors[BM25] = edge.SparseVector(point.bm25.indices, point.bm25.values)
    return edge.Point(point.id, vectors, dict(point.payload))


def _config(dimension: int) -> edge.EdgeConfig:
    return edge.EdgeConfig(
        vectors={DENSE: edge.EdgeVectorParams(dimension, edge.Distance.Cosine)},
        sparse_vectors={BM25: edge.EdgeSparseVectorParams()},
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=_INDEXING_THRESHOLD_KB),
        wal_enabled=False,
    )

"""The index in a folder of this machine, no server.

FOLDER/COLLECTION/current           the name of the live generation
FOLDER/COLLECTION/<generation>/     manifest.json; flat/ of a small index, else the engine's files
FOLDER/COLLECTION/writer.lock       held while a new generation is made

A small index is a few arrays, which are scored whole and opened at once; a larger one is kept by
Qdrant's engine, which is loaded only then.
"""

import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import SearchError, UsageError
from assay.files import make_private_folder
from assay.privacy import is_private
from assay.progress import Progress
from assay.search.flat_index import FlatIndex, FlatPoint, write_flat
from assay.search.index_changes import batches
from assay.search.index_files import (
    check_files,
    copy_generation,
    disk_errors,
    is_hashed_when_opened,
    live_generation,
    name_live_generation,
    read_manifest,
    remove_generations_but,
    require_disk_space,
    seal,
    writer_lock,
)
from assay.search.store import FLAT_KB, IndexWriter, Manifest, Point

if TYPE_CHECKING:
    from assay.search.edge_engine import EdgeSearcher, EdgeWriter

_POINTS_IN_A_STEP = 512


class FolderStore:
    """`folder` holds one folder for each collection."""

    def __init__(self, folder: Path, collection: str) -> None:
        self._home = folder.expanduser().absolute() / collection
        self._hashed: Path | None = None

    @property
    def where(self) -> str:
        """The folder of the collection."""
        return str(self._home)

    def manifest(self) -> Manifest | None:
        """The manifest of the live index; None if there is none."""
        generation = self._live()
        if generation is None:
            return None
        check_files(generation)
        return self._manifest_of(generation)

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Document id, content hash and number of chunks, of each chunk."""
        with closing(self.open()) as searcher:
            yield from searcher.entries()

    def open(self) -> "FlatIndex | EdgeSearcher":
        """A writer may replace and remove the generation between two steps: then look again."""
        generation = self._live()
        while generation is not None:
            try:
                manifest = self._manifest_of(generation)
                self._check(generation)
                return _searcher(generation, manifest)
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
        writer = _Writer(self._home, generation, manifest)
        try:
            with disk_errors(self._home):
                generation.mkdir(parents=True)
                if from_live and live is not None:
                    check_files(live)
                    writer.take_over(live)
            yield writer
        finally:
            remove_generations_but(self._home, self._live())

    def _manifest_of(self, generation: Path) -> Manifest:
        return Manifest.from_json(read_manifest(generation), self.where)

    def _live(self) -> Path | None:
        return live_generation(self._home)


def _searcher(generation: Path, manifest: Manifest) -> "FlatIndex | EdgeSearcher":
    if FlatIndex.is_in(generation):
        return FlatIndex(generation, manifest)
    from assay.search.edge_engine import EdgeSearcher  # the engine takes a while to import

    return EdgeSearcher(generation, manifest)


class _Writer:
    """Keeps the points of a small index in memory; those of a larger one go to the engine."""

    def __init__(self, home: Path, generation: Path, manifest: Manifest) -> None:
        self._home, self._generation, self._manifest = home, generation, manifest
        self._most = FLAT_KB * 1024 // (4 * manifest.dimension)
        self._points: dict[str, FlatPoint] = {}
        self._engine: EdgeWriter | None = None

    def take_over(self, live: Path) -> None:
        """Begin with the points of the live generation."""
        if FlatIndex.is_in(live):
            known = FlatIndex(live, self._manifest).points()
            self._points = {one.id: one for one in known}
            return
        from assay.search.edge_engine import EdgeWriter

        copy_generation(live, self._generation)
        self._engine = EdgeWriter.onto(self._generation, self._manifest.dimension)

    def write(self, points: Sequence[Point]) -> None:
        """Add points; `SearchError` before the disk is full."""
        for some in batches(points, _POINTS_IN_A_STEP):
            with disk_errors(self._home):
                require_disk_space(self._home, 0)
                if self._engine is not None:
                    self._engine.write(some)
                    continue
                self._points |= {one.id: FlatPoint.of(one) for one in some}
                if len(self._points) > self._most:
                    self._move_to_engine()

    def _move_to_engine(self) -> None:
        from assay.search.edge_engine import EdgeWriter

        self._engine = EdgeWriter.into(self._generation, self._manifest.dimension)
        for some in batches(self._points.values(), _POINTS_IN_A_STEP):
            self._engine.write([one.point() for one in some])
        self._points = {}

    def delete(self, ids: Iterable[str]) -> None:
        """Remove points by id."""
        with disk_errors(self._home):
            if self._engine is not None:
                self._engine.delete(ids)
                return
            for one in ids:
                self._points.pop(one, None)

    def commit(self) -> None:
        """Seal the generation and make it the live one."""
        with disk_errors(self._home):
            if self._engine is not None and self._engine.count() <= self._most:
                self._points = {one.id: FlatPoint.of(one) for one in self._engine.points()}
                self._engine.close()
                self._engine = None
                shutil.rmtree(self._generation)
                self._generation.mkdir()
            if self._engine is not None:
                self._engine.finish()
            else:
                require_disk_space(self._home, sum(one.size for one in self._points.values()))
                write_flat(self._generation, self._points.values(), self._manifest.dimension)
            seal(self._generation, self._manifest.as_json())
            name_live_generation(self._home, self._generation)

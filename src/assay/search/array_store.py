"""The index in a folder of this machine: vectors in one array, compared with every query.

FOLDER/COLLECTION/<key>/        vectors.f32, chunks.npy (a document), spans.npy (a chunk);
                                beyond 100,000 chunks codes.npy and planes.npy
FOLDER/COLLECTION/writer.lock   held while a new index is made
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from assay.errors import UsageError
from assay.files import reserve_file
from assay.privacy import is_private
from assay.progress import Progress
from assay.search.bm25 import Bm25Index
from assay.search.embedding import Vectors
from assay.search.sealed_folder import (
    check_folder,
    is_sealed,
    seal,
    writer_lock,
    writing_folder,
)
from assay.search.store import (
    EmbeddedPart,
    IndexKey,
    Manifest,
    Near,
    OpenWords,
    Place,
    StoredChunk,
)

_VECTORS, _CHUNKS, _SPANS = "vectors.f32", "chunks.npy", "spans.npy"
_CODES, _PLANES = "codes.npy", "planes.npy"
# Chunks that are all compared exactly: 7 ms of CPU. Of more, codes of one bit a number are compared
# first (see `_write_codes`), which takes 10 ms for a million.
EXACT_UP_TO = 100_000
# Candidates of that first pass, at least; 2% of a larger index. Among a million vectors made of
# real ones they hold 0.999 of the 100 nearest (benchmarks/README.md).
RESCORED = 10_000
# From so many bytes on, two threads share the work: to hand it over takes 0.1 ms.
_SHARED_FROM = 14_000_000
# Vectors in one step: what it computes stays in the processor's cache
_BLOCK = 1 << 14

_Floats = NDArray[np.float32]
_Rows = NDArray[np.int64]


class ArrayStore:
    """`folder` holds one folder for each collection."""

    def __init__(self, folder: Path, collection: str) -> None:
        self._home = folder.expanduser().absolute() / collection

    @property
    def where(self) -> str:
        """The folder of the collection."""
        return str(self._home)

    def lock(self, progress: Progress) -> AbstractContextManager[None]:
        """Wait until no other process writes this index."""
        if is_private():
            raise UsageError(
                "a private run keeps no index: use builtin:bm25, which needs none, or build the "
                "index before, with: assay index"
            )
        return writer_lock(self._home / "writer.lock", progress)

    def write(self, manifest: Manifest, parts: Iterable[EmbeddedPart]) -> None:
        """Write an index and remove earlier ones; searches in progress have their files open."""
        path = self._home / manifest.key.digest()
        counts: list[int] = []
        spans: list[tuple[int, int]] = []
        with writing_folder(path) as part:
            with (part / _VECTORS).open("wb") as file:
                for one in parts:
                    file.write(one.vectors.astype("<f4", copy=False).data)
                    counts += one.counts
                    spans += one.spans
            np.save(part / _CHUNKS, np.array(counts, np.uint32))
            np.save(part / _SPANS, np.array(spans, np.int32).reshape(-1, 2))
            if len(spans) > EXACT_UP_TO:
                _write_codes(part, manifest.dimension)
            seal(part, manifest.as_json())
        for other in self._home.iterdir():
            if other.is_dir() and other != path:
                shutil.rmtree(other, ignore_errors=True)

    def open(self, key: IndexKey, words: OpenWords, *, deep: bool = False) -> "ArrayIndex | None":
        """The index of this key; None if there is none. `deep`: hash large files as well."""
        folder = self._home / key.digest()
        if is_sealed(folder):
            manifest = Manifest.from_json(check_folder(folder, every=deep), self.where)
            return ArrayIndex(words(), manifest, folder)
        return None


def _mapped_vectors(folder: Path, dimension: int) -> Vectors:
    flat = np.memmap(folder / _VECTORS, "<f4", "r")
    return flat.view(np.ndarray).reshape(-1, dimension)


def _write_codes(folder: Path, dimension: int) -> None:
    """On which side of random planes through their mean the vectors are: the angle between two is
    about proportional to the bits in which they differ (Charikar 2002). Word by word, 64 bits each,
    so that a search reads them in order.
    """
    vectors = _mapped_vectors(folder, dimension)
    # Orthogonal planes estimate an angle with less variance than independent ones (Ji et al. 2012,
    # super-bit LSH).
    axes, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(dimension, dimension)))
    axes = axes.astype(np.float32)
    centre = vectors[:: max(1, len(vectors) // 10_000)].mean(0)
    shape = (-(-dimension // 64), len(vectors))
    codes = np.lib.format.open_memmap(folder / _CODES, mode="w+", dtype="<u8", shape=shape)
    reserve_file(folder / _CODES)
    for start in range(0, len(vectors), _BLOCK):
        some = slice(start, start + _BLOCK)
        codes[:, some] = _packed((vectors[some] - centre) @ axes.T > 0)
    codes.flush()
    np.save(folder / _PLANES, np.column_stack([axes, axes @ centre]))


def _packed(sides: NDArray[np.bool_]) -> NDArray[np.uint64]:
    bits = np.packbits(sides, axis=-1)
    missing = -bits.shape[-1] % 8
    padded = np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, missing)])
    return np.ascontiguousarray(padded).view("<u8").T


class ArrayIndex:
    """Searches the documents of `words` by arrays in a folder; safe to ask from several threads."""

    def __init__(self, words: Bm25Index, manifest: Manifest, folder: Path) -> None:
        self._words, self.manifest = words, manifest
        # Opened now: a writer may remove the folder at any time, and what is mapped stays.
        self._spans = np.load(folder / _SPANS)
        # The first chunk of each document, and the end of the last one.
        self._starts = np.append(0, np.cumsum(np.load(folder / _CHUNKS), dtype=np.int64))
        self._vectors = _mapped_vectors(folder, manifest.dimension)
        self._codes: NDArray[np.uint64] | None = None
        if (folder / _CODES).exists():
            self._codes = np.load(folder / _CODES, mmap_mode="r").view(np.ndarray)
            self._planes = np.load(folder / _PLANES)

    def nearest(
        self, vector: Vectors, count: int = 0, *, among: Collection[str] | None = None
    ) -> dict[str, Near]:
        """The documents nearest to a vector: see `Index`."""
        chunks: _Rows | None = None
        if among is not None:
            wanted = np.array(sorted(map(self._words.row_of.__getitem__, among)), np.int64)
            starts = self._starts[wanted]
            chunks = _ranges(starts, self._starts[wanted + 1] - starts)
        size = len(self._vectors) if chunks is None else len(chunks)
        if not size:
            return {}
        if size > EXACT_UP_TO and self._codes is not None:
            chunks = self._candidates(vector, chunks)
        cosines = self._cosines(vector, chunks)
        if chunks is None:
            rows, firsts = np.arange(len(self._words.ids)), self._starts[:-1]
        else:  # the chunks of a document stand side by side
            owners = np.searchsorted(self._starts, chunks, "right") - 1
            firsts = np.flatnonzero(np.diff(owners, prepend=-1))
            rows = owners[firsts]
        top = np.maximum.reduceat(cosines, firsts)
        best = self._words.best(top, count, rows) if count else np.arange(len(top))
        sizes = np.diff(firsts, append=len(cosines))[best]
        rows, firsts, scores = rows[best], firsts[best], top[best]
        # The first chunk of each document that has its score.
        places = _ranges(firsts, sizes)
        highest = np.flatnonzero(cosines[places] == np.repeat(scores, sizes))
        nearest = places[highest[np.searchsorted(highest, np.cumsum(sizes) - sizes)]]
        numbers = (nearest if chunks is None else chunks[nearest]) - self._starts[rows]
        near = map(Near, scores.tolist(), numbers.tolist())
        ids = map(self._words.ids.__getitem__, rows.tolist())
        return dict(zip(ids, near, strict=True))

    def chunks(self, places: Iterable[Place], *, vectors: bool = False) -> dict[Place, StoredChunk]:
        """Those that exist; with vectors if asked for."""
        found = {}
        for doc_id, number in places:
            row = self._words.row_of[doc_id]
            first, end = self._starts[row : row + 2].tolist()
            start, stop = self._spans[first + number].tolist()
            vector = self._vectors[first + number] if vectors else ()
            found[doc_id, number] = StoredChunk((start, stop), end - first, vector)
        return found

    def _candidates(self, vector: Vectors, chunks: _Rows | None) -> _Rows:
        """The chunks that may be nearest: few bits of their codes differ from the query's."""
        codes, planes = self._codes, self._planes
        assert codes is not None
        query = _packed(np.vecdot(planes[:, :-1], vector) > planes[:, -1])
        distances = np.zeros(codes.shape[1], np.uint16)

        def count(part: slice) -> None:
            for word, asked in zip(codes[:, part], query, strict=True):
                distances[part] += np.bitwise_count(word ^ asked)

        _in_blocks(count, len(distances), codes.nbytes)
        found = distances if chunks is None else distances[chunks]
        wanted = min(max(RESCORED, len(found) // 50), len(found)) - 1
        near = np.flatnonzero(found <= np.partition(found, wanted)[wanted])
        return near if chunks is None else np.asarray(chunks[near])

    def _cosines(self, vector: Vectors, chunks: _Rows | None) -> _Floats:
        """Of all chunks, or of some, with a vector."""
        query, vectors = np.asarray(vector, np.float32), self._vectors
        count = len(vectors) if chunks is None else len(chunks)
        found = np.empty(count, np.float32)

        # Not a matrix product: BLAS would wake threads, which cost more than they save.
        def compare(part: slice) -> None:
            some = vectors[part] if chunks is None else vectors[chunks[part]]
            np.vecdot(some, query, out=found[part])

        size = _BLOCK if chunks is None else _BLOCK // 32  # what is gathered is copied first
        _in_blocks(compare, count, count * query.nbytes, size)
        return found


def _ranges(starts: _Rows, counts: _Rows) -> _Rows:
    """The numbers from each start on, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.asarray(np.arange(counts.sum()) + np.repeat(starts - before, counts))


def _in_blocks(
    work: Callable[[slice], None], count: int, size_in_bytes: int, size: int = _BLOCK
) -> None:
    """Call `work` with every block of so many rows, in two threads if that is worth it: two read
    memory as fast as it can be read.
    """
    blocks = [slice(start, min(start + size, count)) for start in range(0, count, size)]
    if size_in_bytes < _SHARED_FROM:
        for block in blocks:
            work(block)
        return
    list(_threads().map(work, blocks))


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(min(2, os.cpu_count() or 1), thread_name_prefix="assay-compare")

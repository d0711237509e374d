"""The index in a folder of this machine: every vector is compared, so what is found is exact.

FOLDER/COLLECTION/<key>/        vectors.f32, chunks.npy (a document), spans.npy (a chunk)
FOLDER/COLLECTION/writer.lock   held while a new index is made

Words are in the BM25 index that `builtin:bm25` has as well, texts and metadata in the data set: a
search scores arrays, and only the best documents become objects.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cache, cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.data.cache import cache_folder
from assay.data.dataset import Dataset
from assay.errors import AssayError, SearchError, UsageError
from assay.net.json import JsonObject
from assay.privacy import is_private
from assay.progress import Progress
from assay.search.bm25 import SparseVector
from assay.search.bm25_index import Bm25Index
from assay.search.embedding import VectorCache, Vectors
from assay.search.filters import FilterCondition, holds
from assay.search.fusion import DEPTH, ranks_in
from assay.search.sealed_folder import (
    DamagedIndexError,
    check_folder,
    is_sealed,
    seal,
    sealed_at,
    writer_lock,
    writing_folder,
)
from assay.search.store import (
    EmbeddedDocument,
    IndexKey,
    Manifest,
    Place,
    StoredChunk,
    plain_metadata,
)
from assay.text import strip_controls

_VECTORS, _CHUNKS, _SPANS = "vectors.f32", "chunks.npy", "spans.npy"
# Fewer than one document in so many are scored one by one, not with the whole array.
_READ_SINGLY_BELOW = 10
# From so many vectors on, several threads compare them: a million then takes 25 ms, not 45.
_SHARED_FROM = 50_000

_Floats = NDArray[np.float32]
_Array = NDArray[Any]


class ArrayStore:
    """`folder` holds one folder for each collection."""

    needs_words = True

    def __init__(self, folder: Path, collection: str) -> None:
        self._home = folder.expanduser().absolute() / collection

    @property
    def where(self) -> str:
        """The folder of the collection."""
        return str(self._home)

    def fingerprint(self, dataset: Dataset) -> str:
        """Of ids, titles and texts; metadata is read from the data set."""
        return dataset.corpus_fingerprint

    def manifest(self) -> Manifest | None:
        """The manifest of the newest index; None if there is none."""
        folders = self._home.iterdir() if self._home.is_dir() else ()
        newest = max((one for one in folders if is_sealed(one)), key=sealed_at, default=None)
        if newest is not None:
            return Manifest.from_json(check_folder(newest), self.where)
        if (self._home / "current").exists():  # how versions before 0.3 named the live one
            raise DamagedIndexError(f"the index at {self.where} was made by an earlier version")
        return None

    def lock(self, progress: Progress) -> AbstractContextManager[None]:
        """Wait until no other process writes this index."""
        if is_private():
            raise UsageError(
                "a private run keeps no index: use builtin:bm25, which needs none, or build the "
                "index before, with: assay index"
            )
        return writer_lock(self._home / "writer.lock", progress)

    def write(self, manifest: Manifest, documents: Iterable[Sequence[EmbeddedDocument]]) -> None:
        """Write an index, and remove those before it; who searches one has its files open."""
        path = self._home / manifest.key.digest()
        counts: list[int] = []
        spans: list[tuple[int, int]] = []
        with writing_folder(path) as part:
            with (part / _VECTORS).open("wb") as file:
                for some in documents:
                    for one in some:
                        file.write(one.vectors.astype("<f4").tobytes())
                        counts.append(len(one.chunks))
                        spans += [chunk.span for chunk in one.chunks]
            np.save(part / _CHUNKS, np.array(counts, np.uint32))
            np.save(part / _SPANS, np.array(spans, np.int32).reshape(-1, 2))
            seal(part, manifest.as_json(frequencies=False))
        for other in self._home.iterdir():
            if other.is_dir() and other != path:
                shutil.rmtree(other, ignore_errors=True)
        (self._home / "current").unlink(missing_ok=True)

    def open(
        self, key: IndexKey, dataset: Dataset, words: Bm25Index | None
    ) -> "ArraySearcher | None":
        """The index of this key; None if there is none."""
        assert words is not None, "an index of arrays has no words"
        folder = self._home / key.digest()
        if not is_sealed(folder):
            self.manifest()  # says if there is one of an earlier version
            return None
        manifest = Manifest.from_json(check_folder(folder), self.where)
        return ArraySearcher(dataset, words, manifest, folder)


class ArraySearcher:
    """Searches documents by arrays; safe to ask from several threads.

    Parameters:
        dataset: the documents.
        words: of the same documents.
        manifest: what the index says about itself.
        folder: with the vectors; without one, only words can be searched.
    """

    def __init__(
        self, dataset: Dataset, words: Bm25Index, manifest: Manifest, folder: Path | None = None
    ) -> None:
        self.documents, self.words = dataset.documents, words
        self.manifest = replace(manifest, bm25=words.model)  # which has the frequencies of terms
        counts, self._spans = np.ones(len(words.ids), np.uint32), np.zeros((0, 2), np.int32)
        self._vectors = np.zeros((0, 1), np.float32)
        if folder is not None:
            # Opened now: a writer may remove the folder at any time, and what is mapped stays.
            flat = np.memmap(folder / _VECTORS, "<f4", "r") if len(words.ids) else self._vectors
            self._vectors = flat.view(np.ndarray).reshape(-1, manifest.dimension)
            counts, self._spans = np.load(folder / _CHUNKS), np.load(folder / _SPANS)
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        """The first chunk of each document, and the end of the last one."""

    def candidates(self, where: Sequence[FilterCondition] = ()) -> "ArrayCandidates":
        """The candidates of one query: see `Searcher`."""
        if not where:
            return ArrayCandidates(self)
        allowed = [all(holds(one, found) for one in where) for found in self._metadata]
        return ArrayCandidates(self, np.array(allowed, np.bool_))

    @cached_property
    def _metadata(self) -> list[JsonObject]:
        """Of each document, parsed once: every filter asks about all of them."""
        return [plain_metadata(one) for one in self.documents.values()]

    def fetch(self, places: Sequence[Place], *, vectors: bool = False) -> dict[Place, StoredChunk]:
        """The chunks that exist; with dense vectors if asked for."""
        return {place: self._chunk(*place, vectors) for place in places}

    def _chunk(self, doc_id: str, number: int, with_vector: bool) -> StoredChunk:
        document, row = self.documents[doc_id], self.words.row_of[doc_id]
        first, end = self.starts[row : row + 2].tolist()
        text = strip_controls(document.text)
        title, metadata = strip_controls(document.title), plain_metadata(document)
        start, stop = self._spans[first + number].tolist() if len(self._spans) else (0, len(text))
        if start < 0:  # split together with its long title
            text, start, stop = f"{title} {text}".strip(), -start - 1, -stop - 1
        if end - first > 1:
            text = text[start:stop].strip()
        vector = self.vector(first + number) if with_vector and len(self._vectors) else ()
        return StoredChunk(doc_id, title, text, number, end - first, metadata, vector)

    def matching(self, doc_ids: Sequence[str], where: Sequence[FilterCondition]) -> set[str]:
        """Those of the documents that meet the conditions."""
        found = {one: plain_metadata(self.documents[one]) for one in doc_ids}
        return {one for one, about in found.items() if all(holds(each, about) for each in where)}

    def close(self) -> None:
        """Nothing to do: what is mapped goes with the last reference."""

    def cosines(self, vector: Vectors, chunks: slice = slice(None)) -> _Floats:
        """Of each chunk, or of some, with a vector."""
        if not len(self._vectors) and len(self.words.ids):
            raise SearchError("an index of words has no vectors: search it with mode bm25")
        query, vectors = np.asarray(vector, np.float32), self._vectors[chunks]
        # Not a matrix product: BLAS would wake threads, which cost more than they save.
        if len(vectors) < _SHARED_FROM:
            return np.asarray(np.vecdot(vectors, query), np.float32)
        found, (pool, parts) = np.empty(len(vectors), np.float32), _threads()
        ends = np.linspace(0, len(vectors), parts + 1).astype(int).tolist()
        spans = [slice(*span) for span in pairwise(ends)]
        list(pool.map(lambda span: np.vecdot(vectors[span], query, out=found[span]), spans))
        return found

    def vector(self, chunk: int) -> Vectors:
        """The vector of one chunk."""
        return np.asarray(self._vectors[chunk], np.float32)


@cache
def _threads() -> tuple[ThreadPoolExecutor, int]:
    """Two are enough to read memory as fast as it can be read."""
    count = min(2, os.cpu_count() or 1)
    return ThreadPoolExecutor(count, thread_name_prefix="assay-compare"), count


class ArrayCandidates:
    """The candidates of one query, by the scores of all documents: see `Candidates`."""

    def __init__(self, searcher: ArraySearcher, allowed: NDArray[np.bool_] | None = None) -> None:
        self._searcher, self._allowed = searcher, allowed
        self._words, self._starts = searcher.words, searcher.starts
        self._found_by: dict[str, list[str]] = {}
        self._lexical: tuple[SparseVector, _Floats] | None = None
        self._near: tuple[Vectors, _Floats, _Floats] | None = None

    def lexical(self, query: SparseVector, depth: int = DEPTH) -> dict[str, float]:
        """The best of the documents that share a word with the query."""
        if not query:
            return {}
        scores = self._lexical_scores(query)
        return self._found("bm25", scores, depth, scores > 0)

    def dense(self, vector: Vectors, *, signal: str = "dense") -> dict[str, float]:
        """The nearest documents."""
        return self._found(signal, self._dense_scores(vector), DEPTH)

    def lexical_of(self, doc_ids: Collection[str], query: SparseVector) -> dict[str, float]:
        """The BM25 scores of documents that another signal found."""
        if not query:
            return {}
        scores = self._scores_of(doc_ids, self._lexical_scores(query))
        return {doc_id: score for doc_id, score in scores.items() if score > 0}

    def dense_of(self, doc_ids: Collection[str], vector: Vectors) -> dict[str, float]:
        """The cosines of any documents; for a few, only their own chunks are read."""
        if self._near is None and _READ_SINGLY_BELOW * len(doc_ids) < len(self._words.ids):
            spans = {one: slice(*self._chunks(one)) for one in doc_ids}
            chunks = np.zeros(self._starts[-1], np.float32)
            for span in spans.values():
                chunks[span] = self._searcher.cosines(vector, span)
            # No search: the next one with this vector reads all.
            self._near = np.empty(0, np.float32), chunks, chunks
            return {one: float(chunks[span].max()) for one, span in spans.items()}
        return self._scores_of(doc_ids, self._dense_scores(vector))

    def ranks(self) -> dict[str, dict[str, int]]:
        """The rank of each document in each signal that found it."""
        return ranks_in(self._found_by)

    def best_chunks(self, doc_ids: Iterable[str]) -> dict[str, int]:
        """The chunk of each document that is nearest to the vector of the last search."""
        if self._near is None:
            return {}
        _, chunks, _ = self._near
        return {one: int(chunks[slice(*self._chunks(one))].argmax()) for one in doc_ids}

    def chunks_of(self, doc_id: str) -> int:
        """How many chunks a document has."""
        first, end = self._chunks(doc_id)
        return end - first

    def vectors(self, doc_ids: Sequence[str]) -> dict[str, Vectors]:
        """The vector of each document's best chunk."""
        best = self.best_chunks(doc_ids)
        return {one: self._searcher.vector(self._chunks(one)[0] + best[one]) for one in doc_ids}

    def _lexical_scores(self, query: SparseVector) -> _Floats:
        if self._lexical is None or self._lexical[0] is not query:
            self._lexical = query, self._words.scores(query)
        return self._lexical[1]

    def _dense_scores(self, vector: Vectors) -> _Floats:
        """For each document, the highest cosine of its chunks."""
        if self._near is None or self._near[0] is not vector:
            chunks = self._searcher.cosines(vector)
            self._near = vector, chunks, np.maximum.reduceat(chunks, self._starts[:-1])
        return self._near[2]

    def _found(
        self, signal: str, scores: _Floats, depth: int, having: NDArray[np.bool_] | None = None
    ) -> dict[str, float]:
        allowed = having
        if self._allowed is not None:
            allowed = self._allowed if having is None else self._allowed & having
        best = self._words.best(scores, depth, allowed)
        order = [self._words.ids[row] for row in best]
        self._found_by[signal] = order
        return dict(zip(order, scores[best].tolist(), strict=True))

    def _scores_of(self, doc_ids: Collection[str], scores: _Floats) -> dict[str, float]:
        rows = [self._words.row_of[one] for one in doc_ids]
        return dict(zip(doc_ids, scores[rows].tolist(), strict=True))

    def _chunks(self, doc_id: str) -> tuple[int, int]:
        row = self._words.row_of[doc_id]
        return int(self._starts[row]), int(self._starts[row + 1])


def check_kept_files() -> Iterator[tuple[str, str]]:
    """What `assay doctor --deep` hashes: its name, and what is wrong with it, or "".

    Damage is found when a file is used, too; this finds it in files that nobody has used for a
    while, and in indexes too large to be hashed whenever they are opened.
    """
    cache, path = cache_folder(), os.environ.get("QDRANT_PATH")
    for folder in dict.fromkeys([cache / "index", *([Path(path).expanduser()] if path else [])]):
        for kept in sorted(folder.glob("*/*/manifest.json")):
            yield f"index {kept.parents[1].name}", _damage(kept.parent)
    for kept in sorted((cache / "bm25").glob("*/manifest.json")):
        yield f"BM25 index {kept.parent.name}", _damage(kept.parent)
    try:
        found = "; ".join(VectorCache(cache / "vectors.sqlite3").check())
    except (AssayError, OSError) as error:  # a pipe, say, or somebody else's
        found = str(error)
    yield "vector cache", f"damaged ({found}); it is computed again when used" if found else ""
    for kept in sorted((cache / "tuned").glob("*.model")):
        yield f"tuned model {kept.name}", _tuned_damage(kept)


def _damage(folder: Path) -> str:
    try:
        check_folder(folder, every=True)
    except DamagedIndexError as error:
        return f"{error.damage}; it is rebuilt when it is next used"
    return ""


def _tuned_damage(path: Path) -> str:
    try:
        from assay.search.tuning.model import check_model

        check_model(path)
    except ImportError:
        return ""  # without the extra [tuned] nobody uses it
    except (AssayError, OSError) as error:
        return str(error)
    return ""

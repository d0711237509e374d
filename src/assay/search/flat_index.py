"""A small index as arrays: every document is scored, so what is found is exact.

An engine answers each call of a query with hundreds of points as objects, which takes longer than
the products, and is slow to open. A small index is one matrix of vectors, one list of BM25 postings
and the payloads, mapped from files of its generation: a signal is one product, and only the best
documents become objects.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from itertools import chain
from operator import lt
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from assay.files import read_file
from assay.net.json import JsonObject, parse_json
from assay.search.bm25 import SparseVector
from assay.search.embedding import Vectors
from assay.search.filters import FilterCondition, holds
from assay.search.fusion import DEPTH, ranks_in
from assay.search.index_files import are_sealed, damaged_index, retract_generation
from assay.search.postings import Postings, best_rows, ends_fit, open_array
from assay.search.store import FLAT_KB, PLACE, ChunkPayload, Manifest, Point, Stored

FOLDER = "flat"
_POINTS = "points.json"
_ARRAYS = {
    "vectors": "<f4",
    **dict(zip((one.name for one in fields(Postings)), ("<u4", "<i8", "<u4", "<f4"), strict=True)),
    "payloads": "|u1",
    "payload_ends": "<i8",
}
_FILES = (_POINTS, *(f"{name}.npy" for name in _ARRAYS))
# What is read whole when an index is opened: files of somebody else may be of any size.
# Fewer than one document in so many are scored one by one, not with the whole array.
_READ_SINGLY_BELOW = 10
_MAX_LISTED, _MAX_BYTES = 64 << 20, 1 << 30
_PAYLOAD = {"doc_id": str, "title": str, "text": str, "chunk_index": int, "total_chunks": int}
_PAYLOAD |= {"metadata": dict, "content_hash": str}

_Floats = NDArray[np.float32]
_Array = NDArray[Any]


class FlatPoint(NamedTuple):
    """A chunk, as it is written."""

    id: str
    doc_id: str
    chunk_index: int
    total_chunks: int
    dense: Vectors
    bm25: SparseVector | None
    payload: bytes
    """In JSON."""

    @classmethod
    def of(cls, point: Point) -> Self:
        """A point in the form in which it is written."""
        payload = point.payload
        place = payload["doc_id"], payload["chunk_index"], payload["total_chunks"]
        written = json.dumps(payload, ensure_ascii=False).encode("utf-8", "surrogatepass")
        return cls(point.id, *place, point.dense, point.bm25, written)

    def point(self) -> Point:
        """The point that it was made of."""
        return Point(self.id, self.dense, self.bm25, _parsed(self.payload))

    @property
    def size(self) -> int:
        """About how many bytes it takes on the disk."""
        words = len(self.bm25.indices) if self.bm25 else 0
        return self.dense.nbytes + 8 * words + len(self.payload) + 200


class FlatIndex:
    """Searches a generation that is a few arrays; safe to ask from several threads."""

    def __init__(self, generation: Path, manifest: Manifest) -> None:
        folder = generation / FOLDER
        self._generation, self.manifest = generation, manifest
        # Read now: a writer may remove the folder at any time, and what is mapped then stays.
        try:
            self._table = _read_table(folder / _POINTS)
            self._vectors, *postings, self._payloads, self._payload_ends = (
                open_array(folder / f"{name}.npy", kind, 2 if name == "vectors" else 1)
                for name, kind in _ARRAYS.items()
            )
            self._postings = Postings(*postings)
            if problem := self._problem():
                raise ValueError(problem)
        except (OSError, ValueError) as error:
            raise damaged_index(generation, str(error)) from error

    def _problem(self) -> str:
        """What does not fit together in files that somebody else may have written, or nothing."""
        (rows, width), ends = self._vectors.shape, self._payload_ends
        read = (self._vectors, ends, *vars(self._postings).values())
        if rows * width * 4 > FLAT_KB * 1024 or any(one.nbytes > _MAX_BYTES for one in read):
            return "it is larger than a small index can be"
        if width != self.manifest.dimension or not np.isfinite(self.dense(self._vectors)).all():
            return "a vector has another dimension, or no numbers"
        if {rows} != {len(self._table), len(ends), len(self._row_of)}:
            return "its files are not about the same chunks"
        if not ends_fit(ends, len(self._payloads)):
            return "its payloads have other lengths"
        sizes = np.diff(self.starts)
        numbers = np.arange(rows) - np.repeat(self.starts[:-1], sizes)
        places = [(doc_id, number) for _, doc_id, number, _ in self._table]
        fits = np.array_equal([place[1] for place in places], numbers)
        fits = fits and np.array_equal([each[3] for each in self._table], np.repeat(sizes, sizes))
        if not fits or not all(map(lt, places, places[1:])):
            return "its chunks are not in order"
        return self._postings.problem(rows)

    @staticmethod
    def is_in(generation: Path) -> bool:
        """Whether a generation was sealed with all the files; a large one has the engine's."""
        return are_sealed(generation, [generation / FOLDER / name for name in _FILES])

    def candidates(self, where: Sequence[FilterCondition] = ()) -> "FlatCandidates":
        """The candidates of one query: see `Searcher`."""
        if not where:
            return FlatCandidates(self)
        rows = self.starts[:-1].tolist()
        return FlatCandidates(self, np.array([self._meets(row, where) for row in rows], bool))

    def fetch(self, ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
        """The points that exist, with their dense vectors if asked for."""
        known = [(one, self._row_of[one]) for one in ids if one in self._row_of]
        return [
            Stored(one, self._payload(row), self.vector(row).tolist() if vectors else ())
            for one, row in known
        ]

    def matching(self, ids: Sequence[str], where: Sequence[FilterCondition]) -> set[str]:
        """The ids of those points that meet the conditions."""
        known = {one: self._row_of[one] for one in ids if one in self._row_of}
        return {one for one, row in known.items() if self._meets(row, where)}

    def entries(self) -> Iterator[tuple[str, str, int]]:
        """Document id, content hash and number of chunks, of each chunk."""
        for row, (_, doc_id, _, total_chunks) in enumerate(self._table):
            yield doc_id, self._payload(row)["content_hash"], total_chunks

    def points(self) -> Iterator[FlatPoint]:
        """Every point, to write another generation."""
        postings = self._postings
        counts = np.diff(postings.ends, prepend=0)
        terms, order = np.repeat(postings.terms, counts), np.argsort(postings.rows, kind="stable")
        ends = np.cumsum(np.bincount(postings.rows, minlength=len(self._vectors))).tolist()
        for row, place in enumerate(self._table):
            own = order[ends[row - 1] if row else 0 : ends[row]]
            words = SparseVector(terms[own].tolist(), postings.weights[own].tolist())
            yield FlatPoint(*place, self.vector(row), words or None, self._written(row))

    def close(self) -> None:
        """Nothing to do: what is mapped goes with the last reference."""

    def _meets(self, row: int, where: Sequence[FilterCondition]) -> bool:
        return all(holds(condition, self._metadata[row]) for condition in where)

    def _payload(self, row: int) -> ChunkPayload:
        with suppress(ValueError, RecursionError):
            found = _parsed(self._written(row))
            if _is_payload(found) and tuple(map(found.get, PLACE)) == self._table[row][1:]:
                return found
        retract_generation(self._generation)  # readers of the index would find it too late
        raise damaged_index(self._generation, "a payload is not that of its chunk")

    def _written(self, row: int) -> bytes:
        start = self._payload_ends[row - 1] if row else 0
        return bytes(self._payloads[start : self._payload_ends[row]])

    @cached_property
    def _metadata(self) -> list[JsonObject]:
        """The metadata of each chunk, parsed once: every filter asks about all of them."""
        return [self._payload(row)["metadata"] for row in range(len(self._vectors))]

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {point[0]: row for row, point in enumerate(self._table)}

    @cached_property
    def doc_ids(self) -> list[str]:
        """The ids of all documents, in the order of the rows: `best_rows` breaks ties by them."""
        return list(self._first_rows)

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The place of each document in `doc_ids`."""
        return {doc_id: number for number, doc_id in enumerate(self.doc_ids)}

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each document, and the end of the last one."""
        return np.array([*self._first_rows.values(), len(self._vectors)], np.int64)

    @cached_property
    def _first_rows(self) -> dict[str, int]:
        first: dict[str, int] = {}
        for row, (_, doc_id, _, _) in enumerate(self._table):
            first.setdefault(doc_id, row)
        return first

    def lexical(self, query: SparseVector) -> _Floats:
        """The BM25 score of each document, whose first chunk has the words of all of it."""
        return self._postings.scores(query, len(self._vectors))[self.starts[:-1]]

    def dense(self, vector: Vectors, rows: slice = slice(None)) -> _Floats:
        """The cosine of each chunk, or of those in `rows`."""
        query = np.asarray(vector, np.float32)
        # Not a matrix product: BLAS would wake threads, which cost more than they save.
        return np.asarray(np.vecdot(self._vectors[rows], query), np.float32)

    def vector(self, row: int) -> Vectors:
        """The vector of the chunk in a row."""
        return np.asarray(self._vectors[row], np.float32)


class FlatCandidates:
    """The candidates of one query, by the scores of all documents: see `Candidates`."""

    def __init__(self, flat: FlatIndex, allowed: NDArray[np.bool_] | None = None) -> None:
        self._flat, self._allowed = flat, allowed
        self._found_by: dict[str, list[str]] = {}
        self._words: tuple[SparseVector, _Floats] | None = None
        self._near: tuple[Vectors, _Floats, _Floats] | None = None

    def lexical(self, query: SparseVector, depth: int = DEPTH) -> dict[str, float]:
        """The best of the documents that share a word with the query."""
        if not query:
            return {}
        scores = self._lexical(query)
        return self._found("bm25", self._best(scores, depth, scores > 0), scores)

    def dense(self, vector: Vectors, *, signal: str = "dense") -> dict[str, float]:
        """The nearest documents."""
        _, scores = self._dense(vector)
        return self._found(signal, self._best(scores, DEPTH), scores)

    def lexical_of(self, doc_ids: Collection[str], query: SparseVector) -> dict[str, float]:
        """The BM25 scores of documents that another signal found."""
        if not query:
            return {}
        scores = self._scores_of(doc_ids, self._lexical(query))
        return {doc_id: score for doc_id, score in scores.items() if score > 0}

    def dense_of(self, doc_ids: Collection[str], vector: Vectors) -> dict[str, float]:
        """The cosines of any documents; for a few, only their own chunks are read."""
        if self._near is None and _READ_SINGLY_BELOW * len(doc_ids) < len(self._flat.doc_ids):
            known = [one for one in doc_ids if one in self._flat.number_of]
            spans = [slice(*self._rows(one)) for one in known]
            chunks = np.zeros(self._flat.starts[-1], np.float32)
            for span in spans:
                chunks[span] = self._flat.dense(vector, span)
            # No search: the next one with this vector reads all.
            self._near = np.empty(0, np.float32), chunks, chunks
            return {one: float(chunks[of].max()) for one, of in zip(known, spans, strict=True)}
        _, scores = self._dense(vector)
        return self._scores_of(doc_ids, scores)

    def ranks(self) -> dict[str, dict[str, int]]:
        """The rank of each document in each signal that found it."""
        return ranks_in(self._found_by)

    def best_chunks(self, doc_ids: Iterable[str]) -> dict[str, int]:
        """The chunk of each document that is nearest to the vector of the last search."""
        if self._near is None:
            return {}
        _, chunks, _ = self._near
        known = self._flat.number_of
        spans = {doc_id: self._rows(doc_id) for doc_id in doc_ids if doc_id in known}
        return {one: int(chunks[first:end].argmax()) for one, (first, end) in spans.items()}

    def chunks_of(self, doc_id: str) -> int:
        """How many chunks a document has."""
        first, end = self._rows(doc_id)
        return end - first

    def vectors(self, doc_ids: Sequence[str]) -> dict[str, Vectors]:
        """The vector of each document's best chunk."""
        chunks = self.best_chunks(doc_ids)
        return {one: self._flat.vector(self._rows(one)[0] + chunks[one]) for one in doc_ids}

    def _lexical(self, query: SparseVector) -> _Floats:
        if self._words is None or self._words[0] is not query:
            self._words = query, self._flat.lexical(query)
        return self._words[1]

    def _dense(self, vector: Vectors) -> tuple[_Floats, _Floats]:
        """The cosine of each chunk, and for each document the highest of its chunks."""
        if self._near is None or self._near[0] is not vector:
            chunks = self._flat.dense(vector)
            self._near = vector, chunks, np.maximum.reduceat(chunks, self._flat.starts[:-1])
        return self._near[1:]

    def _best(
        self, scores: _Floats, depth: int, having: NDArray[np.bool_] | None = None
    ) -> NDArray[np.int64]:
        """The numbers of the best documents, among those that the filter allows."""
        if self._allowed is not None:
            having = self._allowed if having is None else self._allowed & having
        if having is None:
            return best_rows(scores, depth)
        numbers = np.flatnonzero(having)
        return np.asarray(numbers[best_rows(scores[numbers], depth)], np.int64)

    def _found(self, signal: str, best: NDArray[np.int64], scores: _Floats) -> dict[str, float]:
        doc_ids = self._flat.doc_ids
        order = [doc_ids[number] for number in best.tolist()]
        self._found_by[signal] = order
        return dict(zip(order, scores[best].tolist(), strict=True))

    def _scores_of(self, doc_ids: Collection[str], scores: _Floats) -> dict[str, float]:
        number_of = self._flat.number_of
        known = [one for one in doc_ids if one in number_of]
        numbers = [number_of[one] for one in known]
        return dict(zip(known, scores[numbers].tolist(), strict=True))

    def _rows(self, doc_id: str) -> tuple[int, int]:
        number = self._flat.number_of[doc_id]
        return int(self._flat.starts[number]), int(self._flat.starts[number + 1])


def write_flat(generation: Path, points: Iterable[FlatPoint], dimension: int) -> None:
    """Write the points, in the order of documents, into a generation that is not sealed yet."""
    known = sorted(points, key=lambda one: (one.doc_id, one.chunk_index))
    folder = generation / FOLDER
    folder.mkdir(exist_ok=True)
    vectors = _of_length_1([one.dense for one in known], dimension)
    payloads = np.frombuffer(b"".join(one.payload for one in known), np.uint8)
    ends = np.cumsum([len(one.payload) for one in known], dtype=np.int64)
    arrays = (vectors, *_columns(known), payloads, ends)
    for name, values in zip(_ARRAYS, arrays, strict=True):
        np.save(folder / f"{name}.npy", values, allow_pickle=False)
    table = [one[:4] for one in known]
    (folder / _POINTS).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def _of_length_1(vectors: Sequence[Vectors], dimension: int) -> _Floats:
    """Vectors scaled to length 1, as Qdrant keeps them, so that a product is a cosine.

    Those that have this length already are unchanged to the last bit.
    """
    found = np.array(vectors, np.float32).reshape(-1, dimension)
    squares = np.vecdot(found, found)
    others = (np.abs(squares - 1) > 1e-6) & (squares > 0)
    found[others] /= np.sqrt(squares[others])[:, None]
    return found


def _read_table(path: Path) -> list[tuple[str, str, int, int]]:
    """Id, document, number and count of each chunk. Raises `ValueError` for anything else."""
    found = parse_json(read_file(path, limit=_MAX_LISTED))
    rows = isinstance(found, list) and {list} >= {*map(type, found)} and {4} >= {*map(len, found)}
    kinds = [{*map(type, column)} for column in zip(*found, strict=True)] if rows else []
    if not rows or (found and kinds != [{str}, {str}, {int}, {int}]):
        raise ValueError(f"{path.name} does not list chunks")
    return list(map(tuple, found))


def _is_payload(value: object) -> bool:
    return isinstance(value, dict) and all(
        type(value.get(name)) is kind for name, kind in _PAYLOAD.items()
    )


def _parsed(payload: bytes) -> ChunkPayload:
    found: ChunkPayload = json.loads(payload.decode("utf-8", "surrogatepass"))
    return found


def _columns(points: Sequence[FlatPoint]) -> tuple[_Array, ...]:
    """The arrays of `Postings`."""
    vectors = [(row, one.bm25) for row, one in enumerate(points) if one.bm25]
    terms = np.fromiter(chain.from_iterable(one.indices for _, one in vectors), np.uint32)
    weights = np.fromiter(chain.from_iterable(one.values for _, one in vectors), np.float32)
    rows = np.repeat(
        np.array([row for row, _ in vectors], np.uint32), [len(one.indices) for _, one in vectors]
    )
    order = np.argsort(terms, kind="stable")
    known, having = np.unique(terms, return_counts=True)
    return known, np.cumsum(having), rows[order], weights[order]

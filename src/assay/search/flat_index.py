"""A small index in memory: every document is scored, so what is found is exact.

The engine answers each call of a query with hundreds of points as objects, which takes longer than
the products. A small index is also kept as one matrix of vectors and one list of BM25 postings,
mapped from files of its generation: a signal is then one product, and only the best documents
become objects. Searches with conditions on metadata, and the texts, stay with the engine.
"""

import json
import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assay.files import read_file
from assay.search.bm25 import SparseVector
from assay.search.embedding import Vectors
from assay.search.fusion import DEPTH, ranks_in
from assay.search.postings import Postings, best_rows

FOLDER = "flat"
_POINTS = "points.json"
_ARRAYS = ("vectors", *(one.name for one in fields(Postings)))

_Floats = NDArray[np.float32]
_Array = NDArray[Any]


class FlatPoint(NamedTuple):
    """What a search needs of a point."""

    id: str
    doc_id: str
    chunk_index: int
    total_chunks: int
    dense: Vectors
    bm25: SparseVector | None


class FlatIndex:
    """Scores every point of a small index; safe to ask from several threads."""

    def __init__(self, folder: Path) -> None:
        # Read now: a writer may remove the folder at any time, and what is mapped then stays.
        self._listed = read_file(folder / _POINTS)
        self._vectors, *postings = (
            np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False).view(np.ndarray)
            for name in _ARRAYS
        )
        self._postings = Postings(*postings)

    @classmethod
    def of(cls, generation: Path) -> "FlatIndex | None":
        """That of a generation, if it `has_flat`."""
        return cls(generation / FOLDER) if has_flat(generation) else None

    @cached_property
    def doc_ids(self) -> list[str]:
        """In order, which is that of the rows: so `best_rows` breaks ties by them."""
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
        table: list[tuple[str, str, int, int]] = json.loads(self._listed)
        first: dict[str, int] = {}
        for row, (_, doc_id, _, _) in enumerate(table):
            first.setdefault(doc_id, row)
        return first

    def lexical(self, query: SparseVector) -> _Floats:
        """The BM25 score of each document, whose first chunk has the words of all of it."""
        return self._postings.scores(query, len(self._vectors))[self.starts[:-1]]

    def dense(self, vector: Vectors) -> _Floats:
        """The cosine of each chunk."""
        # Not a matrix product: BLAS would wake threads, which cost more than they save.
        return np.asarray(np.vecdot(self._vectors, np.asarray(vector, np.float32)), np.float32)

    def vector(self, row: int) -> Vectors:
        """Of a chunk."""
        return np.asarray(self._vectors[row], np.float32)


class FlatCandidates:
    """The candidates of one query, by the scores of all documents: see `Candidates`."""

    def __init__(self, flat: FlatIndex) -> None:
        self._flat = flat
        self._found_by: dict[str, list[str]] = {}
        self._words: tuple[SparseVector, _Floats] | None = None
        self._near: tuple[Vectors, _Floats, _Floats] | None = None

    def lexical(self, query: SparseVector, depth: int = DEPTH) -> dict[str, float]:
        """The best of the documents that share a word with the query."""
        if not query:
            return {}
        scores = self._lexical(query)
        having = np.flatnonzero(scores)
        return self._found("bm25", having[best_rows(scores[having], depth)], scores)

    def dense(self, vector: Vectors, *, signal: str = "dense") -> dict[str, float]:
        """The nearest documents."""
        _, scores = self._dense(vector)
        return self._found(signal, best_rows(scores, DEPTH), scores)

    def lexical_of(self, doc_ids: Collection[str], query: SparseVector) -> dict[str, float]:
        """Documents that another signal found."""
        if not query:
            return {}
        scores = self._scores_of(doc_ids, self._lexical(query))
        return {doc_id: score for doc_id, score in scores.items() if score > 0}

    def dense_of(self, doc_ids: Collection[str], vector: Vectors) -> dict[str, float]:
        """Documents that another signal, or none, found."""
        _, scores = self._dense(vector)
        return self._scores_of(doc_ids, scores)

    def ranks(self) -> dict[str, dict[str, int]]:
        """Of each document in each signal that found it."""
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
        """Of each document's best chunk."""
        chunks = self.best_chunks(doc_ids)
        return {one: self._flat.vector(self._rows(one)[0] + chunks[one]) for one in doc_ids}

    def _lexical(self, query: SparseVector) -> _Floats:
        if self._words is None or self._words[0] is not query:
            self._words = query, self._flat.lexical(query)
        return self._words[1]

    def _dense(self, vector: Vectors) -> tuple[_Floats, _Floats]:
        """Of each chunk, and of each document that of its best one."""
        if self._near is None or self._near[0] is not vector:
            chunks = self._flat.dense(vector)
            self._near = vector, chunks, np.maximum.reduceat(chunks, self._flat.starts[:-1])
        return self._near[1:]

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


def has_flat(generation: Path) -> bool:
    """Not a large index, nor one of an earlier version, which had no arrays or others."""
    names = (_POINTS, *(f"{name}.npy" for name in _ARRAYS))
    return all((generation / FOLDER / name).is_file() for name in names)


def write_flat(generation: Path, points: Iterable[FlatPoint], dimension: int) -> None:
    """Write the points, in the order of documents, into a generation that is not sealed yet."""
    known = sorted(points, key=lambda one: (one.doc_id, one.chunk_index))
    folder = generation / FOLDER
    folder.mkdir(exist_ok=True)
    vectors = np.array([one.dense for one in known], np.float32).reshape(-1, dimension)
    for name, values in zip(_ARRAYS, (vectors, *_columns(known)), strict=True):
        np.save(folder / f"{name}.npy", values, allow_pickle=False)
    table = [one[:4] for one in known]
    (folder / _POINTS).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def remove_flat(generation: Path) -> None:
    """Of a generation that is going to have other points."""
    shutil.rmtree(generation / FOLDER, ignore_errors=True)


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

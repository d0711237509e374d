"""A small index in memory: every point is scored, so what is found is exact.

The engine answers each call of a query with a thousand ids and scores as objects, which takes
longer than the products. A small index is also kept as one matrix of vectors and one list of BM25
postings, mapped from files of its generation: a signal is then one product, and only the best
points become objects. Searches with conditions on metadata, and the texts, stay with the engine.
"""

import json
import shutil
from collections.abc import Iterable, Sequence
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
from assay.search.postings import Postings, best_rows
from assay.search.store import Found

FOLDER = "flat"
_POINTS = "points.json"
_ARRAYS = ("vectors", *(one.name for one in fields(Postings)))

# A query makes hundreds: the constructor of a named tuple takes as long again.
_new = tuple.__new__

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
        """That of a generation; None for a large index, or one of an earlier version, which had no
        arrays or others.
        """
        folder = generation / FOLDER
        names = (_POINTS, *(f"{name}.npy" for name in _ARRAYS))
        return cls(folder) if all((folder / name).is_file() for name in names) else None

    @cached_property
    def _places(self) -> list[tuple[str, int, int]]:
        return [(doc_id, chunk, chunks) for _, doc_id, chunk, chunks in self._table]

    @cached_property
    def _row_of(self) -> dict[str, int]:
        return {point[0]: row for row, point in enumerate(self._table)}

    @cached_property
    def _table(self) -> list[tuple[str, str, int, int]]:
        found: list[tuple[str, str, int, int]] = json.loads(self._listed)
        return found

    def nearest(
        self, vector: Vectors | SparseVector, limit: int, among: Sequence[str] | None = None
    ) -> list[Found]:
        """The best points, best first, as `Searcher.nearest` returns them."""
        rows = self._known(among)
        if isinstance(vector, SparseVector):
            scores = self._postings.scores(vector, len(self._vectors))
            scores = scores if rows is None else scores[rows]
            found = np.flatnonzero(scores)  # without a word of the query, nothing is found
            rows, scores = found if rows is None else rows[found], scores[found]
        elif rows is None:
            scores = self._dense(self._vectors, vector)
        else:
            scores = self._dense(self._vectors[rows], vector)
        best = best_rows(scores, limit)
        chosen = best if rows is None else rows[best]
        places = self._places
        numbers: list[int] = chosen.tolist()
        return [
            _new(Found, (*places[number], score))
            for number, score in zip(numbers, scores[best].tolist(), strict=True)
        ]

    def _known(self, among: Sequence[str] | None) -> NDArray[np.int64] | None:
        if among is None:
            return None
        row_of = self._row_of
        return np.array(sorted([row_of[one] for one in set(among) if one in row_of]), np.int64)

    def _dense(self, vectors: _Floats, vector: Vectors) -> _Floats:
        # Not a matrix product: BLAS would wake threads, which cost more than they save.
        return np.asarray(np.vecdot(vectors, np.asarray(vector, np.float32)), np.float32)


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

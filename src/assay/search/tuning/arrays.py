"""The few shapes of numbers that tuning works with, and the steps that many modules share."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse  # type: ignore[import-untyped]
from scipy.linalg.blas import ssymv  # type: ignore[import-untyped]

Floats: TypeAlias = npt.NDArray[np.float32]
Integers: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.bool_]
# scipy ships no types: a compressed sparse row matrix of 32-bit floats.
Sparse: TypeAlias = sparse.csr_matrix

TINY = 1e-9


def sparse_matrix(
    values: npt.ArrayLike, rows: npt.ArrayLike, columns: npt.ArrayLike, shape: tuple[int, int]
) -> Sparse:
    """From coordinates; values of one place are added."""
    data = np.asarray(values, np.float32)
    return sparse.csr_matrix(
        (data, (np.asarray(rows, np.int64), np.asarray(columns, np.int64))), shape=shape
    )


def sparse_rows(columns: Integers, values: Floats, width: int) -> Sparse:
    """One sparse row for each row of `columns`, all with as many entries."""
    count, length = columns.shape
    starts = np.arange(0, count * length + 1, length)
    return sparse.csr_matrix((values.ravel(), columns.ravel(), starts), shape=(count, width))


def sparse_of_rows(columns: Sequence[Integers], values: Sequence[Floats], width: int) -> Sparse:
    """As `sparse_rows` for each, one below the other: to build one matrix is quicker than many."""
    lengths = np.concatenate([np.full(len(part), part.shape[1]) for part in columns])
    data = np.concatenate([part.ravel() for part in values])
    indices = np.concatenate([part.ravel() for part in columns])
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return sparse.csr_matrix((data, indices, starts), shape=(len(lengths), width))


def sparse_from_parts(
    data: npt.NDArray[Any],
    indices: npt.NDArray[Any],
    indptr: npt.NDArray[Any],
    shape: npt.NDArray[Any],
) -> Sparse:
    """From the arrays of a compressed sparse row matrix."""
    return sparse.csr_matrix((data, indices, indptr), shape=(int(shape[0]), int(shape[1])))


def scaled_rows(matrix: Sparse, factors: npt.ArrayLike) -> Sparse:
    """Each row times its factor."""
    scaled = matrix.tocsr().astype(np.float32)
    scaled.data = scaled.data * np.repeat(np.asarray(factors, np.float32), np.diff(scaled.indptr))
    return scaled


def horizontal_stack(matrices: Sequence[Sparse]) -> Sparse:
    """The matrices side by side."""
    return sparse.hstack(matrices).tocsr()


def vertical_stack(matrices: Sequence[Sparse]) -> Sparse:
    """The matrices one below the other."""
    return sparse.vstack(matrices).tocsr()


def products(rows: Mapping[str, Floats], matrix: Sparse) -> dict[str, Floats]:
    """Each of the dense matrices times the transpose of the sparse one, at once: every product has
    overhead, and to transpose a sparse matrix has more.
    """
    together = (matrix @ np.concatenate(list(rows.values())).T).T
    parts = np.split(np.asarray(together, np.float32), len(rows))
    return dict(zip(rows, parts, strict=True))


def times_symmetric(rows: Floats, matrix: Floats) -> Floats:
    """A single row reads half of the matrix, which is most of what a query reads at all."""
    if len(rows) > 1:
        return rows @ matrix
    return np.asarray(ssymv(1.0, matrix.T, rows[0]), np.float32)[None, :]


def dense(matrix: Any) -> Floats:
    """The matrix with its zeros."""
    return np.asarray(matrix.toarray(), np.float32)


def unit_rows(matrix: npt.ArrayLike) -> Floats:
    """Rows of length one; a row of zeros stays as it is."""
    array = np.asarray(matrix, np.float32)
    return np.asarray(array / (np.linalg.norm(array, axis=-1, keepdims=True) + TINY), np.float32)


def sums(matrix: Sparse, axis: int) -> Floats:
    """Over the axis, as one row."""
    return np.asarray(matrix.sum(axis), np.float32).ravel()


def by_maximum(scores: Floats) -> Floats:
    """Each row divided by its maximum."""
    return np.asarray(scores / (scores.max(1, keepdims=True) + TINY), np.float32)


def min_max(scores: Floats) -> Floats:
    """Each row scaled to 0..1."""
    low = scores.min(1, keepdims=True)
    return np.asarray((scores - low) / (scores.max(1, keepdims=True) - low + TINY), np.float32)


def best_columns(scores: Floats, count: int) -> Integers:
    """The columns of the highest scores in each row, best first; ties to the lower column."""
    width = scores.shape[1]
    count = min(count, width)
    if count < width:
        # Sorting the chosen columns first makes the stable sort below break ties by column.
        best = np.sort(np.argpartition(-scores, count - 1, axis=1)[:, :count], axis=1)
    else:
        best = np.broadcast_to(np.arange(width), scores.shape)
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
    return np.take_along_axis(best, order, 1)

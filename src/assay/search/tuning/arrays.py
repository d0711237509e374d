"""The few shapes of numbers that tuning works with, and the steps that many modules share."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse  # type: ignore[import-untyped]

Floats: TypeAlias = npt.NDArray[np.float32]
Integers: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.bool_]
# scipy ships no types: a compressed sparse row matrix of 32-bit floats.
Sparse: TypeAlias = sparse.csr_matrix

TINY = 1e-9


def sparse_rows(columns: Integers, values: Floats, width: int) -> Sparse:
    """One sparse row for each row of `columns`, all with as many entries."""
    count, length = columns.shape
    starts = np.arange(0, count * length + 1, length)
    return sparse.csr_matrix((values.ravel(), columns.ravel(), starts), shape=(count, width))


def scaled_rows(matrix: Sparse, factors: npt.ArrayLike) -> Sparse:
    """Each row times its factor."""
    scaled = matrix.tocsr().astype(np.float32)
    scaled.data = scaled.data * np.repeat(np.asarray(factors, np.float32), np.diff(scaled.indptr))
    return scaled


def products(rows: Mapping[str, Floats], matrix: Sparse) -> dict[str, Floats]:
    """Each of the dense matrices times the transpose of the sparse one, at once: every product has
    overhead, and to transpose a sparse matrix has more.
    """
    together = (matrix @ np.concatenate(list(rows.values())).T).T
    parts = np.split(np.asarray(together, np.float32), len(rows))
    return dict(zip(rows, parts, strict=True))


# The entries of a row up to which numpy is quicker than scipy.
_NUMPY_BELOW = 100


def product(rows: Sparse, matrix: Sparse) -> Floats:
    """The product with its zeros; of a single row without going through the matrix twice."""
    if rows.shape[0] > 1:
        return dense(rows @ matrix)
    if len(rows.indices) > _NUMPY_BELOW:
        return np.asarray(matrix[rows.indices].T @ rows.data, np.float32)[None, :]
    starts, ends = matrix.indptr[rows.indices], matrix.indptr[rows.indices + 1]
    lengths = ends - starts
    places = np.repeat(ends - np.cumsum(lengths), lengths) + np.arange(lengths.sum())
    values = matrix.data[places] * np.repeat(rows.data, lengths)
    found = np.bincount(matrix.indices[places], values, minlength=matrix.shape[1])
    return found.astype(np.float32)[None, :]


def dense(matrix: Any) -> Floats:
    """The matrix with its zeros."""
    return np.asarray(matrix.toarray(), np.float32)


def unit_rows(matrix: npt.ArrayLike) -> Floats:
    """Rows of length one; a row of zeros stays as it is."""
    array = np.asarray(matrix, np.float32)
    return np.asarray(array / lengths_of(array)[..., None], np.float32)


def lengths_of(rows: Floats) -> Floats:
    """More than zero, so that they can divide."""
    return np.asarray(np.linalg.norm(rows, axis=-1) + TINY, np.float32)


def fourth_power(values: Floats) -> Floats:
    """In two products: `**` takes logarithms."""
    return np.square(np.square(values))


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


def sort_keys(scores: Floats) -> Integers:
    """Numbers that sort as the columns do by score, best first, ties to the lower column; the
    column is in their lower half. Integers that are all different are sorted several times as
    quickly as floats in a stable way, and the same on every processor.
    """
    bits = (np.float32(0) - scores).astype(np.float32, copy=False).view(np.int32)
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # of negative floats the bits descend
    return (ascending.astype(np.int64) << 32) | np.arange(scores.shape[-1])


def columns_of(keys: Integers) -> Integers:
    """What `sort_keys` has put into each of them."""
    return keys & 0xFFFFFFFF


def best_columns(scores: Floats, count: int) -> Integers:
    """The columns of the highest scores in each row, best first; ties to the lower column."""
    keys = sort_keys(scores)
    if count < scores.shape[1]:
        keys = np.partition(keys, count - 1, axis=1)[:, :count]
    return columns_of(np.sort(keys, axis=1))

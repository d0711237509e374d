"""Postings of BM25: for each term the rows that have it, and what scoring them takes."""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from assay.errors import SearchError
from assay.files import require_regular

if TYPE_CHECKING:
    from assay.search.bm25 import SparseVector

_Array = NDArray[Any]
# Of term frequencies, 8 for each term: a few kilobytes of anybody else unpack to gigabytes.
_MAX_UNPACKED = 512 << 20


@dataclass(frozen=True)
class Postings:
    """For each term, the rows that have it and its weight in each.

    Rows are numbered in the order of their ids, so that `best_rows` breaks ties by these.
    """

    terms: _Array
    """Hashes, in order."""
    ends: _Array
    """Where the postings of each term end."""
    rows: _Array
    weights: _Array

    def problem(self, size: int) -> str:
        """What does not fit together, for `size` rows; empty if all does. Reads everything."""
        lengths = len(self.terms) == len(self.ends), len(self.rows) == len(self.weights)
        if not all(lengths) or not ends_fit(self.ends, len(self.rows)):
            return "its terms do not fit its postings"
        if not np.all(self.terms[1:] > self.terms[:-1]):
            return "its terms are not in order"
        if len(self.rows) and (
            self.rows.max() >= size or np.diff(self.ends, prepend=0).max() > size
        ):
            return "a posting names a row that there is not"
        return "" if np.isfinite(self.weights).all() else "a weight is not a number"

    def span(self, term: int) -> tuple[int, int] | None:
        """Where the postings of a term are; None for a term that no row has."""
        place = int(np.searchsorted(self.terms, np.uint32(term)))
        if place == len(self.terms) or self.terms[place] != term:
            return None
        return int(self.ends[place - 1]) if place else 0, int(self.ends[place])

    def scores(self, query: "SparseVector", size: int, steps: int = 1) -> NDArray[np.float32]:
        """The score of each of `size` rows; 0 for one without a word of the query.

        Exact whatever the order of the terms, as weights are rounded to steps.

        Parameters:
            query: the weight of each term in the query.
            size: how many rows there are.
            steps: a power of two, which the weights are divided by.
        """
        scores = np.zeros(size, np.float32)
        for term, value in zip(query.indices, query.values, strict=True):
            start, end = self.span(term) or (0, 0)
            scores[self.rows[start:end]] += self.weights[start:end] * np.float32(value / steps)
        return scores


def ends_fit(ends: _Array, length: int) -> bool:
    """Whether spans that end there, one after the other, are all of `length` items."""
    if not len(ends):
        return length == 0
    return bool(ends[0] >= 0 and ends[-1] == length and np.all(ends[1:] >= ends[:-1]))


def open_array(path: Path, kind: str, dimensions: int = 1) -> _Array:
    """The array of numbers in a file, mapped; `ValueError` or `OSError` for anything else.

    Nothing in the file is ever executed, and only the parts that are asked for are read.
    """
    require_regular(path)
    try:
        found = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError):
        raise
    except Exception as error:  # its header is a Python literal, which fails in many ways
        raise ValueError(f"{path.name} is not an array: {error}") from None
    if found.dtype != np.dtype(kind) or found.ndim != dimensions or not found.flags.c_contiguous:
        raise ValueError(f"{path.name} is an array of other numbers: {found.dtype} {found.shape}")
    return found.view(np.ndarray)


def best_rows(scores: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The rows of the highest scores, best first; of equal ones the lower row."""
    rows = np.arange(len(scores))
    if 0 < count < len(scores):
        least = np.partition(scores, len(scores) - count)[len(scores) - count]
        rows = np.flatnonzero(scores >= least)
    return np.asarray(rows[np.argsort(-scores[rows], kind="stable")][:count], np.int64)


def pack_frequencies(frequencies: Mapping[int, int]) -> str:
    """Term hashes and how many documents have each, as text of about four characters a term."""
    indices = np.array(sorted(frequencies), np.int64)
    counts = np.array([frequencies[index] for index in indices.tolist()], np.int64)
    table = np.stack([np.diff(indices, prepend=0), counts]).astype("<u4")
    # Byte by byte: the high bytes of all numbers together are nearly all zeros.
    planes = table.view(np.uint8).reshape(2, -1, 4).transpose(0, 2, 1)
    return base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")


def unpack_frequencies(packed: str) -> dict[int, int]:
    """What `pack_frequencies` packed; SearchError where it is something else."""
    try:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(base64.b64decode(packed, validate=True), _MAX_UNPACKED)
        if not unpacking.eof:
            raise ValueError("truncated, or more than is allowed")
        planes = np.frombuffer(content, np.uint8).reshape(2, 4, -1).transpose(0, 2, 1)
    except (ValueError, zlib.error) as error:
        raise damaged_frequencies(str(error)) from None
    table = np.ascontiguousarray(planes).view("<u4").reshape(2, -1)
    indices = np.cumsum(table[0], dtype=np.int64)
    return dict(zip(indices.tolist(), table[1].tolist(), strict=True))


def damaged_frequencies(why: str) -> SearchError:
    """The error for frequencies that are not those of an index."""
    what = f"the term frequencies of the index are damaged ({why})"
    return SearchError(f"{what}; rebuild it with: assay index")

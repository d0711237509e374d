"""Texts as counts of word stems and of character sequences."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from assay.search import bm25
from assay.search.tuning.arrays import Floats, Sparse, sparse_from_parts, sums

Vocabulary = dict[str, int]

# A query is a question or a heading; what follows the first pages of a longer one adds only time.
LONGEST_TEXT = 20_000
GRAM_SIZES = (3, 4, 5)

_WORD = re.compile(r"[^\W_]+")


def stems(text: str) -> list[str]:
    """The terms that BM25 counts."""
    return bm25.terms(text[:LONGEST_TEXT])


def character_grams(text: str) -> list[str]:
    """Sequences inside words, with a space at both ends, so that endings and beginnings differ."""
    found = []
    for word in _WORD.findall(text[:LONGEST_TEXT].lower()):
        padded = f" {word} "
        for size in GRAM_SIZES:
            found += [padded[start : start + size] for start in range(len(padded) - size + 1)]
    return found


def vocabulary_of(texts: Iterable[Sequence[str]]) -> Vocabulary:
    vocabulary: Vocabulary = {}
    for tokens in texts:
        for token in tokens:
            vocabulary.setdefault(token, len(vocabulary))
    return vocabulary


def count(texts: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Sparse:
    """Texts by tokens; a token that is not in the vocabulary is left out."""
    columns: list[int] = []
    values: list[int] = []
    starts = [0]
    for tokens in texts:
        found = Counter(vocabulary[token] for token in tokens if token in vocabulary)
        for column in sorted(found):
            columns.append(column)
            values.append(found[column])
        starts.append(len(columns))
    return sparse_from_parts(
        np.array(values, np.float32),
        np.array(columns, np.int32),
        np.array(starts, np.int32),
        np.array([len(texts), len(vocabulary)]),
    )


def bm25_weights(counts: Sparse, k1: float, b: float) -> Sparse:
    """What each word of a text adds to its score, as words by texts."""
    lengths = sums(counts, 1)
    average = float(lengths[lengths > 0].mean()) if lengths.any() else 1.0
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = bm25.inverse_frequency(having, counts.shape[0])
    saturated = bm25.term_weights(
        counts.data,
        np.repeat(lengths, np.diff(counts.indptr)),
        average,
        bm25.Bm25Settings(k1, b),
    )
    weights = counts.copy()
    weights.data = idf[counts.indices] * saturated
    return weights.astype(np.float32).T.tocsr()


def inverse_frequency(counts: Sparse) -> Floats:
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.asarray(np.log((1 + counts.shape[0]) / (1 + having)) + 1, np.float32)


def tf_idf(counts: Sparse, idf: Floats) -> Sparse:
    """Rows of length one, so that products of rows are cosines."""
    weights, texts = counts.copy(), counts.shape[0]
    values = (1 + np.log(counts.data)) * idf[counts.indices]
    rows = np.repeat(np.arange(texts), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(rows, values**2, minlength=texts))
    weights.data = np.asarray(values / np.maximum(lengths, 1e-9)[rows], np.float32)
    return weights

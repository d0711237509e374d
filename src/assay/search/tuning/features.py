"""Queries and documents as numbers: terms, character sequences, vectors, and judgments."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse  # type: ignore[import-untyped]

from assay.data.dataset import Document, Judgments, Query
from assay.search import bm25
from assay.search.analyzer import DEFAULT_LANGUAGE, Analyzer, open_analyzer

Floats: TypeAlias = npt.NDArray[np.float32]
Integers: TypeAlias = npt.NDArray[np.int64]
Bits: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
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


Vocabulary = dict[str, int]

# A query is a question or a heading; what follows the first pages of a longer one adds only time.
MAX_TEXT = 20_000
GRAM_SIZES = (3, 4, 5)
LEXICAL_SHARE = 0.3

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class TuningData:
    """A data set with the vectors of its documents and queries, all in the same order.

    `judgments` are by split: `train` is learned from; `dev`, if there is one, only measures.
    """

    documents: Sequence[Document]
    doc_vectors: Floats
    queries: Sequence[Query]
    query_vectors: Floats
    judgments: Mapping[str, Judgments]
    language: str = DEFAULT_LANGUAGE

    @cached_property
    def document_index(self) -> Mapping[str, int]:
        """Document id to its row."""
        return {document.id: row for row, document in enumerate(self.documents)}

    def judged(self, split: str) -> list[int]:
        """The queries of a split with a known relevant document, by index, in a fixed order."""
        return [query for query in range(len(self.queries)) if self._relevant(split, query)]

    def grades(self, split: str, queries: Sequence[int]) -> Sparse:
        """Queries by documents; what was not judged relevant is zero."""
        known = [
            (grade, row, document)
            for row, query in enumerate(queries)
            for document, grade in self._relevant(split, query)
        ]
        grades, rows, columns = np.array(known, np.int64).reshape(-1, 3).T
        shape = (len(queries), len(self.documents))
        return sparse.csr_matrix((grades.astype(np.float32), (rows, columns)), shape=shape)

    def _relevant(self, split: str, query: int) -> list[tuple[int, int]]:
        grades = self.judgments.get(split, {}).get(self.queries[query].id, {})
        found = ((self.document_index.get(one), grade) for one, grade in grades.items())
        return [(row, grade) for row, grade in found if row is not None and grade > 0]


def character_grams(text: str) -> list[str]:
    """Sequences inside words, with a space at both ends, so that endings and beginnings differ."""
    found = []
    for word in _WORD.findall(text[:MAX_TEXT].lower()):
        padded = f" {word} "
        for size in GRAM_SIZES:
            found += [padded[start : start + size] for start in range(len(padded) - size + 1)]
    return found


def vocabulary_of(texts: Iterable[Sequence[str]]) -> Vocabulary:
    """Every token with a number, in order of appearance."""
    vocabulary: Vocabulary = {}
    for tokens in texts:
        for token in tokens:
            vocabulary.setdefault(token, len(vocabulary))
    return vocabulary


def term_matrix(texts: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Sparse:
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
    parts = (np.array(values, np.float32), np.array(columns, np.int32), np.array(starts, np.int32))
    return sparse.csr_matrix(parts, shape=(len(texts), len(vocabulary)))


def bm25_weights(counts: Sparse, k1: float, b: float) -> Sparse:
    """What each word of a text adds to its score, as words by texts."""
    lengths = sums(counts, 1)
    average = float(lengths[lengths > 0].mean()) if lengths.any() else 1.0
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = bm25.inverse_frequency(having, counts.shape[0])
    settings = bm25.Bm25Settings(k1, b)
    spread = np.repeat(lengths, np.diff(counts.indptr))
    weights = counts.copy()
    frequencies = bm25.normalized(counts.data, spread, average, b)
    weights.data = idf[counts.indices] * bm25.saturated(frequencies, settings)
    return weights.astype(np.float32).T.tocsr()


def query_idf(counts: Sparse) -> Floats:
    """Inverse document frequency among queries, smoothed."""
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    return np.asarray(np.log((1 + counts.shape[0]) / (1 + having)) + 1, np.float32)


def tf_idf(counts: Sparse, idf: Floats) -> Sparse:
    """Rows of length one, so that products of rows are cosines."""
    texts = counts.shape[0]
    values = (1 + np.log(counts.data)) * idf[counts.indices]
    rows = np.repeat(np.arange(texts), np.diff(counts.indptr))
    lengths = np.sqrt(np.bincount(rows, values**2, minlength=texts))
    weights = np.asarray(values / np.maximum(lengths, 1e-9)[rows], np.float32)
    return sparse.csr_matrix((weights, counts.indices, counts.indptr), shape=counts.shape)


@dataclass(frozen=True)
class QueryFeatures:
    """Some queries, ready to be compared with documents and with each other: counts of stems for
    BM25, tf-idf of stems (`words`) and of character sequences (`grams`) among queries.
    """

    vectors: Floats
    stems: Sparse
    words: Sparse
    grams: Sparse
    lengths: Floats

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, which: npt.ArrayLike) -> "QueryFeatures":
        """Some of the queries, by row."""
        at = np.asarray(which, np.int64)
        return QueryFeatures(
            self.vectors[at], self.stems[at], self.words[at], self.grams[at], self.lengths[at]
        )


@dataclass(frozen=True)
class QueryEncoder:
    """Knows the words of the documents and of the training queries."""

    vocabulary: Vocabulary
    grams: Vocabulary
    word_idf: Floats
    gram_idf: Floats
    language: str = DEFAULT_LANGUAGE

    def encode(self, texts: Sequence[str], vectors: Floats) -> QueryFeatures:
        """Texts and their vectors as features."""
        analyzer = open_analyzer(self.language)
        stem_counts = term_matrix(_terms(texts, analyzer), self.vocabulary)
        gram_counts = term_matrix([character_grams(text) for text in texts], self.grams)
        return QueryFeatures(
            vectors=unit_rows(vectors),
            stems=stem_counts,
            words=tf_idf(stem_counts, self.word_idf),
            grams=tf_idf(gram_counts, self.gram_idf),
            lengths=np.array([len(text.split()) for text in texts], np.float32),
        )


@dataclass(frozen=True)
class CorpusFeatures:
    """The documents, in the form that queries are compared with. `words` are BM25 weights, stems by
    twice the documents: title and text together, then titles.
    """

    vectors: Floats
    words: Sparse


def read_collection(data: TuningData) -> tuple[QueryEncoder, CorpusFeatures, Sparse, Sparse]:
    """The encoder, the documents as queries meet them, and the term counts of texts and titles."""
    analyzer = open_analyzer(data.language)
    bodies = _terms((f"{one.title} {one.text}" for one in data.documents), analyzer)
    train = [data.queries[query].text for query in data.judged("train")]
    asked, spelled = _terms(train, analyzer), [character_grams(text) for text in train]
    vocabulary, grams = vocabulary_of([*bodies, *asked]), vocabulary_of(spelled)
    encoder = QueryEncoder(
        vocabulary=vocabulary,
        grams=grams,
        word_idf=query_idf(term_matrix(asked, vocabulary)),
        gram_idf=query_idf(term_matrix(spelled, grams)),
        language=data.language,
    )
    body = term_matrix(bodies, vocabulary)
    title = term_matrix(_terms((one.title for one in data.documents), analyzer), vocabulary)
    # k1 and b for whole documents as Anserini sets them for BEIR; titles are short and even.
    words = sparse.hstack([bm25_weights(body, 0.9, 0.4), bm25_weights(title, 1.2, 0.75)]).tocsr()
    return encoder, CorpusFeatures(unit_rows(data.doc_vectors), words), body, title


def _terms(texts: Iterable[str], analyzer: Analyzer) -> list[list[str]]:
    """The terms that BM25 counts."""
    return [analyzer.terms(text[:MAX_TEXT]) for text in texts]


def compare_content(corpus: CorpusFeatures, questions: QueryFeatures) -> dict[str, Floats]:
    """Score every document for every query by words and by vectors; `hybrid` is the zero-shot
    ranking that a tuned one has to beat.
    """
    body, title = np.split(dense(questions.stems @ corpus.words), 2, axis=1)
    meaning = np.asarray(questions.vectors @ corpus.vectors.T, np.float32)
    hybrid = LEXICAL_SHARE * min_max(body) + (1 - LEXICAL_SHARE) * min_max(meaning)
    return {"body": body, "title": title, "meaning": meaning, "hybrid": hybrid}

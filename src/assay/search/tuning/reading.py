"""Turns query texts and documents into the numbers that every signal is made of."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from assay.search.tuning.arrays import Floats, Sparse, side_by_side, unit_rows
from assay.search.tuning.collection import TuningData
from assay.search.tuning.words import (
    Vocabulary,
    bm25_weights,
    character_grams,
    count,
    inverse_frequency,
    stems,
    tf_idf,
    vocabulary_of,
)


@dataclass(frozen=True)
class Questions:
    """Some queries, ready to be compared with documents and with each other."""

    vectors: Floats
    stems: Sparse
    """Counts, for BM25."""
    words: Sparse
    """tf-idf of stems among queries."""
    grams: Sparse
    """tf-idf of character sequences among queries."""
    lengths: Floats

    def __len__(self) -> int:
        return len(self.vectors)

    def take(self, which: npt.ArrayLike) -> "Questions":
        at = np.asarray(which, np.int64)
        return Questions(
            self.vectors[at], self.stems[at], self.words[at], self.grams[at], self.lengths[at]
        )


@dataclass(frozen=True)
class Reader:
    """Knows the words of the documents and of the training queries."""

    vocabulary: Vocabulary
    grams: Vocabulary
    word_idf: Floats
    gram_idf: Floats

    def read(self, texts: Sequence[str], vectors: Floats) -> Questions:
        stem_counts = count([stems(text) for text in texts], self.vocabulary)
        gram_counts = count([character_grams(text) for text in texts], self.grams)
        return Questions(
            vectors=unit_rows(vectors),
            stems=stem_counts,
            words=tf_idf(stem_counts, self.word_idf),
            grams=tf_idf(gram_counts, self.gram_idf),
            lengths=np.array([len(text.split()) for text in texts], np.float32),
        )


@dataclass(frozen=True)
class Corpus:
    """The documents as a query meets them."""

    vectors: Floats
    words: Sparse
    """BM25 weights, stems by twice the documents: title and text together, then titles."""


@dataclass(frozen=True)
class DocumentCounts:
    """Needed to build a memory, not to search."""

    body: Sparse
    title: Sparse


def read_collection(data: TuningData) -> tuple[Reader, Corpus, DocumentCounts]:
    bodies = [stems(f"{title} {text}") for title, text in zip(data.titles, data.texts, strict=True)]
    train = [data.query_texts[query] for query in data.judged("train")]
    asked, spelled = [stems(text) for text in train], [character_grams(text) for text in train]
    vocabulary, grams = vocabulary_of([*bodies, *asked]), vocabulary_of(spelled)
    reader = Reader(
        vocabulary=vocabulary,
        grams=grams,
        word_idf=inverse_frequency(count(asked, vocabulary)),
        gram_idf=inverse_frequency(count(spelled, grams)),
    )
    counts = DocumentCounts(
        body=count(bodies, vocabulary),
        title=count([stems(title) for title in data.titles], vocabulary),
    )
    # k1 and b for whole documents as Anserini sets them for BEIR; titles are short and even.
    corpus = Corpus(
        vectors=unit_rows(data.doc_vectors),
        words=side_by_side(
            [bm25_weights(counts.body, 0.9, 0.4), bm25_weights(counts.title, 1.2, 0.75)]
        ),
    )
    return reader, corpus, counts

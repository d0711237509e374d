"""What is remembered of the judged queries: everything that a new query is compared with."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assay.search.tuning.arrays import (
    Floats,
    Sparse,
    dense,
    one_below_the_other,
    scaled_rows,
    side_by_side,
    sums,
    unit_rows,
)
from assay.search.tuning.bundles import Bundles, bundle
from assay.search.tuning.content import compare_content
from assay.search.tuning.kernel import inverse_of, likeness, profile
from assay.search.tuning.reading import Corpus, DocumentCounts, Questions
from assay.search.tuning.words import bm25_weights

# The text of a query that fits everything ("cancer") says little about each of its documents.
TELLING_SIZE = 200
TYPICAL_SIZE = 30
# The bundle's documents, their titles, the documents with the queries judged for them, those
# queries alone, and the same with every query counting alike however much it is about.
TEXTS = ("text", "headline", "expanded", "asked", "asked_evenly")
# Numbers that a batch of queries may fill at once, for each signal.
BATCH_NUMBERS = 1_000_000


@dataclass(frozen=True)
class Memory:
    bundles: Bundles
    vectors: Floats
    """Of the judged queries."""
    lengths: Floats
    words: Sparse
    """Stems by judged queries, turned like this so that a query picks its rows."""
    grams: Sparse
    profiles: Sparse
    counts: Floats
    """How many documents were judged relevant for each."""
    relevant: Sparse
    """Judged queries by bundles: which part of the bundle was judged relevant."""
    cosines: Sparse
    """Bundles by judged queries: products of columns are cosines of sets of documents."""
    inverse: Floats
    set_vectors: Floats
    """The centre of each judged query's relevant documents."""
    texts: Sparse
    """BM25 weights of what is written in and about the bundles, `TEXTS` side by side: stems by
    five times the bundles."""
    centres: Floats
    asked_centres: Floats
    both_centres: Floats
    popularity: Floats
    focus: Floats
    """The share of the bundle in the smallest set of documents that it belongs to."""

    @cached_property
    def overlaps(self) -> Floats:
        """The true overlap of every two judged queries."""
        return dense(self.cosines.T @ self.cosines)

    @cached_property
    def evenly(self) -> Floats:
        """Makes a judged query count less for each of its documents, the more it has."""
        return np.asarray(1 / np.sqrt(self.counts), np.float32)

    @property
    def batch(self) -> int:
        widest = max(self.bundles.members.shape[1], len(self.counts))
        return int(np.clip(BATCH_NUMBERS // widest, 1, 256))


def remember(
    corpus: Corpus, documents: DocumentCounts, questions: Questions, grades: Sparse
) -> Memory:
    """`grades`: the judged queries in `questions` by documents."""
    relevant_documents = (grades > 0).astype(np.float32).tocsr()
    bundles = bundle(relevant_documents)
    relevant = (relevant_documents @ bundles.members.T).tocsr()
    counts = np.maximum(sums(relevant_documents, 1), 1)
    centres = unit_rows(bundles.members @ corpus.vectors)
    asked_centres = unit_rows(relevant.T @ (questions.vectors / np.sqrt(counts)[:, None]))
    body, title = bundles.members @ documents.body, bundles.members @ documents.title
    telling = scaled_rows(relevant, counts <= TELLING_SIZE).T @ questions.stems
    evenly = scaled_rows(relevant, TYPICAL_SIZE / counts).T @ questions.stems
    text = bm25_weights(body.tocsr(), 0.9, 0.4)
    profiles = _profiles(corpus, bundles, text, questions)
    alike = likeness(
        questions.vectors @ questions.vectors.T,
        dense(questions.words @ questions.words.T),
        dense(questions.grams @ questions.grams.T),
        dense(profiles @ profiles.T),
    )
    shares = scaled_rows(scaled_rows(relevant, 1 / counts).T.tocsr(), bundles.sizes)
    return Memory(
        bundles=bundles,
        vectors=questions.vectors,
        lengths=questions.lengths,
        words=questions.words.T.tocsr(),
        grams=questions.grams.T.tocsr(),
        profiles=profiles.T.tocsr(),
        counts=counts,
        relevant=relevant,
        cosines=scaled_rows(
            scaled_rows(relevant, 1 / np.sqrt(counts)).T.tocsr(), np.sqrt(bundles.sizes)
        ),
        inverse=inverse_of(alike),
        set_vectors=unit_rows((relevant_documents @ corpus.vectors) / counts[:, None]),
        texts=side_by_side(
            [
                text,
                bm25_weights(title.tocsr(), 0.9, 0.4),
                bm25_weights((body + telling).tocsr(), 1.2, 0.75),
                bm25_weights(telling.tocsr(), 1.2, 0.75),
                bm25_weights(evenly.tocsr(), 1.2, 0.75),
            ]
        ),
        centres=centres,
        asked_centres=asked_centres,
        both_centres=unit_rows(centres + asked_centres),
        popularity=np.log1p(sums(relevant, 0)),
        focus=np.asarray(shares.max(axis=1).toarray(), np.float32).ravel(),
    )


def _profiles(corpus: Corpus, bundles: Bundles, text: Sparse, questions: Questions) -> Sparse:
    size = int(np.clip(BATCH_NUMBERS // len(corpus.vectors), 1, 256))
    parts = []
    for start in range(0, len(questions), size):
        some = questions.take(np.arange(start, min(start + size, len(questions))))
        hybrid = compare_content(corpus, some).hybrid
        text_scores = dense(some.stems @ text)
        parts.append(profile(bundles.mean(hybrid), bundles.best(hybrid), text_scores))
    return one_below_the_other(parts)

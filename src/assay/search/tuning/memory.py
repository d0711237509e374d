"""What is remembered of the judged queries: everything that a new query is compared with."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse  # type: ignore[import-untyped]

from assay.search.tuning.features import (
    CorpusFeatures,
    Floats,
    Integers,
    QueryFeatures,
    Sparse,
    best_columns,
    bm25_weights,
    compare_content,
    dense,
    fourth_power,
    lengths_of,
    min_max,
    scaled_rows,
    sparse_rows,
    sums,
    unit_rows,
)

# The Jaccard similarity of judged queries from which documents are bundled. On two folds of
# NFCorpus train and on dev, 0.8, 0.9 and 1 are alike; 0.5 is worse on all three.
SAME_QUERIES = 0.8


@dataclass(frozen=True)
class Bundles:
    """Documents grouped by the queries that they were judged relevant for, to be ranked as one.

    Where judgments come from links, the sources of a page are relevant for the same queries: of two
    such documents in NFCorpus, if one is relevant for a new query, so is the other in 99.9%.
    """

    label: Integers  # the bundle of each document
    members: Sparse  # bundles by documents, each row a mean: its entries sum to one
    order: Integers  # documents, bundle after bundle
    starts: Integers  # where in `order` each bundle begins
    sizes: Floats

    def __len__(self) -> int:
        return len(self.sizes)

    def mean(self, scores: Floats) -> Floats:
        """Document scores (queries by documents) to the mean of each bundle."""
        return np.asarray(scores @ self.members.T, np.float32)

    def best(self, scores: Floats) -> Floats:
        """Document scores (queries by documents) to the best of each bundle."""
        return np.maximum.reduceat(scores[:, self.order], self.starts, axis=1)


def bundle(relevant: Sparse, threshold: float = SAME_QUERIES) -> Bundles:
    """`relevant` holds ones: judged queries by documents."""
    # Documents with equal sets of queries first, which are many; those without any stay alone.
    columns = relevant.tocsc()
    columns.sort_indices()
    seen: dict[bytes, int] = {}
    exact = np.empty(relevant.shape[1], np.int64)
    for document in range(len(exact)):
        queries = columns.indices[columns.indptr[document] : columns.indptr[document + 1]]
        key = queries.tobytes() or b"alone %d" % document
        exact[document] = seen.setdefault(key, len(seen))
    _, representative = np.unique(exact, return_index=True)
    label = _merge_similar(relevant[:, representative].tocsr(), threshold)[exact]
    sizes = np.bincount(label).astype(np.float32)
    order = np.argsort(label, kind="stable")
    starts = np.searchsorted(label[order], np.arange(len(sizes)))
    means = (np.repeat(1 / sizes, sizes.astype(int)), order, np.append(starts, len(order)))
    members = sparse.csr_matrix(means, shape=(len(sizes), relevant.shape[1]), dtype=np.float32)
    return Bundles(label, members, order, starts, sizes)


def _merge_similar(relevant: Sparse, threshold: float) -> Integers:
    """Greedy: the most judged column takes in all that are similar enough to it, then the next."""
    judged = sums(relevant, 0)
    common = (relevant.T @ relevant).tocsr()
    label = np.full(len(judged), -1, np.int64)
    next_label = 0
    for column in np.argsort(-judged, kind="stable"):
        if label[column] >= 0:
            continue
        span = slice(common.indptr[column], common.indptr[column + 1])
        others, shared = common.indices[span], common.data[span]
        jaccard = shared / (judged[column] + judged[others] - shared)
        label[others[(jaccard >= threshold) & (label[others] < 0)]] = next_label
        label[column] = next_label
        next_label += 1
    return label


# From two folds of NFCorpus train and dev, where weights of 2, 4 and 8 and ridges of 2 and 4 differ
# by less than chance.
PROFILE_WEIGHT = 4.0
RIDGE = 4.0
# On dev, 256 and more of 2,590 are as good as all of them; 128 cost recall.
DIRECTIONS = 256
VECTOR_SHARPNESS = 5.0
SPELLING_WEIGHT = 0.5
# How many bundles a profile keeps: the rest weighs next to nothing, and a hundred are as good.
PROFILE_DEPTH = 100


def profile(mean: Floats, best: Floats, text: Floats) -> Sparse:
    """Which bundles are found for each query: by the mean of their documents, by the best of them,
    as one text.
    """
    parts = [fourth_power(min_max(mean)), fourth_power(min_max(best)), min_max(text) ** 2]
    queries, bundles = mean.shape
    together = np.concatenate(parts)
    columns = best_columns(together, PROFILE_DEPTH)
    weights = unit_rows(np.take_along_axis(together, columns, 1)) / np.float32(np.sqrt(len(parts)))
    columns += np.repeat(np.arange(len(parts)) * bundles, queries)[:, None]
    return sparse_rows(
        np.hstack(np.split(columns, len(parts))),
        np.hstack(np.split(weights, len(parts))),
        len(parts) * bundles,
    )


def likeness(meaning: Floats, words: Floats, grams: Floats, profiles: Floats) -> Floats:
    """The kernel: a sum of kernels is one."""
    return np.asarray(
        np.exp(VECTOR_SHARPNESS * (meaning - 1))
        + SPELLING_WEIGHT * (words + grams)
        + PROFILE_WEIGHT * profiles,
        np.float32,
    )


def ridge_of(likeness_among_judged: Floats, directions: int = DIRECTIONS) -> tuple[Floats, Floats]:
    """Kernel ridge regression (Saunders, Gammerman and Vovk 1998) from queries to bundles: the
    inverse of the kernel, of which few directions are kept. The others count alike, as one number.
    """
    # In double precision: rounding adds up over thousands of rows.
    values, vectors = np.linalg.eigh(likeness_among_judged.astype(np.float64))
    scales = 1 / (np.maximum(values, 0) + RIDGE)
    least = max(0, len(values) - directions)
    rest = scales[: max(1, least)].mean()
    kept = vectors[:, least:] * np.sqrt(np.maximum(rest - scales[least:], 0))
    return kept.astype(np.float32), np.array([rest], np.float32)


# The text of a query that fits everything ("cancer") says little about each of its documents.
SPECIFIC_SIZE = 200
TYPICAL_SIZE = 30
# The bundle's documents, their titles, the documents with the queries judged for them, those
# queries alone, and the same with every query counting alike however much it is about.
TEXTS = ("text", "headline", "expanded", "asked", "asked_evenly")
# Numbers that a batch of queries may fill at once, for each signal.
BATCH_NUMBERS = 1_000_000


@dataclass(frozen=True)
class Memory:
    """Everything about the judged queries that a new query is compared with."""

    bundles: Bundles
    vectors: Floats  # of the judged queries
    lengths: Floats
    words: Sparse  # stems by judged queries, turned like this so that a query picks its rows
    grams: Sparse
    profiles: Sparse
    counts: Floats  # how many documents were judged relevant for each
    relevant: Sparse  # judged queries by bundles: which part of the bundle was judged relevant
    cosines: Sparse  # bundles by judged queries: products of columns are cosines of sets
    directions: Floats  # judged queries by directions of the ridge's inverse, see `ridge_of`
    rest: Floats
    set_vectors: Floats  # the centre of each judged query's relevant documents
    texts: Sparse  # BM25 weights of `TEXTS` side by side: stems by five times the bundles
    centres: Floats  # the mean vector of each bundle's documents, with length one
    mean_lengths: Floats  # of those means before
    asked_lengths: Floats  # of the sums of the vectors of the queries judged for each bundle
    both_lengths: Floats  # of the sums of both directions
    popularity: Floats
    focus: Floats  # the share of the bundle in the smallest set of documents that it belongs to

    def shares(self, alike: Floats) -> Floats:
        """Of each judged query in the answer to queries that are so much like them."""
        taken = (alike @ self.directions) @ self.directions.T
        return np.asarray(self.rest * alike - taken, np.float32)

    @cached_property
    def overlaps(self) -> Floats:
        """The true overlap of every two judged queries."""
        return dense(self.cosines.T @ self.cosines)

    @cached_property
    def by_bundle(self) -> Sparse:
        """`relevant` turned: bundles by judged queries."""
        return self.relevant.T.tocsr()

    @cached_property
    def evenly(self) -> Floats:
        """Makes a judged query count less for each of its documents, the more it has."""
        return np.asarray(1 / np.sqrt(self.counts), np.float32)

    @property
    def batch(self) -> int:
        """How many queries are compared at once, so that memory stays bounded."""
        widest = max(self.bundles.members.shape[1], len(self.counts))
        return int(np.clip(BATCH_NUMBERS // widest, 1, 256))


def remember(
    corpus: CorpusFeatures, body: Sparse, title: Sparse, questions: QueryFeatures, grades: Sparse
) -> Memory:
    """`grades`: the judged queries in `questions` by documents; `body`, `title`: term counts."""
    relevant_documents = (grades > 0).astype(np.float32).tocsr()
    bundles = bundle(relevant_documents)
    relevant = (relevant_documents @ bundles.members.T).tocsr()
    counts = np.maximum(sums(relevant_documents, 1), 1)
    means = bundles.members @ corpus.vectors
    asked = relevant.T @ (questions.vectors / np.sqrt(counts)[:, None])
    centres = unit_rows(means)
    body, title = bundles.members @ body, bundles.members @ title
    specific = scaled_rows(relevant, counts <= SPECIFIC_SIZE).T @ questions.stems
    evenly = scaled_rows(relevant, TYPICAL_SIZE / counts).T @ questions.stems
    text = bm25_weights(body.tocsr(), 0.9, 0.4)
    texts = [
        text,
        bm25_weights(title.tocsr(), 0.9, 0.4),
        bm25_weights((body + specific).tocsr(), 1.2, 0.75),
        bm25_weights(specific.tocsr(), 1.2, 0.75),
        bm25_weights(evenly.tocsr(), 1.2, 0.75),
    ]
    size, parts = int(np.clip(BATCH_NUMBERS // len(corpus.vectors), 1, 256)), []
    for start in range(0, len(questions), size):
        some = questions.take(np.arange(start, min(start + size, len(questions))))
        hybrid = compare_content(corpus, some)["hybrid"]
        found = bundles.mean(hybrid), bundles.best(hybrid), dense(some.stems @ text)
        parts.append(profile(*found))
    profiles = sparse.vstack(parts).tocsr()
    alike = likeness(
        questions.vectors @ questions.vectors.T,
        dense(questions.words @ questions.words.T),
        dense(questions.grams @ questions.grams.T),
        dense(profiles @ profiles.T),
    )
    directions, rest = ridge_of(alike)
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
        directions=directions,
        rest=rest,
        set_vectors=unit_rows((relevant_documents @ corpus.vectors) / counts[:, None]),
        texts=sparse.hstack(texts).tocsr(),
        centres=centres,
        mean_lengths=lengths_of(means),
        asked_lengths=lengths_of(asked),
        both_lengths=lengths_of(centres + unit_rows(asked)),
        popularity=np.log1p(sums(relevant, 0)),
        focus=np.asarray(shares.max(axis=1).toarray(), np.float32).ravel(),
    )

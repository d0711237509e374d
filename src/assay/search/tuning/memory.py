"""What is remembered of the judged queries: everything that a new query is compared with.

**Bundles.** Documents that were judged relevant for (nearly) the same queries are ranked as one. In
collections whose judgments come from links, the sources of one page are relevant for exactly the
same queries: of two such documents in NFCorpus, if one is relevant for a new query, so is the other
in 99.9 of 100 cases. Ranking bundles instead of documents pools the evidence of their texts. A
document that nobody judged, or that is alone with its queries, is a bundle of one.

**Kernel ridge regression** from queries to relevant bundles. Every bundle is a label, every judged
query an example (extreme multi-label classification). Two queries are alike when their words and
vectors are, and above all when the same bundles come up for both of them in a zero-shot search:
their profiles. The closed form (Saunders, Gammerman and Vovk, "Ridge Regression Learning Algorithm
in Dual Variables", 1998) needs one inverse of the size of the judged queries, and gives each of
them a share in the answer to a new query.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from assay.search.tuning.arrays import (
    Floats,
    Integers,
    Sparse,
    best_columns,
    dense,
    horizontal_stack,
    min_max,
    scaled_rows,
    sparse_matrix,
    sparse_rows,
    sums,
    unit_rows,
    vertical_stack,
)
from assay.search.tuning.features import (
    CorpusFeatures,
    DocumentCounts,
    QueryFeatures,
    bm25_weights,
    compare_content,
)

# The Jaccard similarity of judged queries from which documents are bundled. On two folds of
# NFCorpus train and on dev, 0.8, 0.9 and 1 are alike; 0.5 is worse on all three.
SAME_QUERIES = 0.8


@dataclass(frozen=True)
class Bundles:
    """Documents grouped by the queries that they were judged relevant for."""

    label: Integers
    """The bundle of each document."""
    members: Sparse
    """Bundles by documents, each row a mean: its entries sum to one."""
    order: Integers
    """Documents, bundle after bundle."""
    starts: Integers
    """Where in `order` each bundle begins."""
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
    label = _labels(relevant, threshold)
    documents = relevant.shape[1]
    sizes = np.bincount(label).astype(np.float32)
    order = np.argsort(label, kind="stable")
    ones = sparse_matrix(np.ones(documents), label, np.arange(documents), (len(sizes), documents))
    return Bundles(
        label=label,
        members=scaled_rows(ones, 1 / sizes),
        order=order,
        starts=np.searchsorted(label[order], np.arange(len(sizes))),
        sizes=sizes,
    )


def _labels(relevant: Sparse, threshold: float) -> Integers:
    exact = _identical_columns(relevant)
    _, representative = np.unique(exact, return_index=True)
    merged = _merge_similar(relevant[:, representative].tocsr(), threshold)
    return merged[exact]


def _identical_columns(relevant: Sparse) -> Integers:
    """Equal numbers for documents with equal sets of queries; those without any stay alone."""
    columns = relevant.tocsc()
    columns.sort_indices()
    seen: dict[bytes, int] = {}
    label = np.empty(relevant.shape[1], np.int64)
    for document in range(len(label)):
        queries = columns.indices[columns.indptr[document] : columns.indptr[document + 1]]
        key = queries.tobytes() or b"alone %d" % document
        label[document] = seen.setdefault(key, len(seen))
    return label


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
VECTOR_SHARPNESS = 5.0
SPELLING_WEIGHT = 0.5
# How many bundles a profile keeps: the rest weighs next to nothing, and a hundred are as good.
PROFILE_DEPTH = 100


def profile(mean: Floats, best: Floats, text: Floats) -> Sparse:
    """Which bundles are found for each query: by the mean of their documents, by the best of them,
    as one text.
    """
    parts = [min_max(mean) ** 4, min_max(best) ** 4, min_max(text) ** 2]
    bundles = mean.shape[1]
    columns = [best_columns(part, PROFILE_DEPTH) for part in parts]
    weights = [
        unit_rows(np.take_along_axis(part, which, 1)) / np.float32(np.sqrt(len(parts)))
        for part, which in zip(parts, columns, strict=True)
    ]
    aside = [which + place * bundles for place, which in enumerate(columns)]
    return sparse_rows(np.hstack(aside), np.hstack(weights), len(parts) * bundles)


def likeness(meaning: Floats, words: Floats, grams: Floats, profiles: Floats) -> Floats:
    """The kernel: a sum of kernels is one."""
    return np.asarray(
        np.exp(VECTOR_SHARPNESS * (meaning - 1))
        + SPELLING_WEIGHT * (words + grams)
        + PROFILE_WEIGHT * profiles,
        np.float32,
    )


def inverse_of(likeness_among_judged: Floats) -> Floats:
    # In double precision: rounding adds up over thousands of rows.
    """The inverse of the kernel with the ridge on its diagonal."""
    kernel = likeness_among_judged.astype(np.float64)
    kernel[np.diag_indices_from(kernel)] += RIDGE
    return np.asarray(np.linalg.inv(kernel), np.float32)


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
    corpus: CorpusFeatures, documents: DocumentCounts, questions: QueryFeatures, grades: Sparse
) -> Memory:
    """`grades`: the judged queries in `questions` by documents."""
    relevant_documents = (grades > 0).astype(np.float32).tocsr()
    bundles = bundle(relevant_documents)
    relevant = (relevant_documents @ bundles.members.T).tocsr()
    counts = np.maximum(sums(relevant_documents, 1), 1)
    centres = unit_rows(bundles.members @ corpus.vectors)
    asked_centres = unit_rows(relevant.T @ (questions.vectors / np.sqrt(counts)[:, None]))
    body, title = bundles.members @ documents.body, bundles.members @ documents.title
    specific = scaled_rows(relevant, counts <= SPECIFIC_SIZE).T @ questions.stems
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
        texts=horizontal_stack(
            [
                text,
                bm25_weights(title.tocsr(), 0.9, 0.4),
                bm25_weights((body + specific).tocsr(), 1.2, 0.75),
                bm25_weights(specific.tocsr(), 1.2, 0.75),
                bm25_weights(evenly.tocsr(), 1.2, 0.75),
            ]
        ),
        centres=centres,
        asked_centres=asked_centres,
        both_centres=unit_rows(centres + asked_centres),
        popularity=np.log1p(sums(relevant, 0)),
        focus=np.asarray(shares.max(axis=1).toarray(), np.float32).ravel(),
    )


def _profiles(
    corpus: CorpusFeatures, bundles: Bundles, text: Sparse, questions: QueryFeatures
) -> Sparse:
    size = int(np.clip(BATCH_NUMBERS // len(corpus.vectors), 1, 256))
    parts = []
    for start in range(0, len(questions), size):
        some = questions.take(np.arange(start, min(start + size, len(questions))))
        hybrid = compare_content(corpus, some).hybrid
        text_scores = dense(some.stems @ text)
        parts.append(profile(bundles.mean(hybrid), bundles.best(hybrid), text_scores))
    return vertical_stack(parts)

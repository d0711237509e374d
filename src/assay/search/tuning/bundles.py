"""Documents that were judged relevant for (nearly) the same queries stand and fall together.

In collections whose judgments come from links, the sources of one page are relevant for exactly
the same queries: of two such documents in NFCorpus, if one is relevant for a new query, so is the
other in 99.9 of 100 cases. Ranking bundles instead of documents pools the evidence of their texts.
A document that nobody judged, or that is alone with its queries, is a bundle of one.
"""

from dataclasses import dataclass

import numpy as np

from assay.search.tuning.arrays import Floats, Integers, Sparse, scaled_rows, sparse_matrix, sums

# The Jaccard similarity of judged queries from which documents are bundled. On two folds of
# NFCorpus train and on dev, 0.8, 0.9 and 1 are alike; 0.5 is worse on all three.
SAME_QUERIES = 0.8


@dataclass(frozen=True)
class Bundles:
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

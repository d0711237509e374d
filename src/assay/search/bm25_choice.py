"""BM25's k1 and b, picked on the train judgments of a data set.

The documents are counted once; then every pair of settings is tried on the same queries. Defaults
stay unless another pair is better by more than chance.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Dataset
from assay.errors import DataError
from assay.progress import Progress, silent
from assay.search.bm25 import (
    QUERY_CHARACTERS,
    Bm25Settings,
    count_terms,
    inverse_frequency,
    rounded_length,
    term_weights,
)

K1 = (0.6, 0.9, 1.2, 1.5, 2.0)
B = (0.3, 0.4, 0.5, 0.6, 0.75, 0.9)
DEPTH = 10
MOST_QUERIES = 1000
"""Of more train queries, so many are drawn."""
FEWEST_QUERIES = 20

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bm25Choice:
    """What is best on the train queries, and by how much.

    Parameters:
        chosen: the best settings, or the defaults where those are as good.
        best: the best settings, by chance or not.
        queries: how many were asked.
        ndcg_10: mean of the best settings.
        default_ndcg_10: mean of the defaults.
        standard_error: of the difference, query by query.
    """

    chosen: Bm25Settings
    best: Bm25Settings
    queries: int
    ndcg_10: float
    default_ndcg_10: float
    standard_error: float

    @property
    def better(self) -> bool:
        """Whether the best settings beat the defaults by more than two standard errors."""
        return self.ndcg_10 - self.default_ndcg_10 > 2 * self.standard_error


def choose_bm25(
    dataset: Dataset, *, split: str = "train", seed: int = 0, progress: Progress = silent
) -> Bm25Choice:
    """The settings for this data set; `DataError` where it has too few judged queries."""
    dataset.require_documents("BM25")
    judged = {
        query: grades
        for query, grades in dataset.judgments.get(split, {}).items()
        if query in dataset.queries and any(grade > 0 for grade in grades.values())
    }
    if len(judged) < FEWEST_QUERIES:
        raise DataError(
            f"{dataset.name} has {len(judged)} judged queries in {split}, and picking k1 and b "
            f"needs at least {FEWEST_QUERIES}: use the defaults"
        )
    asked = sorted(judged)
    if len(asked) > MOST_QUERIES:
        asked = sorted(random.Random(seed).sample(asked, MOST_QUERIES))
    counts = _Counts(dataset, asked)
    default = Bm25Settings()
    grid = [Bm25Settings(k1, b) for k1, b in product(K1, B)]
    scores = {}
    for done, settings in enumerate(dict.fromkeys([default, *grid]), 1):
        weights = counts.weights(settings)
        scores[settings] = np.array([counts.ndcg(one, judged[one], weights) for one in asked])
        progress("trying k1 and b", done, len(grid))
    best = max(scores, key=lambda settings: float(scores[settings].mean()))
    differences = scores[best] - scores[default]
    error = float(differences.std(ddof=1)) / len(asked) ** 0.5
    means = float(scores[best].mean()), float(scores[default].mean())
    found = Bm25Choice(default, best, len(asked), *means, error)
    return Bm25Choice(best, best, len(asked), *means, error) if found.better else found


class _Counts:
    """How often each document has each word of the queries."""

    def __init__(self, dataset: Dataset, asked: Sequence[str]) -> None:
        documents = sorted(dataset.documents.values(), key=lambda document: document.id)
        self._ids = [document.id for document in documents]
        self._queries = {
            one: list(count_terms(dataset.queries[one].text[:QUERY_CHARACTERS])) for one in asked
        }
        wanted = {term for terms in self._queries.values() for term in terms}
        found: dict[int, tuple[list[int], list[int]]] = {term: ([], []) for term in wanted}
        lengths = np.zeros(len(documents))
        for row, document in enumerate(documents):
            counts = count_terms(document.full_text)
            lengths[row] = counts.total()
            for term in counts.keys() & wanted:
                rows, times = found[term]
                rows.append(row)
                times.append(counts[term])
        self._found = {term: (np.array(r), np.array(t)) for term, (r, t) in found.items() if r}
        self._lengths, self._average = lengths, rounded_length(float(lengths.mean()))

    def weights(self, settings: Bm25Settings) -> dict[int, _Floats]:
        """Of each term in the documents that have it."""
        return {
            term: term_weights(times, self._lengths[rows], self._average, settings)
            * float(inverse_frequency(len(rows), len(self._ids)))
            for term, (rows, times) in self._found.items()
        }

    def ndcg(self, query: str, grades: Mapping[str, int], weights: Mapping[int, _Floats]) -> float:
        """Of BM25's first ten documents for a query."""
        scores = np.zeros(len(self._ids))
        for term in self._queries[query]:
            if term in weights:
                scores[self._found[term][0]] += weights[term]
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        gains = [max(0, grades.get(self._ids[row], 0)) for row in order if scores[row] > 0]
        ideal = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:DEPTH]
        return _dcg(gains) / _dcg(ideal)


def _dcg(gains: Sequence[int]) -> float:
    return sum(float(gain / np.log2(place + 2)) for place, gain in enumerate(gains))

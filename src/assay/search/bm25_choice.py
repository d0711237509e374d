"""BM25's settings, picked on the train judgments of a data set.

k1 and b are tried in pairs, then the weight of titles, delta and stop words one after the other,
all on the same queries; the documents are counted once for each choice of stop words. Defaults stay
unless what was found is better by more than chance.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Dataset, Judgments
from assay.errors import DataError
from assay.progress import Progress, silent
from assay.search.analyzer import DEFAULT_STOP_WORDS, NO_LANGUAGE, open_analyzer
from assay.search.bm25 import (
    QUERY_CHARACTERS,
    Bm25Settings,
    count_document,
    inverse_frequency,
    normalized,
    rounded_length,
    saturated,
)
from assay.search.ndcg import ndcg_at

K1 = (0.6, 0.9, 1.2, 1.5, 2.0)
B = (0.3, 0.4, 0.5, 0.6, 0.75, 0.9)
TITLE_WEIGHTS = (1.0, 2.0, 3.0, 5.0)
DELTAS = (0.0, 0.5, 1.0)
STOP_WORD_CHOICES = (DEFAULT_STOP_WORDS, NO_LANGUAGE)
DEPTH = 10
MAX_QUERIES = 1000
"""Of more train queries, so many are drawn."""
MIN_QUERIES = 20

_Floats = NDArray[np.float64]
_TRIED = len(K1) * len(B) + len(TITLE_WEIGHTS) + len(DELTAS) + len(STOP_WORD_CHOICES) - 3


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


def choose_bm25(dataset: Dataset, *, seed: int = 0, progress: Progress = silent) -> Bm25Choice:
    """The settings for this data set; `DataError` where its train split has too few queries."""
    dataset.require_documents("BM25")
    judged = {
        query: grades
        for query, grades in dataset.judgments.get("train", {}).items()
        if query in dataset.queries and any(grade > 0 for grade in grades.values())
    }
    if len(judged) < MIN_QUERIES:
        raise DataError(
            f"{dataset.name} has {len(judged)} judged queries in train, and picking settings "
            f"needs at least {MIN_QUERIES}: use the defaults"
        )
    asked = sorted(judged)
    if len(asked) > MAX_QUERIES:
        asked = sorted(random.Random(seed).sample(asked, MAX_QUERIES))
    default = Bm25Settings()
    trial = _Trial(dataset, {one: judged[one] for one in asked}, progress)
    best = trial.best([default, *(replace(default, k1=k1, b=b) for k1, b in product(K1, B))])
    best = trial.best([best, *(replace(best, title_weight=one) for one in TITLE_WEIGHTS)])
    best = trial.best([best, *(replace(best, delta=one) for one in DELTAS)])
    best = trial.best([best, *(replace(best, stop_words=one) for one in STOP_WORD_CHOICES)])
    differences = trial.scores[best] - trial.scores[default]
    error = float(differences.std(ddof=1)) / len(asked) ** 0.5
    means = float(trial.scores[best].mean()), float(trial.scores[default].mean())
    found = Bm25Choice(default, best, len(asked), *means, error)
    return replace(found, chosen=best) if found.better else found


class _Trial:
    """nDCG@10 of each query for each of the settings that were tried."""

    def __init__(self, dataset: Dataset, judged: Judgments, progress: Progress) -> None:
        self._dataset, self._judged, self._progress = dataset, judged, progress
        self._language = Bm25Settings().language_for(dataset.documents.values())
        self._counts: dict[str, _Counts] = {}
        self.scores: dict[Bm25Settings, _Floats] = {}

    def best(self, candidates: Sequence[Bm25Settings]) -> Bm25Settings:
        """The one with the highest mean; the first of equals."""
        for settings in candidates:
            if settings not in self.scores:
                self.scores[settings] = self._score(settings)
                self._progress("trying BM25 settings", len(self.scores), _TRIED)
        return max(candidates, key=lambda settings: float(self.scores[settings].mean()))

    def _score(self, settings: Bm25Settings) -> _Floats:
        chosen = settings.stop_words
        if chosen not in self._counts:
            asked = list(self._judged)
            self._counts[chosen] = _Counts(self._dataset, asked, self._language, settings)
        counts = self._counts[chosen]
        weights = counts.weights(settings)
        return np.array([counts.ndcg(one, self._judged[one], weights) for one in self._judged])


class _Counts:
    """How often each document has each word of the queries, in its text and in its title."""

    def __init__(
        self, dataset: Dataset, asked: Sequence[str], language: str, settings: Bm25Settings
    ) -> None:
        analyzer = open_analyzer(language, settings.stop_words)
        documents = sorted(dataset.documents.values(), key=lambda document: document.id)
        self._ids = [document.id for document in documents]
        self._queries = {
            one: list(analyzer.count_query(dataset.queries[one].text[:QUERY_CHARACTERS]))
            for one in asked
        }
        wanted = {term for terms in self._queries.values() for term in terms}
        found: dict[int, list[tuple[int, int, int]]] = {term: [] for term in wanted}
        self._lengths = np.zeros((len(documents), 2))
        for row, document in enumerate(documents):
            counts = count_document(document, analyzer, settings)
            self._lengths[row] = counts.text.total(), counts.title.total()
            for term in wanted.intersection(counts.terms):
                found[term].append((row, counts.text[term], counts.title[term]))
        self._found = {term: np.array(one).T for term, one in found.items() if one}
        self._average = [rounded_length(float(one)) for one in self._lengths.mean(0)]

    def weights(self, settings: Bm25Settings) -> dict[int, _Floats]:
        """The weight of each term in the documents that have it."""
        weights = {}
        for term, (rows, texts, titles) in self._found.items():
            lengths, title_lengths = self._lengths[rows].T
            text = normalized(texts, lengths, self._average[0], settings.b)
            title = normalized(titles, title_lengths, self._average[1], settings.b)
            idf = float(inverse_frequency(len(rows), len(self._ids)))
            weights[term] = idf * saturated(text + settings.title_weight * title, settings)
        return weights

    def ndcg(self, query: str, grades: Mapping[str, int], weights: Mapping[int, _Floats]) -> float:
        """nDCG@10 of BM25's ranking for a query."""
        scores = np.zeros(len(self._ids))
        for term in self._queries[query]:
            if term in weights:
                scores[self._found[term][0]] += weights[term]
        order = np.argsort(-scores, kind="stable")[:DEPTH]
        gains = [grades.get(self._ids[row], 0) for row in order if scores[row] > 0]
        return ndcg_at(gains, grades.values(), DEPTH)

"""The tuned ranker: ready to answer queries."""

from dataclasses import dataclass

import lightgbm
import numpy as np

from assay.errors import SearchError
from assay.search.retriever import Ranked
from assay.search.tuning.arrays import Floats, Integers
from assay.search.tuning.boosting import predict
from assay.search.tuning.candidates import PAGE, Candidates, propose
from assay.search.tuning.first_pass import FirstPass, Signals, first_pass
from assay.search.tuning.heldout import HeldOut
from assay.search.tuning.memory import Memory
from assay.search.tuning.overlap import compare_with_judged
from assay.search.tuning.propagation import propagate
from assay.search.tuning.reading import Corpus, Reader


@dataclass(frozen=True)
class About:
    """What a model file says of itself."""

    fingerprint: str
    """Of the documents."""
    splits: tuple[str, ...]
    """Whose judgments it knows."""
    seed: int
    features: tuple[str, ...]
    versions: dict[str, str]


# A kind of evidence has brought up a document that is this high in its ranking.
FOUND_BY_RANK = 100
_EVIDENCE = {"words": "text", "meaning": "meaning_best", "judgments": "kriging_1"}


@dataclass(frozen=True)
class TunedRanker:
    about: About
    held_out: HeldOut
    reader: Reader
    corpus: Corpus
    memory: Memory
    overlap_trees: lightgbm.Booster
    ranking_trees: lightgbm.Booster
    tree_count: int
    """How many of the ranking trees are used."""
    familiar_from: float
    """A query whose highest predicted overlap is below this gets the zero-shot ranking."""

    def rank(self, text: str, vector: Floats, top_k: int = 10) -> list[Ranked] | None:
        """Best first; None where the zero-shot ranking is the better one."""
        top_k = self._checked(vector, top_k)
        questions = self.reader.read([text], np.asarray(vector, np.float32)[None, :])
        first = first_pass(self.corpus, self.memory, questions)
        signals, (candidates,) = second_pass(self.memory, first, self.overlap_trees, top_k)
        if candidates.familiarity < self.familiar_from:
            return None
        scores = predict(self.ranking_trees, candidates.features, self.tree_count)
        documents, values = _page(candidates, scores, top_k)
        labels = self.memory.bundles.label[documents]
        ranks = {kind: _ranks(signals[name][0], labels) for kind, name in _EVIDENCE.items()}
        return [
            Ranked(
                document, value, {kind: rank[place] for kind, rank in ranks.items() if rank[place]}
            )
            for place, (document, value) in enumerate(
                zip(documents.tolist(), values.tolist(), strict=True)
            )
        ]

    def _checked(self, vector: Floats, top_k: int) -> int:
        if top_k < 1:
            raise SearchError(f"top_k must be >= 1, got {top_k}")
        expected = self.corpus.vectors.shape[1]
        if np.shape(vector) != (expected,):
            raise SearchError(
                f"the query vector has shape {np.shape(vector)}, the tuned model knows vectors of "
                f"{expected} numbers: embed with the model of the index, or run `assay tune` again"
            )
        return min(top_k, len(self.corpus.vectors))


def second_pass(
    memory: Memory,
    first: FirstPass,
    overlap_trees: lightgbm.Booster,
    page: int = PAGE,
    threads: int = 1,
) -> tuple[Signals, list[Candidates]]:
    """From the first look to the candidates of each query, by way of the predicted overlaps."""
    pairs = compare_with_judged(memory, first)
    flat = pairs.features.reshape(-1, pairs.features.shape[-1])
    overlap = predict(overlap_trees, flat, -1, threads).reshape(pairs.neighbours.shape)
    signals = first.signals | propagate(memory, pairs.neighbours, overlap)
    return signals, propose(memory.bundles, first, signals, overlap.max(1), page)


def _page(candidates: Candidates, scores: Floats, top_k: int) -> tuple[Integers, Floats]:
    order = candidates.order(scores)[:top_k]
    documents = candidates.documents[order]
    values = 1 / (1 + np.exp(-scores[candidates.owners[order]].astype(np.float64)))
    missing = top_k - len(documents)
    if missing > 0:
        # Fewer candidates than asked for: zero-shot results follow, below all of them.
        rest = candidates.zero_shot[~np.isin(candidates.zero_shot, documents)][:missing]
        documents = np.concatenate([documents, rest])
        values = np.concatenate([values, np.zeros(len(rest))])
    # The documents of a bundle share its score: a hair between them keeps the order strict, the
    # same hair however many are asked for.
    steps = 1 / np.arange(1, len(documents) + 1)
    return documents, np.asarray(values * 0.999 + steps * 0.001, np.float64)


def _ranks(scores: Floats, labels: Integers) -> list[int]:
    """Of the bundles among all; 0 for those that this evidence did not bring up."""
    own = scores[labels]
    ranks = 1 + len(scores) - np.searchsorted(np.sort(scores), own, side="right")
    return [int(rank) for rank in np.where((ranks <= FOUND_BY_RANK) & (own > 1e-6), ranks, 0)]

"""Learning to rank with LightGBM: the candidates of a query, and the trees that rank them.

The same seed gives the same trees on every run. Every model is the mean of several that differ in
their seed: one alone moves nDCG@10 on NFCorpus by 0.01 from seed to seed, two by less than half.
The sets that rank differ in their queries as well: each has learned without one fold, whose queries
say how well it does.

What a leaf says is drawn towards zero (a ridge): the fewer pairs of documents a leaf has seen, the
less it moves a score. A few odd queries then teach little, and trees may be larger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from assay.search.tuning.arrays import (
    TINY,
    Floats,
    Integers,
    best_columns,
    columns_of,
    sort_keys,
)
from assay.search.tuning.memory import Bundles
from assay.search.tuning.signals import FirstPass, Signals

if TYPE_CHECKING:
    import lightgbm  # where trees are learned: what was learned is asked without it

OVERLAP_TREES = 150
RANKING_TREES = 100
# Fixed, since sums over threads depend on their number; one is faster where there is little to do.
THREADS = 2
SETS = 2
# Between the seeds of one model, so that those of neighboring seeds share none.
SEEDS_APART = 1000
FEW_ROWS = 30_000
# Grades above this are as good as this one.
HIGHEST_GRADE = 30

_ALWAYS: dict[str, object] = {
    "verbose": -1,
    "deterministic": True,
    "force_row_wise": True,
    "bagging_freq": 1,
    "max_bin": 63,
}
_OVERLAP: dict[str, object] = {
    "objective": "regression",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_data_in_leaf": 100,
    "bagging_fraction": 0.4,
    "feature_fraction": 0.5,
}
_RANKING: dict[str, object] = {
    "objective": "lambdarank",
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_data_in_leaf": 50,
    "lambda_l2": 10.0,
    "bagging_fraction": 0.5,
    "feature_fraction": 0.3,
    "lambdarank_truncation_level": 20,
    "metric": "none",
}


@dataclass(frozen=True)
class TreeSets:
    """Sets of trees that learned the same with other seeds."""

    sets: "tuple[lightgbm.Booster, ...]"

    @classmethod
    def joined(cls, several: "Sequence[TreeSets]") -> "TreeSets":
        """All their sets."""
        return cls(tuple(one for some in several for one in some.sets))

    def predict(self, features: Floats, trees: int, threads: int = 1) -> Floats:
        """The mean of what the first `trees` trees of each set say; all of them for -1."""
        found = [
            one.predict(features, num_iteration=trees, num_threads=threads) for one in self.sets
        ]
        return np.asarray(np.mean(found, axis=0), np.float32)


def learn_overlap(features: Floats, target: Floats, seed: int) -> TreeSets:
    """Trees that predict the overlap of a query with a judged one."""
    import lightgbm

    data = lightgbm.Dataset(features, target)
    settings = _ALWAYS | _OVERLAP | {"num_threads": _threads(len(target))}
    seeds = [seed + SEEDS_APART * number for number in range(SETS)]
    return TreeSets(
        tuple(lightgbm.train({**settings, "seed": one}, data, OVERLAP_TREES) for one in seeds)
    )


def learn_ranking(
    features: Floats,
    grades: Floats,
    sizes: Floats,
    queries: Sequence[int],
    seed: int,
) -> TreeSets:
    """LambdaMART (Burges 2010) over bundles, one set; `queries`: how many rows each query has.

    A bundle of many documents fills more of the page when it is ranked first, so it weighs more.
    """
    import lightgbm

    labels = np.minimum(np.rint(grades), HIGHEST_GRADE).astype(np.int64)
    weights = np.sqrt(np.minimum(sizes, 10))
    gains = list(range(int(labels.max(initial=1)) + 1))
    data = lightgbm.Dataset(features, labels, group=list(queries), weight=weights)
    threads = _threads(len(labels))
    settings = _ALWAYS | _RANKING | {"label_gain": gains, "num_threads": threads, "seed": seed}
    return TreeSets((lightgbm.train(settings, data, RANKING_TREES),))


def _threads(rows: int) -> int:
    return 1 if rows < FEW_ROWS else THREADS


DEPTH = 50
# How many documents a page of results has at most.
PAGE = 100
PROPOSING = (
    "body_best",
    "expanded",
    "meaning_best",
    "asked_centres",
    "both_centres",
    "near_8_evenly",
    "near_15_evenly",
    "hybrid_best",
    "text",
    "start",
    "ridge",
    "overlap_1_evenly",
    "overlap_2_evenly",
    "any_overlap",
    "kriging_1",
)
# The best vector similarity but four: low if nothing in the collection is about the query.
CLOSENESS_RANK = 5


@dataclass(frozen=True)
class RankingCandidates:
    """Of one query."""

    features: Floats
    """Candidate bundles by features."""
    sizes: Floats
    documents: Integers
    """Of all candidates, bundle after bundle; inside each the best zero-shot document first."""
    owners: Integers
    """The candidate that each document belongs to."""
    zero_shot: Integers
    """The best documents of the zero-shot ranking."""
    familiarity: float
    """The highest overlap that is predicted with any judged query."""

    def order(self, scores: Floats) -> Integers:
        """Places in `documents`, best first, when the candidates have these scores."""
        return np.argsort(-scores[self.owners], kind="stable")

    def mean_grades(self, grades: Floats) -> Floats:
        """Grades of all documents to those of the candidates."""
        total = np.bincount(self.owners, grades[self.documents], minlength=len(self.sizes))
        return np.asarray(total / self.sizes, np.float32)


def feature_names(signals: Signals) -> list[str]:
    """The columns of `RankingCandidates.features`."""
    names = list(signals)
    return [
        *names,
        *(f"{name}/max" for name in names),
        *(f"{name}/rank" for name in names),
        "query_length",
        "closeness",
    ]


def propose(
    bundles: Bundles, first: FirstPass, signals: Signals, familiarity: Floats, page: int = PAGE
) -> list[RankingCandidates]:
    """`signals`: those of the first look and those that were propagated."""
    best = _proposed(signals)
    meaning = signals["meaning_best"]
    rank = min(CLOSENESS_RANK, meaning.shape[1])
    closeness = -np.partition(-meaning, rank - 1, axis=1)[:, rank - 1]
    # As many for every page: how far a query is trusted depends on them.
    zero_shot = best_columns(first.hybrid, max(page, PAGE))
    found = []
    for row in range(len(best)):
        proposed = np.zeros(len(bundles), np.bool_)
        proposed[best[row]] = True
        chosen = np.flatnonzero(proposed)
        of_query = np.array([first.questions.lengths[row], closeness[row]], np.float32)
        documents, owners = _documents(bundles, chosen, first.hybrid[row])
        found.append(
            RankingCandidates(
                features=_features(
                    np.stack([scores[row, chosen] for scores in signals.values()]), of_query
                ),
                sizes=bundles.sizes[chosen],
                documents=documents,
                owners=owners,
                zero_shot=zero_shot[row],
                familiarity=float(familiarity[row]),
            )
        )
    return found


def _proposed(signals: Signals) -> Integers:
    """Queries by the best of each signal."""
    scores = np.stack([signals[name] for name in PROPOSING], axis=1)
    best = best_columns(scores.reshape(-1, scores.shape[2]), DEPTH)
    return best.reshape(len(scores), -1)


def _documents(bundles: Bundles, chosen: Integers, hybrid: Floats) -> tuple[Integers, Integers]:
    place = np.full(len(bundles), -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    owner = place[bundles.label]
    documents = np.flatnonzero(owner >= 0)
    documents = documents[np.lexsort((-hybrid[documents], owner[documents]))]
    return documents, owner[documents]


def _features(raw: Floats, of_query: Floats) -> Floats:
    """`raw`: signals by candidates."""
    signals, candidates = raw.shape
    features = np.empty((candidates, 3 * signals + len(of_query)), np.float32)
    features[:, :signals] = raw.T
    features[:, signals : 2 * signals] = (raw / (raw.max(1, keepdims=True) + TINY)).T
    order = columns_of(np.sort(sort_keys(raw), axis=1))
    ranks = np.arange(2 * signals, 3 * signals)[:, None]
    features[order, ranks] = 1 / np.arange(1, candidates + 1)
    features[:, 3 * signals :] = of_query
    return features

"""Chooses how the ranking trees are used, on queries that they have not learned from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import lightgbm
import numpy as np

from assay.search.tuning.arrays import Bits, Integers, sums
from assay.search.tuning.boosting import RANKING_TREES, THREADS, predict
from assay.search.tuning.candidates import Candidates
from assay.search.tuning.collection import TuningData
from assay.search.tuning.heldout import HeldOut, compare_rankings

TREE_COUNTS = (20, 40, 80, 120, 160, RANKING_TREES)
# 0 trusts the trees with every query.
FAMILIAR_FROM = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

ZeroShot = Callable[[Sequence[int]], list[Integers]]
"""The ranking that needs no tuning: for each query (by index) the documents, best first."""


@dataclass(frozen=True)
class Examination:
    """Queries that the trees have not learned from."""

    queries: list[int]
    candidates: list[Candidates]
    trees: lightgbm.Booster
    remembered: list[int]
    """Training queries whose judgments helped."""


@dataclass(frozen=True)
class Choice:
    trees: int
    familiar_from: float


def examine(
    split: str, data: TuningData, tests: Sequence[Examination], ask_zero_shot: ZeroShot
) -> tuple[Choice, HeldOut]:
    """The best number of trees, and which queries are left to the zero-shot ranking."""
    queries = [query for test in tests for query in test.queries]
    grades, zero_shot = data.grades(split, queries), ask_zero_shot(queries)
    familiar = np.concatenate([_familiar(data, split, test) for test in tests])
    candidates = [one for test in tests for one in test.candidates]

    def compare(rankings: Sequence[Integers], familiar_from: float) -> HeldOut:
        chosen = [
            tuned if one.familiarity >= familiar_from else untuned
            for tuned, one, untuned in zip(rankings, candidates, zero_shot, strict=True)
        ]
        return compare_rankings(split, zero_shot, chosen, grades, familiar)

    by_trees = {trees: _rankings(tests, trees) for trees in TREE_COUNTS}
    trees = max(TREE_COUNTS, key=lambda count: compare(by_trees[count], 0.0).all.ndcg_10)
    # Trust the trees as far as they do no harm, and not less: a start that merely scores higher
    # on these queries is chance.
    outcomes = {start: compare(by_trees[trees], start) for start in FAMILIAR_FROM}
    best = max(FAMILIAR_FROM, key=lambda start: outcomes[start].all.ndcg_10)
    start = next((start for start in FAMILIAR_FROM if outcomes[start].harmless), best)
    return Choice(trees, start), outcomes[start]


def _familiar(data: TuningData, split: str, test: Examination) -> Bits:
    """Which queries have a relevant document that a remembered query has, too."""
    known = sums(data.grades("train", test.remembered), 0) > 0
    return np.asarray(data.grades(split, test.queries) @ known.astype(np.float32) > 0)


def _rankings(tests: Sequence[Examination], trees: int) -> list[Integers]:
    found = []
    for test in tests:
        rows = np.concatenate([one.features for one in test.candidates])
        scores = predict(test.trees, rows, trees, THREADS)
        ends = np.cumsum([len(one.sizes) for one in test.candidates])
        for one, own in zip(test.candidates, np.split(scores, ends[:-1]), strict=True):
            found.append(one.documents[one.order(own)])
    return found

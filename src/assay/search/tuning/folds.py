"""Which training queries may learn from which: never one from itself."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

FOLDS = 5


@dataclass(frozen=True)
class Fold:
    asked: list[int]
    """The queries that are answered."""
    remembered: list[int]
    """The queries whose judgments may be used for it."""


def split_into_folds(queries: Sequence[int], seed: int, count: int = FOLDS) -> list[Fold]:
    shuffled = list(queries)
    random.Random(seed).shuffle(shuffled)
    parts = [shuffled[start::count] for start in range(count)]
    return [
        Fold(part, [query for other in parts if other is not part for query in other])
        for part in parts
    ]

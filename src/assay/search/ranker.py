"""What a ranking that was learned from judgments says, to those who show it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray


class Ranked(NamedTuple):
    """A document by its place in the index, with a score from 0 to 1."""

    document: int
    score: float
    signals: Mapping[str, int]
    """The document's rank for each kind of evidence that brought it up."""


class TunedRanker(Protocol):
    def rank(
        self, query_text: str, query_vector: NDArray[np.float32], top_k: int
    ) -> Sequence[Ranked] | None:
        """Best first. None: nothing that was learned fits, so the zero-shot ranking is better."""
        ...

"""From the predicted overlaps with judged queries to the relevance of bundles.

The plain way adds up the judgments of the neighbours, weighted. But many neighbours repeat each
other, and what they have in common is then counted again and again. Kriging (best linear
prediction, Cressie, "The Origins of Kriging", 1990) knows the true overlaps among the neighbours:
it looks for the relevance that explains all predicted overlaps together.
"""

import numpy as np
from scipy.linalg.lapack import sposv  # type: ignore[import-untyped]

from assay.search.tuning.arrays import Floats, Integers, dense, sparse_rows
from assay.search.tuning.first_pass import Signals
from assay.search.tuning.memory import Memory

POWERS = (1, 2, 4)
# How unreliable a predicted overlap is taken to be: a sharp answer and a smooth one.
NOISES = (1.0, 4.0)
ALMOST_CERTAIN = 0.98


def _explained(among: Floats, overlap: Floats, noise: float) -> Floats:
    """By Cholesky, in half the time of the general way: cosines are positive semidefinite."""
    own = np.float32(noise) * np.eye(overlap.shape[1], dtype=np.float32)
    solved = [sposv(one + own, row)[1] for one, row in zip(among, overlap, strict=True)]
    return np.asarray(solved, np.float32)


def propagate(memory: Memory, neighbours: Integers, overlap: Floats) -> Signals:
    overlap = np.clip(overlap, 0, 1).astype(np.float32)
    evenly = memory.evenly[neighbours]
    weights: Signals = {}
    for power in POWERS:
        weights[f"overlap_{power}"] = overlap**power
        weights[f"overlap_{power}_evenly"] = overlap**power * evenly
    weights["any_overlap"] = -np.log1p(-np.minimum(overlap, ALMOST_CERTAIN))
    among = memory.overlaps[neighbours[:, :, None], neighbours[:, None, :]]
    for noise in NOISES:
        weights[f"kriging_{noise:g}"] = _explained(among, overlap, noise) * evenly
    # One product for all: each sparse product has a price of its own.
    spread = sparse_rows(
        np.tile(neighbours, (len(weights), 1)),
        np.concatenate(list(weights.values())).astype(np.float32),
        len(memory.counts),
    )
    passed_on = np.split(dense(spread @ memory.relevant), len(weights))
    return dict(zip(weights, passed_on, strict=True))

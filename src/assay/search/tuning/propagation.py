"""From the predicted overlaps with judged queries to the relevance of bundles.

The plain way adds up the judgments of the neighbours, weighted. But many neighbours repeat each
other, and what they have in common is then counted again and again. Kriging (best linear
prediction, Cressie, "The Origins of Kriging", 1990) knows the true overlaps among the neighbours:
it looks for the relevance that explains all predicted overlaps together.
"""

import numpy as np

from assay.search.tuning.arrays import Floats, Integers, sparse_rows
from assay.search.tuning.first_pass import Signals
from assay.search.tuning.memory import Memory

POWERS = (1, 2, 4)
# How unreliable a predicted overlap is taken to be: a sharp answer and a smooth one.
NOISES = (1.0, 4.0)
ALMOST_CERTAIN = 0.98


def propagate(memory: Memory, neighbours: Integers, overlap: Floats) -> Signals:
    overlap = np.clip(overlap, 0, 1).astype(np.float32)
    found: Signals = {}

    def pass_on(name: str, weights: Floats) -> None:
        spread = sparse_rows(neighbours, weights.astype(np.float32), len(memory.counts))
        found[name] = np.asarray((spread @ memory.relevant).toarray(), np.float32)

    evenly = memory.evenly[neighbours]
    for power in POWERS:
        pass_on(f"overlap_{power}", overlap**power)
        pass_on(f"overlap_{power}_evenly", overlap**power * evenly)
    pass_on("any_overlap", -np.log1p(-np.minimum(overlap, ALMOST_CERTAIN)))
    among = memory.overlaps[neighbours[:, :, None], neighbours[:, None, :]]
    own = np.eye(neighbours.shape[1], dtype=np.float32)
    for noise in NOISES:
        weights = np.linalg.solve(among + np.float32(noise) * own, overlap[:, :, None])[:, :, 0]
        pass_on(f"kriging_{noise:g}", weights * evenly)
    return found

"""nDCG of one ranking, by which the search chooses its settings.

The package of metrics, whose formulas take many lists at once, stands above this one; a test holds
both to the same figures.
"""

from collections.abc import Iterable
from itertools import islice

import numpy as np


def ndcg_at(gains: Iterable[float], grades: Iterable[float], depth: int) -> float:
    """With linear gain and the discount of trec_eval; 0 for a query without relevant documents.

    Parameters:
        gains: the grades of the ranked documents, best rank first; 0 where one was not judged.
        grades: those of all judged documents of the query.
        depth: how many ranks count.
    """
    ideal = sorted((grade for grade in grades if grade > 0), reverse=True)
    best = _dcg(ideal[:depth])
    ranked = [max(0.0, gain) for gain in islice(gains, depth)]
    return _dcg(ranked) / best if best else 0.0


def _dcg(gains: list[float]) -> float:
    return float((np.array(gains) / np.log2(2 + np.arange(len(gains)))).sum())

"""Formulas for incomplete judgments: what a ranking is worth where nobody looked at all of it.

nDCG counts a document that was never judged as not relevant, which punishes systems that find
what those behind the judgments did not. These three treat it in other ways; where they disagree
with nDCG, a comparison hangs on unjudged documents. A negative grade is a document that was in the
pool and was not judged, as in trec_eval.
"""

import numpy as np

from assay.measure.graded import Floats, GradedLists, Integers


def condensed(lists: GradedLists) -> GradedLists:
    """The lists without the documents that nobody judged; the others move up (Sakai 2007)."""
    judged = lists.where(lists.grade >= 0)
    return GradedLists(judged.size, judged.owner, judged.position, judged.grade)


def bpref(ranked: GradedLists, ideal: GradedLists, _cutoff: int | None) -> Floats:
    """How seldom judged non-relevant documents are above relevant ones (Buckley and Voorhees 2004).

    As in trec_eval: for each relevant document found, 1 - min(non-relevant above it, R) /
    min(R, N), over R, the number of relevant documents; N are those judged and not relevant.
    """
    relevant = ideal.relevant.counts
    others = ideal.where(ideal.grade == 0).counts
    judged = condensed(ranked)
    if not judged.owner.size:
        return np.zeros(ranked.size, dtype=np.float64)
    is_other = (judged.grade == 0).astype(np.int64)
    before = np.cumsum(is_other) - is_other
    first = np.searchsorted(judged.owner, np.arange(judged.size))  # where each list begins
    above = before - before[np.minimum(first, before.size - 1)][judged.owner]
    found = judged.grade > 0
    owner, above = judged.owner[found], above[found]
    bound = np.minimum(relevant, others)[owner]
    lost = np.zeros(above.shape, dtype=np.float64)
    np.divide(np.minimum(above, relevant[owner]), bound, out=lost, where=bound > 0)
    total = np.bincount(owner, weights=1.0 - lost, minlength=ranked.size)
    return _share(total, relevant)


def inferred_ndcg(ranked: GradedLists, ideal: GradedLists, cutoff: int | None) -> Floats:
    """nDCG estimated from a random sample of one pool (Yilmaz, Kanoulas and Aslam 2008).

    Each judged document stands for as many as were sampled from: pool / judged. Without documents
    that were pooled and not judged it is nDCG. An estimate may exceed 1 and is cut there.
    """
    judged = ideal.where(ideal.grade >= 0).counts
    weight = np.ones(ideal.size, dtype=np.float64)
    np.divide(ideal.counts, judged, out=weight, where=judged > 0)
    found = ranked.relevant.top(cutoff)
    gained = found.total(found.grade / np.log2(found.rank + 2.0)) * weight
    best = ideal.relevant
    start = best.position * weight[best.owner]
    end = start + weight[best.owner]
    places = _discounts(end, cutoff) - _discounts(start, cutoff)
    return np.minimum(_share(gained, best.total(best.grade * places)), 1.0)


def _discounts(places: Floats, cutoff: int | None) -> Floats:
    """The sum of the discounts of so many first places, of the last one its part."""
    reach = places if cutoff is None else np.minimum(places, float(cutoff))
    last = int(np.ceil(reach.max())) if reach.size else 0
    single = 1.0 / np.log2(np.arange(last + 1) + 2.0)
    whole = np.concatenate([[0.0], np.cumsum(single)])
    full = np.floor(reach).astype(np.int64)
    return np.asarray(whole[full] + (reach - full) * single[np.minimum(full, last)])


def _share(part: Floats | Integers, whole: Floats | Integers) -> Floats:
    out = np.zeros(part.shape, dtype=np.float64)
    return np.divide(part, whole, out=out, where=whole > 0)

"""What each metric computes, for many lists at once.

Every formula takes the lists as ranked, the ideal lists (all judgments, best first) and a cut-off
(None: the whole list), and gives one value for each list. Definitions follow trec_eval; the
parity suite holds them to pytrec_eval within 1e-9.

"""

# Why not call pytrec_eval: it takes a dict of scores for each query and copies it. For 10,000 lists
# of 100 documents, a mean nDCG@10 takes it 0.34 s, and Assay 0.23 s with checks of every id,
# ceilings and interval, before the dicts are even built (`benchmarks/scoring.py`). It also reads
# outside its memory if all grades of a query are negative, and counts up to the highest grade.

from collections.abc import Callable

import numpy as np

from assay.errors import UsageError
from assay.metrics.graded import Floats, GradedLists, Integers

Formula = Callable[[GradedLists, GradedLists, int | None], Floats]
GainFunction = Callable[[Integers], Floats]
QueryFunction = Callable[[list[int], list[int], int | None], float]


def linear(grade: Integers) -> Floats:
    """The grade itself, as in trec_eval."""
    return grade.astype(np.float64)


def exponential(grade: Integers) -> Floats:
    """2^grade - 1 (Burges et al. 2005, "Learning to rank using gradient descent")."""
    return np.exp2(grade.astype(np.float64)) - 1.0


def ndcg(gain: GainFunction) -> Formula:
    """Järvelin and Kekäläinen 2002, with the discount log2(rank + 1) that trec_eval uses."""

    def formula(ranked: GradedLists, ideal: GradedLists, cutoff: int | None) -> Floats:
        # The ideal comes from all judgments. Taken from the retrieved documents instead, it would
        # give every list that is sorted the value 1, however little it found.
        return _ratio(_dcg(ranked, cutoff, gain), _dcg(ideal, cutoff, gain))

    return formula


def condensed_ndcg(ranked: GradedLists, ideal: GradedLists, cutoff: int | None) -> Floats:
    """nDCG of the list without the documents that nobody judged."""
    return ndcg(linear)(condensed(ranked), ideal, cutoff)


def _dcg(lists: GradedLists, cutoff: int | None, gain: GainFunction) -> Floats:
    found = lists.relevant.top(cutoff)
    return found.total(gain(found.grade) / np.log2(found.rank + 2))


def recall(ranked: GradedLists, ideal: GradedLists, cutoff: int | None) -> Floats:
    """The share of all relevant documents that the ranking holds."""
    return _ratio(_hits(ranked, cutoff), ideal.relevant.counts)


def capped_recall(ranked: GradedLists, ideal: GradedLists, cutoff: int | None) -> Floats:
    """Recall relative to what a list of this length can hold (BEIR, Thakur et al. 2021)."""
    reachable = np.minimum(ideal.relevant.counts, _required(cutoff))
    return _ratio(_hits(ranked, cutoff), reachable)


def precision(ranked: GradedLists, _ideal: GradedLists, cutoff: int | None) -> Floats:
    """The share of the first places that hold a relevant document."""
    # Out of the cut-off, not out of the list's length: a short list is not rewarded.
    return _hits(ranked, cutoff) / _required(cutoff)


def reciprocal_rank(ranked: GradedLists, _ideal: GradedLists, cutoff: int | None) -> Floats:
    """1 / rank of the first relevant document."""
    found = ranked.relevant.top(cutoff)
    return found.total(np.where(found.position == 0, 1.0 / (found.rank + 1), 0.0))


def average_precision(ranked: GradedLists, ideal: GradedLists, cutoff: int | None) -> Floats:
    """The mean of the precision at each relevant document, over all relevant ones."""
    found = ranked.relevant.top(cutoff)
    return _ratio(found.total((found.position + 1) / (found.rank + 1)), ideal.relevant.counts)


def r_precision(ranked: GradedLists, ideal: GradedLists, _cutoff: int | None) -> Floats:
    """Precision at the number of relevant documents, which differs from query to query."""
    found, relevant = ranked.relevant, ideal.relevant.counts
    inside = found.rank < relevant[found.owner]
    return _ratio(found.total(inside.astype(np.float64)), relevant)


def hit(ranked: GradedLists, _ideal: GradedLists, cutoff: int | None) -> Floats:
    """1 if any relevant document is found."""
    return (_hits(ranked, cutoff) > 0).astype(np.float64)


def judged(ranked: GradedLists, _ideal: GradedLists, cutoff: int | None) -> Floats:
    """The share of the first places about which the judgments say anything at all."""
    return ranked.top(cutoff).counts / _required(cutoff)


def _hits(ranked: GradedLists, cutoff: int | None) -> Integers:
    return ranked.relevant.top(cutoff).counts


def _required(cutoff: int | None) -> int:
    if cutoff is None:
        raise ValueError("this formula needs a cut-off")
    return cutoff


def _ratio(part: Floats | Integers, whole: Floats | Integers) -> Floats:
    """0 if there is nothing to find."""
    out = np.zeros(part.shape, dtype=np.float64)
    return np.divide(part, whole, out=out, where=whole > 0)


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
    # One running count over all lists; what stood before a list began is taken off again.
    before = np.cumsum(is_other) - is_other
    first = np.searchsorted(judged.owner, np.arange(judged.size))  # where each list begins
    above = before - before[np.minimum(first, before.size - 1)][judged.owner]
    found = judged.grade > 0
    owner, above = judged.owner[found], above[found]
    bound = np.minimum(relevant, others)[owner]
    lost = np.zeros(above.shape, dtype=np.float64)
    np.divide(np.minimum(above, relevant[owner]), bound, out=lost, where=bound > 0)
    total = np.bincount(owner, weights=1.0 - lost, minlength=ranked.size)
    return _ratio(total, relevant)


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
    return np.minimum(_ratio(gained, best.total(best.grade * places)), 1.0)


def _discounts(places: Floats, cutoff: int | None) -> Floats:
    """The sum of the discounts of so many first places, of the last one its part."""
    reach = places if cutoff is None else np.minimum(places, float(cutoff))
    full = np.floor(reach).astype(np.int64)
    single = 1.0 / np.log2(np.arange(full.max(initial=0) + 1) + 2.0)
    whole = np.concatenate([[0.0], np.cumsum(single)])
    return np.asarray(whole[full] + (reach - full) * single[full])


def per_query(function: QueryFunction, name: str) -> Formula:
    """A formula from a plug-in, which sees one query at a time.

    `function(grades, ideal, cutoff)` gets the grade at each place (0 if not relevant or not
    judged; nothing beyond the cut-off), all grades of the query, best first, and the cut-off or
    None. It returns a number from 0 to 1.
    """

    def formula(ranked: GradedLists, ideal: GradedLists, cutoff: int | None) -> Floats:
        pairs = zip(ranked.top(cutoff).as_lists(), ideal.as_lists(), strict=True)
        values = np.array([function(grades, best, cutoff) for grades, best in pairs], np.float64)
        wrong = values[~((values >= 0) & (values <= 1))]
        if wrong.size:
            raise UsageError(f"metric {name!r} must return numbers from 0 to 1, got {wrong[0]}")
        return values

    return formula

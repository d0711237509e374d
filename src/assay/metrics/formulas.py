"""What each metric computes, for many lists at once, as trec_eval defines it.

A formula takes the lists as ranked, the ideal lists (all judgments, best first) and a cut-off
(None: the whole list). A ceiling is the metric itself, measured on the ideal lists.
"""

# Why not call pytrec_eval: it takes a dict of scores for each query, which takes longer than all
# this (`benchmarks/scoring.py`), and reads outside its memory if all grades of one are negative.

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from assay.errors import UsageError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
QueryFunction = Callable[[list[int], list[int], int | None], float]
GainFunction = Callable[[Integers], Floats]

_UNJUDGED = int(np.iinfo(np.int64).min)


def has_relevant(grades: Mapping[str, int]) -> bool:
    """Whether any document of a query is relevant: only such a query can be measured."""
    return any(grade > 0 for grade in grades.values())


@dataclass(frozen=True, eq=False)
class GradedLists:
    """Entry i says: in list `owner[i]`, at `rank[i]` (from 0), is a document of `grade[i]`.

    Entries are ordered by list, then by rank.
    """

    size: int
    owner: Integers
    rank: Integers
    grade: Integers

    @classmethod
    def of_grades(cls, grades: Sequence[int], lengths: Sequence[int]) -> "GradedLists":
        """From the grades of all lists end to end."""
        flat = np.array(grades, dtype=np.int64)
        counts = np.array(lengths, dtype=np.int64)
        owner = np.repeat(np.arange(counts.size), counts)
        rank = np.arange(flat.size) - np.repeat(np.cumsum(counts) - counts, counts)
        # A document without a judgment never scores, so only the judged ones are kept.
        return cls(counts.size, owner, rank, flat).where(flat != _UNJUDGED)

    @classmethod
    def ranked(
        cls,
        lists: Iterable[Sequence[str | None]],
        judgments: Iterable[Mapping[str, int]],
    ) -> "GradedLists":
        """One list of document ids for each query; None is a place that earns nothing."""
        grades: list[int] = []
        lengths: list[int] = []
        # One `map` for each list keeps the loop over millions of ids in C.
        for ids, judged in zip(lists, judgments, strict=True):
            grades.extend(map(judged.get, ids, repeat(_UNJUDGED)))  # type: ignore[arg-type]
            lengths.append(len(ids))
        return cls.of_grades(grades, lengths)

    @classmethod
    def ideal(cls, judgments: Iterable[Mapping[str, int]]) -> "GradedLists":
        """Every judged document, best grade first: no list can do better on any metric here."""
        grades: list[int] = []
        lengths: list[int] = []
        for judged in judgments:
            grades.extend(sorted(judged.values(), reverse=True))
            lengths.append(len(judged))
        return cls.of_grades(grades, lengths)

    def top(self, depth: int | None) -> "GradedLists":
        """The entries in the first `depth` places of each list; None for all of them."""
        return self if depth is None else self.where(self.rank < depth)

    @cached_property
    def relevant(self) -> "GradedLists":
        """The entries of a positive grade; zero and below is judged and not relevant."""
        return self.where(self.grade > 0)

    @cached_property
    def counts(self) -> Integers:
        """How many entries each list has."""
        return np.bincount(self.owner, minlength=self.size)

    @cached_property
    def position(self) -> Integers:
        """How many entries of the same list precede each one."""
        return np.arange(self.owner.size) - (np.cumsum(self.counts) - self.counts)[self.owner]

    def total(self, weights: Floats) -> Floats:
        """The sum of the weights of each list's entries."""
        sums = np.bincount(self.owner, weights=weights, minlength=self.size)
        return np.asarray(sums, np.float64)

    def as_lists(self) -> list[list[int]]:
        """The grade at each place of each list, up to its last judged document; 0 if unjudged."""
        lists: list[list[int]] = [[] for _ in range(self.size)]
        entries = (self.owner.tolist(), self.rank.tolist(), self.grade.tolist())
        for owner, rank, grade in zip(*entries, strict=True):
            lists[owner] += [0] * (rank - len(lists[owner]))
            lists[owner].append(max(grade, 0))
        return lists

    def where(self, mask: NDArray[np.bool_]) -> "GradedLists":
        """The entries that `mask` selects."""
        if mask.all():
            return self
        return GradedLists(self.size, self.owner[mask], self.rank[mask], self.grade[mask])


Formula = Callable[[GradedLists, GradedLists, int | None], Floats]


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
    """nDCG of the list without its unjudged documents."""
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
    """The lists without unjudged documents; the others move up (Sakai 2007)."""
    judged = lists.where(lists.grade >= 0)
    return GradedLists(judged.size, judged.owner, judged.position, judged.grade)


def bpref(ranked: GradedLists, ideal: GradedLists, _cutoff: int | None) -> Floats:
    """How seldom judged others are above relevant documents (Buckley and Voorhees 2004)."""
    # For each relevant document found 1 - min(others above it, R) / min(R, N), over R, the number
    # of relevant documents; N are those judged and not relevant.
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
    """A formula from a plug-in: `function(grades, ideal, cutoff)` returns a number from 0 to 1.

    `grades` are those at each place up to the cut-off (0 if not relevant or not judged), `ideal`
    all grades of the query, best first.
    """

    def formula(ranked: GradedLists, ideal: GradedLists, cutoff: int | None) -> Floats:
        pairs = zip(ranked.top(cutoff).as_lists(), ideal.as_lists(), strict=True)
        values = np.array([function(grades, best, cutoff) for grades, best in pairs], np.float64)
        wrong = values[~((values >= 0) & (values <= 1))]
        if wrong.size:
            raise UsageError(f"metric {name!r} must return numbers from 0 to 1, got {wrong[0]}")
        return values

    return formula

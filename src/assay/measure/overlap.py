"""How far two rankings of one query differ, without any judgment."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

PERSISTENCE = 0.9
"""RBO's p: the first ten places weigh 86% of the whole (Webber, Moffat and Zobel 2010, eq. 21)."""


@dataclass(frozen=True, slots=True)
class ListOverlap:
    """Two lists of one query.

    Attributes:
        rbo: rank-biased overlap, extrapolated: 1 for the same list, 0 for lists without a common
            document.
        shared: the share of the places of the longer list whose document is in both.
        jaccard: documents in both, of those in either.
        tau: Kendall's tau of the order of the documents in both; None for fewer than two.
        swapped: pairs of documents that are in both, in the opposite order.
        moved_in: documents that only the second list has.
        same_first: whether both begin with the same document.
    """

    rbo: float
    shared: float
    jaccard: float
    tau: float | None
    swapped: int
    moved_in: int
    same_first: bool

    @property
    def identical(self) -> bool:
        """Whether the lists are the same, document by document."""
        return self.shared == 1.0 and self.swapped == 0


def compare_lists(
    a: Sequence[str], b: Sequence[str], persistence: float = PERSISTENCE
) -> ListOverlap:
    """Compare two lists, best first; repeated ids count once, where they are first."""
    first, second = list(dict.fromkeys(a)), list(dict.fromkeys(b))
    common = set(first) & set(second)
    longest = max(len(first), len(second))
    swapped, pairs = _swapped(first, second, common)
    return ListOverlap(
        rbo=rank_biased_overlap(first, second, persistence),
        shared=len(common) / longest if longest else 1.0,
        jaccard=len(common) / len({*first, *second}) if longest else 1.0,
        tau=1 - 2 * swapped / pairs if pairs else None,
        swapped=swapped,
        moved_in=len(second) - len(common),
        same_first=first[:1] == second[:1],
    )


def rank_biased_overlap(
    a: Sequence[str], b: Sequence[str], persistence: float = PERSISTENCE
) -> float:
    """RBO of two lists without repeats, extrapolated beyond their ends and for uneven lengths.

    Webber, Moffat and Zobel 2010, "A similarity measure for indefinite rankings", equation 32. It
    weighs the agreement at each depth d by p^d, so that the first places count most, and assumes
    that beyond the lists the agreement stays as it was. 1 for two empty lists, 0 for one.
    """
    short, long = sorted((a, b), key=len)
    if not short:
        return 0.0 if long else 1.0
    s, length, p = len(short), len(long), persistence
    seen_short: set[str] = set()
    seen_long: set[str] = set()
    overlap = at_short = 0
    total = 0.0
    for depth in range(1, length + 1):
        here = long[depth - 1]
        overlap += here in seen_short
        seen_long.add(here)
        if depth <= s:
            there = short[depth - 1]
            overlap += there in seen_long
            seen_short.add(there)
            at_short = overlap
            agreement = overlap / depth
        else:  # the short list is taken to go on as it was
            agreement = overlap / depth + at_short * (depth - s) / (s * depth)
        total += agreement * p**depth
    rest = ((overlap - at_short) / length + at_short / s) * p**length
    return min(1.0, (1 - p) / p * total + rest)


def _swapped(first: Sequence[str], second: Sequence[str], common: set[str]) -> tuple[int, int]:
    """How many pairs of common documents are in another order, and how many pairs there are."""
    place = {doc_id: rank for rank, doc_id in enumerate(second)}
    order = [place[doc_id] for doc_id in first if doc_id in common]
    if len(order) > _PAIRWISE:
        return _inversions(order)[0], len(order) * (len(order) - 1) // 2
    return sum(x > y for x, y in combinations(order, 2)), len(order) * (len(order) - 1) // 2


_PAIRWISE = 64


def _inversions(order: list[int]) -> tuple[int, list[int]]:
    """Pairs in the wrong order, by merge sort: a thousand documents have half a million pairs."""
    if len(order) < 2:
        return 0, order
    middle = len(order) // 2
    left_count, left = _inversions(order[:middle])
    right_count, right = _inversions(order[middle:])
    count, merged, place = left_count + right_count, list[int](), 0
    for value in left:
        while place < len(right) and right[place] < value:
            merged.append(right[place])
            place += 1
        count += place
        merged.append(value)
    return count, merged + right[place:]

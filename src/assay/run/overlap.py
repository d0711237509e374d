"""`assay compare --overlap`: how far the rankings of two runs differ, where nobody judged them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np

from assay.errors import RunError
from assay.run.folder import RunFolder
from assay.run.models import AnswerRow, QueryRow, RunHeader
from assay.run.run_record import RunRecord
from assay.run.title import comparison_title, distinguish

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


def compare_lists(a: Sequence[str], b: Sequence[str]) -> ListOverlap:
    """Compare two lists, best first; repeated ids count once, where they are first."""
    first, second = list(dict.fromkeys(a)), list(dict.fromkeys(b))
    common = set(first) & set(second)
    longest = max(len(first), len(second))
    swapped, pairs = _swapped(first, second, common)
    return ListOverlap(
        rbo=rank_biased_overlap(first, second),
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


CHANGED = 20
"""How many of the queries that changed most are listed."""

Row = TypeVar("Row", QueryRow, AnswerRow)


def pair_rows(rows_a: Iterable[Row], rows_b: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """The rows of each query that both runs have, in the order of A.

    Rows of B are read as they are needed: of two runs in the same order, none stays in memory.
    """
    theirs, waiting = iter(rows_b), dict[str, Row]()
    for row in rows_a:
        while row.query_id not in waiting and (other := next(theirs, None)) is not None:
            waiting[other.query_id] = other
        if (found := waiting.pop(row.query_id, None)) is not None:
            yield row, found


class CountedRows:
    """Rows that are read once, and counted."""

    def __init__(self, rows: Iterable[QueryRow]) -> None:
        self._rows, self._count = iter(rows), 0

    def __iter__(self) -> Iterator[QueryRow]:
        for row in self._rows:
            self._count += 1
            yield row

    def all(self) -> int:
        """How many there are: the rest is read for it."""
        return self._count + sum(1 for _ in self._rows)


class QueryOverlap(RunRecord):
    """One query in both runs; see `ListOverlap` for the figures."""

    query_id: str
    query_text: str
    rbo: float
    shared: float
    jaccard: float
    tau: float | None
    swapped: int
    moved_in: int
    same_first: bool


class RankingOverlap(RunRecord):
    """How far the rankings of run B differ from those of run A.

    Attributes:
        run_a, run_b: the folders' names; a and b are what to call the runs.
        top_k: how many places of each ranking were compared.
        queries: on how many queries, answered in both.
        persistence: RBO's p.
        rbo, shared, jaccard: means over the queries.
        tau: the mean over queries with at least two common documents; None if there are none.
        same_first: queries with the same first document.
        identical, disjoint: queries whose rankings are the same, or have nothing in common.
        changed: those that changed most, the lowest RBO first.
    """

    run_a: str
    run_b: str
    a: str
    b: str
    title: str
    top_k: int
    queries: int
    persistence: float
    rbo: float
    shared: float
    jaccard: float
    tau: float | None
    same_first: int
    identical: int
    disjoint: int
    changed: list[QueryOverlap]
    warnings: list[str]


def compare_run_rankings(a: RunFolder, b: RunFolder) -> RankingOverlap:
    """Compare two runs query by query, whatever judgments they had. Raises `RunError`."""
    headers = [a.read_header(), b.read_header()]
    return overlap_of(a.read_rows(), b.read_rows(), (a.name, b.name), headers)


def overlap_of(
    rows_a: Iterable[QueryRow],
    rows_b: Iterable[QueryRow],
    runs: tuple[str, str],
    headers: Sequence[RunHeader],
) -> RankingOverlap:
    """The same for rows, each of which is looked at once."""
    top_k = min(header.config.top_k for header in headers)
    mine, theirs = CountedRows(rows_a), CountedRows(rows_b)
    shared = other_texts = 0
    found: list[tuple[tuple[str, str], ListOverlap]] = []
    for a, b in pair_rows(mine, theirs):
        shared += 1
        other_texts += bool(a.query_text and b.query_text and a.query_text != b.query_text)
        if a.status == b.status == "ok":
            lists = compare_lists(a.retrieved_docs[:top_k], b.retrieved_docs[:top_k])
            found.append(((a.query_id, a.query_text), lists))
    if not found:
        raise RunError("the two runs have no query that both answered, so nothing can be compared")
    name_a, name_b = distinguish(headers)
    each = [overlap for _, overlap in found]
    taus = [overlap.tau for overlap in each if overlap.tau is not None]
    changed = sorted(found, key=lambda item: (item[1].rbo, item[1].shared))
    return RankingOverlap(
        run_a=runs[0],
        run_b=runs[1],
        a=name_a,
        b=name_b,
        title=comparison_title([name_a, name_b]),
        top_k=top_k,
        queries=len(found),
        persistence=PERSISTENCE,
        rbo=_mean([overlap.rbo for overlap in each]),
        shared=_mean([overlap.shared for overlap in each]),
        jaccard=_mean([overlap.jaccard for overlap in each]),
        tau=_mean(taus) if taus else None,
        same_first=sum(overlap.same_first for overlap in each),
        identical=sum(overlap.identical for overlap in each),
        disjoint=sum(overlap.jaccard == 0 for overlap in each),
        changed=[
            QueryOverlap(query_id=query_id, query_text=text, **asdict(lists))
            for (query_id, text), lists in changed[:CHANGED]
            if not lists.identical
        ],
        warnings=_warnings(headers, mine.all(), theirs.all(), shared, len(found), other_texts),
    )


def _warnings(
    headers: Sequence[RunHeader],
    in_a: int,
    in_b: int,
    shared: int,
    answered: int,
    other: int,
) -> list[str]:
    warnings = []
    if not shared == in_a == in_b:
        warnings.append(f"compared on the {shared} queries that both runs have ({in_a} and {in_b})")
    if answered < shared:
        warnings.append(f"{shared - answered} queries failed in one of the runs and are left out")
    depths = {header.config.top_k for header in headers}
    if len(depths) > 1:
        warnings.append(f"the runs asked for {max(depths)} and {min(depths)} documents")
    if other:
        warnings.append(f"{other} queries have another text in the second run: is it the same set?")
    return warnings


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))

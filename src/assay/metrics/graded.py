"""Many ranked lists as three flat arrays: the ranks of the judged documents, and their grades.

The ideal lists have the same shape, which is why a ceiling is the metric itself, measured on them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_UNJUDGED = int(np.iinfo(np.int64).min)


def has_relevant(grades: Mapping[str, int]) -> bool:
    """Whether any document of a query is relevant: only such a query can be measured."""
    return any(grade > 0 for grade in grades.values())


@dataclass(frozen=True, eq=False, repr=False)
class GradedLists:
    """Entry i says: in list `owner[i]`, at `rank[i]` (from 0), is a document of `grade[i]`.

    Entries are ordered by list, then by rank.
    """

    size: int
    owner: Integers
    rank: Integers
    grade: Integers

    def __repr__(self) -> str:
        return f"<GradedLists: {self.size:,} lists, {self.owner.size:,} judged documents>"

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
        for owner, rank, grade in zip(
            self.owner.tolist(), self.rank.tolist(), self.grade.tolist(), strict=True
        ):
            grades = lists[owner]
            grades.extend([0] * (rank - len(grades)))
            grades.append(max(grade, 0))
        return lists

    def where(self, mask: NDArray[np.bool_]) -> "GradedLists":
        """The entries that `mask` selects."""
        if mask.all():
            return self
        return GradedLists(self.size, self.owner[mask], self.rank[mask], self.grade[mask])

"""Scores by what queries have in common: their length, form, tags and relevant documents."""

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from assay.run.models import QueryRow

_TAGS = 14
_WORD_STEPS = (1, 2, 3, 5, 8, 12)
_RELEVANT_STEPS = (1, 2, 4, 8, 16, 32, 64)
_FORMS = ("one word", "phrase", "question")
_QUESTION = re.compile(
    r"\?\s*$|^(how|what|which|who|whose|when|where|why|is|are|was|were|do|does|did|can|could|should|"
    r"will|would|has|have)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class QueryGroup:
    """Queries that have something in common, and their mean score with its 95% interval."""

    name: str
    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(slots=True)
class RunningMean:
    """Count, mean and squared deviations of scores, updated one at a time (Welford 1962)."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, score: float) -> None:
        """Take one more score into account."""
        self.n += 1
        before = score - self.mean
        self.mean += before / self.n
        self.squares += before * (score - self.mean)

    def group(self, name: str) -> QueryGroup:
        """The mean with the interval of the t distribution: a bootstrap of each would be slow."""
        if self.n < 2:
            return QueryGroup(name, self.n, self.mean, None, None)
        deviation = math.sqrt(max(0.0, self.squares) / (self.n - 1))
        half = _t95(self.n - 1) * deviation / math.sqrt(self.n)
        low, high = max(0.0, self.mean - half), min(1.0, self.mean + half)
        return QueryGroup(name, self.n, self.mean, low, high)


class QueryGroups:
    """Collects scores by group, one query at a time."""

    def __init__(self) -> None:
        self._by_words: dict[str, RunningMean] = defaultdict(RunningMean)
        self._by_relevant: dict[str, RunningMean] = defaultdict(RunningMean)
        self._by_form: dict[str, RunningMean] = defaultdict(RunningMean)
        self._by_tag: dict[str, RunningMean] = defaultdict(RunningMean)

    def add(self, row: QueryRow, score: float, tags: Iterable[str] = ()) -> None:
        """Take the score of one more query into account."""
        self._by_words[_step_name(len(row.query_text.split()), _WORD_STEPS)].add(score)
        self._by_relevant[_step_name(row.total_relevant_docs, _RELEVANT_STEPS)].add(score)
        self._by_form[form_of(row.query_text)].add(score)
        for tag in tags:
            self._by_tag[tag].add(score)

    def by_title(self) -> dict[str, list[QueryGroup]]:
        """The groups under their titles.

        A title with one group is left out: that group is the headline again.
        """
        found = {
            "Words in the query": _step_groups(self._by_words, _WORD_STEPS),
            "Relevant documents": _step_groups(self._by_relevant, _RELEVANT_STEPS),
            "Form of the query": _groups(self._by_form, _FORMS),
            "Tag of the query": _groups(self._by_tag, self._frequent_tags()),
        }
        return {title: groups for title, groups in found.items() if len(groups) > 1}

    def _frequent_tags(self) -> list[str]:
        return sorted(self._by_tag, key=lambda tag: (-self._by_tag[tag].n, tag))[:_TAGS]


def form_of(query: str) -> str:
    """`one word`, `phrase` or `question`."""
    if _QUESTION.search(query.strip()):
        return "question"
    return "one word" if len(query.split()) <= 1 else "phrase"


def _groups(means: Mapping[str, RunningMean], names: Iterable[str]) -> list[QueryGroup]:
    return [means[name].group(name) for name in names if name in means]


def _step_groups(means: Mapping[str, RunningMean], steps: Sequence[int]) -> list[QueryGroup]:
    return _groups(means, (_step_name(start, steps) for start in steps))


def _step_name(value: int, steps: Sequence[int]) -> str:
    """The step that a value falls in, `3 to 4`; the last step has no end."""
    place = bisect_right(steps, value)
    if place == 0:
        return f"below {steps[0]}"
    start = steps[place - 1]
    if place == len(steps):
        return f"{start} or more"
    return str(start) if steps[place] == start + 1 else f"{start} to {steps[place] - 1}"


def _t95(freedom: int) -> float:
    """The two-sided 95% quantile of t, by its expansion (Abramowitz and Stegun 26.7.5)."""
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3

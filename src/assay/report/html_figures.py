"""What the report draws of a run's rows, gathered in one pass: a run may have 100,000 of them."""

import heapq
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from assay.data.dataset import Query

SHOWN = 10
_BINS = 20
_TIMES = 24
_TAGS = 14
_QUESTION = re.compile(
    r"\?\s*$|^(how|what|which|who|whose|when|where|why|is|are|was|were|do|does|did|can|could|should|"
    r"will|would|has|have)\b",
    re.IGNORECASE,
)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Group:
    """Queries that have something in common, and how well they went."""

    name: str
    n: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class LatencyOverTime:
    """`axis` is seconds, or queries where the rows do not say when they were asked."""

    places: Sequence[float]
    series: Mapping[str, Sequence[float | None]]
    axis: str


@dataclass
class RowFigures:
    """`key` is the headline's column in the rows; `queries` are those of the data set, by id."""

    key: str
    queries: Mapping[str, Query] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scores: list[float] = []
        self.failure_examples: dict[str, Row] = {}
        self._lengths: list[int] = []
        self._relevant: list[int] = []
        self._forms: list[str] = []
        self._tags: dict[str, list[float]] = defaultdict(list)
        self._times: list[float] = []
        self._latencies: list[float] = []
        self._timed = True
        self._worst = _Extremes()
        self._best = _Extremes()

    def read(self, rows: Iterable[Row]) -> "RowFigures":
        for row in rows:
            self._add(row)
        return self

    @property
    def worst(self) -> list[Row]:
        return self._worst.rows()

    @property
    def best(self) -> list[Row]:
        """None that is among the worst: a run of few queries shows each once."""
        shown = {row["query_id"] for row in self.worst}
        return [row for row in self._best.rows() if row["query_id"] not in shown]

    @property
    def zeros(self) -> int:
        return sum(score == 0 for score in self.scores)

    @property
    def perfect(self) -> int:
        return sum(score >= 1 - 1e-9 for score in self.scores)

    def histogram(self) -> list[int]:
        """Counts in equal steps from 0 to 1, exact zeros left out."""
        values = np.array([score for score in self.scores if score > 0])
        counts: NDArray[np.int64] = np.histogram(values, bins=_BINS, range=(0, 1))[0]
        return [int(number) for number in counts]

    def by_length(self) -> list[Group]:
        return self._by_steps(self._lengths, (1, 2, 3, 5, 8, 12))

    def by_relevant(self) -> list[Group]:
        return self._by_steps(self._relevant, (1, 2, 4, 8, 16, 32, 64))

    def by_form(self) -> list[Group]:
        groups: dict[str, list[float]] = defaultdict(list)
        for form, score in zip(self._forms, self.scores, strict=True):
            groups[form].append(score)
        order = ("one word", "phrase", "question")
        return [group_of(form, groups[form]) for form in order if groups[form]]

    def by_tag(self) -> list[Group]:
        """The most frequent tags of the data set, where it has any."""
        frequent = sorted(self._tags.items(), key=lambda item: (-len(item[1]), item[0]))
        return [group_of(tag, scores) for tag, scores in frequent[:_TAGS]]

    def latency_over_time(self) -> LatencyOverTime | None:
        if len(self._latencies) < 8 or max(self._latencies) <= 0:
            return None
        latencies = np.array(self._latencies)
        asked = np.array(self._times if self._timed else range(len(latencies)), dtype=float)
        if asked.max() <= asked.min():
            return None
        bins = min(_TIMES, max(4, len(latencies) // 8))
        edges = np.linspace(0, asked.max(), bins + 1)
        where = np.clip(np.digitize(asked, edges) - 1, 0, bins - 1)
        in_bin = [latencies[where == place] for place in range(bins)]
        return LatencyOverTime(
            places=[float(edge) for edge in (edges[:-1] + edges[1:]) / 2],
            series={f"p{p}": [_percentile(each, p) for each in in_bin] for p in (50, 95)},
            axis="seconds" if self._timed else "queries",
        )

    def _add(self, row: Row) -> None:
        score = float(row[self.key])
        text = str(row["query_text"])
        self.scores.append(score)
        self._lengths.append(len(text.split()))
        self._relevant.append(int(row["total_relevant_docs"]))
        self._forms.append(form_of(text))
        query = self.queries.get(row["query_id"])
        for tag in query.tags if query else ():
            self._tags[tag].append(score)
        if row["status"] != "ok":
            self.failure_examples.setdefault(str(row["failure"]), row)
            return
        self._latencies.append(float(row["latency_ms"]))
        self._timed = self._timed and "at" in row
        self._times.append(float(row.get("at", 0.0)))
        # Among equals, the query with most to find: that is the larger loss and the larger feat.
        self._worst.offer((-score, self._relevant[-1]), row)
        self._best.offer((score, self._relevant[-1]), row)

    def _by_steps(self, values: Sequence[int], starts: Sequence[int]) -> list[Group]:
        """`starts` are where the steps begin; the last one has no end."""
        groups = []
        column, scores = np.array(values), np.array(self.scores)
        for start, after in zip(starts, (*starts[1:], None), strict=True):
            inside = column >= start if after is None else (column >= start) & (column < after)
            if inside.any():
                groups.append(group_of(_step_name(start, after), scores[inside]))
        return groups


class _Extremes:
    """The rows with the largest keys so far; of equals, the first ones."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[float, ...], int, Row]] = []
        self._count = 0

    def offer(self, key: tuple[float, ...], row: Row) -> None:
        self._count += 1
        entry = (key, -self._count, row)
        if len(self._heap) < SHOWN:
            heapq.heappush(self._heap, entry)
        elif entry > self._heap[0]:
            heapq.heapreplace(self._heap, entry)

    def rows(self) -> list[Row]:
        return [row for _, _, row in sorted(self._heap, reverse=True)]


def group_of(name: str, scores: Sequence[float] | NDArray[np.float64]) -> Group:
    """The interval is that of the t distribution: a bootstrap of every group would take seconds."""
    values = np.asarray(scores, dtype=float)
    mean = float(values.mean())
    if values.size < 2:
        return Group(name, values.size, mean, None, None)
    half = _t95(values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return Group(name, values.size, mean, max(0.0, mean - half), min(1.0, mean + half))


def form_of(query: str) -> str:
    if _QUESTION.search(query.strip()):
        return "question"
    return "one word" if len(query.split()) <= 1 else "phrase"


def count_failures(failures: Mapping[str, int]) -> list[tuple[str, int]]:
    return Counter(failures).most_common()


def _t95(freedom: int) -> float:
    """The two-sided 95% quantile of t, by its expansion (Abramowitz and Stegun 26.7.5)."""
    z = 1.959964
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3


def _percentile(values: NDArray[np.float64], percent: int) -> float | None:
    return float(np.percentile(values, percent)) if values.size else None


def _step_name(start: int, after: int | None) -> str:
    if after is None:
        return f"{start} or more"
    return str(start) if after == start + 1 else f"{start} to {after - 1}"

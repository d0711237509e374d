"""A target on a data set over time: its runs, which of them compare, and what changed in between.

Runs are joined only if they were asked the same queries on the same data and measured in one
way; each branch is its own series.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from assay.metrics.figures import AnswerFigure, parse_figure
from assay.run.listing import COST, JUDGE_COST, LATENCY, SLOW, RunLine
from assay.run.title import differing


@dataclass(frozen=True, slots=True)
class TrendSeries:
    """Runs of one branch that compare with each other, oldest first.

    `current` if they belong to the largest set of runs that compare with each other.
    """

    branch: str
    points: Sequence[RunLine]
    current: bool


@dataclass(frozen=True, slots=True)
class TrendChange:
    """What is different from a run on; `breaks` if earlier runs do not compare with it."""

    point: RunLine
    words: str
    breaks: bool


@dataclass(frozen=True, slots=True)
class TargetTrend:
    """One figure of a target on a data set, over the runs that have it, oldest first.

    A change says what starts a new series, or which settings changed within one.
    """

    figure: str
    points: Sequence[RunLine]
    series: Sequence[TrendSeries]
    changes: Sequence[TrendChange]

    @property
    def comparable(self) -> list[RunLine]:
        """The largest set of runs that compare with each other, on all branches."""
        return [point for series in self.series if series.current for point in series.points]


def is_score(name: str) -> bool:
    """Whether a figure of a run is a score, and not a time or a cost."""
    return name not in (LATENCY, SLOW, COST, JUDGE_COST)


@cache
def _is_of_answers(name: str) -> bool:
    return is_score(name) and isinstance(parse_figure(name), AnswerFigure)


def compared_by(line: RunLine, figure: str) -> tuple[object, ...]:
    """Equal for runs whose figures of this name compare."""
    return (*line.comparable, line.shard, line.answers_by if _is_of_answers(figure) else "")


def oldest_first(lines: Iterable[RunLine]) -> list[RunLine]:
    """The runs with a report in the order in which they were started."""
    return sorted((x for x in lines if x.values), key=lambda line: (line.moment, line.name))


def build_trend(points: Sequence[RunLine], figure: str) -> TargetTrend:
    """Join what compares, branch by branch; `points` are oldest first."""
    points = [point for point in points if point.answered and figure in point.values]
    compared = [compared_by(point, figure) for point in points]
    joined: dict[tuple[str, tuple[object, ...]], list[RunLine]] = {}
    for point, key in zip(points, compared, strict=True):
        joined.setdefault((point.branch_title, key), []).append(point)
    keys = Counter(reversed(compared))  # of equals, the newest
    largest = keys.most_common(1)[0][0] if keys else ()
    series = [TrendSeries(branch, own, key == largest) for (branch, key), own in joined.items()]
    return TargetTrend(figure, points, series, list(_changes(points, figure)))


def _changes(points: Sequence[RunLine], figure: str) -> Iterator[TrendChange]:
    """A kind of run that was not there before, and other settings within a series."""
    last: dict[tuple[object, ...], RunLine] = {}
    keys = set()
    earlier: RunLine | None = None
    for point in points:
        branch, key = point.branch_title, compared_by(point, figure)
        # A branch is compared with itself, and its first run with whatever ran before.
        before = last.get((branch,), earlier)
        if key not in keys and before is not None:
            yield TrendChange(point, "; ".join(_reasons(before, point, figure)), breaks=True)
        same = last.get((branch, key))
        if same is not None and same.settings != point.settings:
            changed = []
            for name in differing([same.settings, point.settings]):
                old, new = same.settings.get(name), point.settings.get(name)
                changed.append(f"{old} → {new}" if old and new else new or f"without {old}")
            yield TrendChange(point, "; ".join(changed), breaks=False)
        keys.add(key)
        last[branch, key] = last[branch,] = earlier = point


def _reasons(before: RunLine, after: RunLine, figure: str) -> Iterator[str]:
    """Why two runs do not compare."""
    if before.fingerprint != after.fingerprint:
        same = before.labels is not None and before.labels == after.labels
        yield "the documents changed, the judgments did not" if same else "the data changed"
    if (before.queries, before.seed) != (after.queries, after.seed):
        yield f"{after.sample} (before: {before.sample})"
    if (before.top_k, before.metric) != (after.top_k, after.metric):
        yield f"asked for {after.top_k} documents (before: {before.top_k})"
    if before.track != after.track:
        yield f"{after.track} track (before: {before.track})"
    if before.shard != after.shard:
        yield f"shard {after.shard[0] + 1} of {after.shard[1]}"
    if _is_of_answers(figure) and before.answers_by != after.answers_by:
        yield "answers are measured in another way"

"""A target on a data set over time: its runs, which of them compare, and what changed in between.

Runs are joined only if they were asked the same queries on the same data and measured in one
way; each branch is its own series. `changes` say what starts a new series, and which settings
changed within one.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from assay.metrics.figures import AnswerFigure, parse_figure
from assay.run.listing import COST, JUDGE_COST, LATENCY, SLOW, RunLine


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
    """One figure of a target on a data set, over the runs that have it.

    `silent` counts complete runs in which the target answered nothing: they have no place in it.
    """

    figure: str
    points: Sequence[RunLine]
    series: Sequence[TrendSeries]
    changes: Sequence[TrendChange]
    silent: int = 0

    @property
    def comparable(self) -> list[RunLine]:
        """The largest set of runs that compare with each other, on all branches."""
        return [point for series in self.series if series.current for point in series.points]


def is_score(name: str) -> bool:
    """Whether a figure of a run is a score, and not a time or a cost."""
    return name not in (LATENCY, SLOW, COST, JUDGE_COST)


@cache
def is_answer_figure(name: str) -> bool:
    """Whether a figure of a run is about answers."""
    return is_score(name) and isinstance(parse_figure(name), AnswerFigure)


def compared_by(line: RunLine, figure: str) -> tuple[object, ...]:
    """Equal for runs whose figures of this name compare."""
    return (*line.comparable, line.shard, line.answers_by if is_answer_figure(figure) else "")


def oldest_first(lines: Iterable[RunLine]) -> list[RunLine]:
    """The runs with a report in the order in which they were started."""
    return sorted((x for x in lines if x.values), key=lambda line: (line.moment, line.name))


def build_trend(points: Sequence[RunLine], figure: str) -> TargetTrend:
    """Join what compares, branch by branch; `points` are oldest first."""
    answered = [point for point in points if point.answered]
    having = [(point, compared_by(point, figure)) for point in answered if figure in point.values]
    joined: dict[tuple[object, ...], list[RunLine]] = {}
    for point, key in having:
        joined.setdefault((point.branch_title, key), []).append(point)
    keys = Counter(key for _, key in reversed(having))  # of equals, the newest
    largest = keys.most_common(1)[0][0] if keys else ()
    series = [
        TrendSeries(str(branch), group, current=key == largest)
        for (branch, key), group in joined.items()
    ]
    changes = list(_changes(having, figure))
    silent = len(points) - len(answered)
    return TargetTrend(figure, [point for point, _ in having], series, changes, silent)


def _changes(
    having: Sequence[tuple[RunLine, tuple[object, ...]]], figure: str
) -> Iterator[TrendChange]:
    """A kind of run that was not there before, and other settings within a series."""
    keys = set()
    last: dict[tuple[object, ...], RunLine] = {}
    on_branch: dict[str | None, RunLine] = {}
    earlier: RunLine | None = None
    for point, key in having:
        # A branch is compared with itself, and its first run with whatever ran before.
        before = on_branch.get(point.branch, earlier)
        if key not in keys and before is not None:
            yield TrendChange(point, "; ".join(_differences(before, point, figure)), breaks=True)
        same = last.get((point.branch, key))
        if same is not None and same.settings != point.settings:
            yield TrendChange(point, _settings_change(same, point), breaks=False)
        keys.add(key)
        last[point.branch, key] = on_branch[point.branch] = earlier = point


def _differences(before: RunLine, after: RunLine, figure: str) -> Iterator[str]:
    """Why two runs do not compare."""
    if before.fingerprint != after.fingerprint:
        same = before.labels is not None and before.labels == after.labels
        yield "the documents changed, the judgments did not" if same else "the data changed"
    if (before.queries, before.seed) != (after.queries, after.seed):
        yield f"{sample_words(after)} (before: {sample_words(before)})"
    if (before.top_k, before.metric) != (after.top_k, after.metric):
        yield f"asked for {after.top_k} documents (before: {before.top_k})"
    if before.track != after.track:
        yield f"{after.track} track (before: {before.track})"
    if before.shard != after.shard:
        yield f"shard {after.shard[0] + 1} of {after.shard[1]}"
    if is_answer_figure(figure) and before.answers_by != after.answers_by:
        yield "answers are measured in another way"


def sample_words(line: RunLine) -> str:
    """Which queries a run was asked: all of them, or a sample with its seed."""
    asked = f"{line.queries or 0:,} queries"
    return f"all {asked}" if line.seed is None else f"a sample of {asked} (seed {line.seed})"


def _settings_change(before: RunLine, after: RunLine) -> str:
    words = {}
    for name in {**before.settings, **after.settings}:
        old, new = before.settings.get(name), after.settings.get(name)
        if old != new:
            words[name] = f"{old} → {new}" if old and new else new or f"without {old}"
    # What the retriever recorded says the same as the options that were given, in other words.
    given = [change for name, change in words.items() if not name.startswith("retriever ")]
    return "; ".join(given or words.values())

"""A target on a data set over time: its runs, which of them compare, and what changed in between.

Runs are joined only if they were asked the same queries on the same data and measured in one
way (`comparable_key`); each branch is its own series. What starts a new series, and what was set
otherwise within one, is told.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from assay.errors import AssayError
from assay.metrics.figures import AnswerFigure, parse_figure
from assay.net.json import is_extreme
from assay.run.listing import RunLine, comparable_key, sample_seed
from assay.run.models import Report, RunHeader
from assay.run.title import COST_TAG, described_settings
from assay.text import parse_time

# Figures of a trend that are not scores. The cost is a tag: only its operator knows what an agent
# costs.
LATENCY, SLOW, COST, JUDGE_COST = "latency_p50_ms", "latency_p95_ms", COST_TAG, "judge_cost_usd"

NO_BRANCH = "no branch"
_LATEST = 2.0**33  # the year 2242; dates of a foreign header may be beyond what a calendar has


@dataclass(frozen=True, slots=True)
class TrendValue:
    """A figure of a run, with its 95% interval if it has one."""

    mean: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One run of a trend.

    Attributes:
        line: the run as it is listed.
        moment: when it started, in seconds since 1970.
        values: every figure that it has, by name.
        bounds: the bounds of its gates, by the figure that each is on.
        settings: what may change a score, by name, as it is shown.
        labels: fingerprint of the judgments; None in runs of an older Assay.
        shard: which part of a divided evaluation it is.
        answers_by: how answers were measured; empty if they were not.
    """

    line: RunLine
    moment: float
    values: Mapping[str, TrendValue]
    bounds: Mapping[str, float]
    settings: Mapping[str, str]
    labels: str | None = None
    shard: tuple[int, int] = (0, 1)
    answers_by: str = ""

    @property
    def branch(self) -> str:
        """The branch that it was made on."""
        return self.line.branch or NO_BRANCH

    def key(self, figure: str) -> tuple[object, ...]:
        """Equal for runs whose figures of this name compare."""
        way = self.answers_by if is_answer_figure(figure) else ""
        return (*comparable_key(self.line), self.shard, way)


@dataclass(frozen=True, slots=True)
class TrendSeries:
    """Runs of one branch that compare with each other, oldest first.

    `current` if they belong to the largest set of runs that compare with each other.
    """

    branch: str
    points: Sequence[TrendPoint]
    current: bool


@dataclass(frozen=True, slots=True)
class TrendChange:
    """What is different from a run on; `breaks` if earlier runs do not compare with it."""

    point: TrendPoint
    words: str
    breaks: bool


@dataclass(frozen=True, slots=True)
class TargetTrend:
    """One figure of a target on a data set, over the runs that have it.

    `silent` counts complete runs in which the target answered nothing: they have no place in it.
    """

    figure: str
    points: Sequence[TrendPoint]
    series: Sequence[TrendSeries]
    changes: Sequence[TrendChange]
    silent: int = 0

    @property
    def comparable(self) -> list[TrendPoint]:
        """The largest set of runs that compare with each other, on all branches."""
        return [point for series in self.series if series.current for point in series.points]


def is_score(name: str) -> bool:
    """Whether a figure of a trend is a score, and not a time or a cost."""
    return name not in (LATENCY, SLOW, COST, JUDGE_COST)


@cache
def is_answer_figure(name: str) -> bool:
    """Whether a figure of a trend is about answers."""
    return is_score(name) and isinstance(parse_figure(name), AnswerFigure)


def trend_point(line: RunLine, header: RunHeader, report: Report) -> TrendPoint:
    """A run as a point of a trend."""
    answers = report.answers
    values = {
        name: TrendValue(score.mean, score.low, score.high)
        for statistics in (report.statistics, answers.statistics if answers else {})
        for name, score in statistics.items()
    }
    try:
        moment = parse_time(header.started).timestamp()
    except ValueError:  # of a header that somebody else wrote
        moment = 0.0
    return TrendPoint(
        line,
        moment if 0 <= moment < _LATEST else 0.0,
        values | {name: TrendValue(amount) for name, amount in _amounts(header, report)},
        dict(_bounds(report)),
        described_settings(header),
        header.dataset.labels,
        (header.config.shard_index, header.config.num_shards),
        f"{answers.correctness_by} {answers.references}" if answers else "",
    )


def _amounts(header: RunHeader, report: Report) -> Iterator[tuple[str, float]]:
    if report.summary.successful_queries:
        yield LATENCY, report.latency_ms.p50
        yield SLOW, report.latency_ms.p95
    with suppress(KeyError, ValueError):
        cost = float(header.tags[COST])
        if cost >= 0 and not is_extreme(cost):
            yield COST, cost
    judge = report.answers.judge if report.answers else None
    if judge and judge.spending and judge.spending.cost is not None:
        yield JUDGE_COST, judge.spending.cost


def _bounds(report: Report) -> Iterator[tuple[str, float]]:
    for gate in report.gates:
        if limit := gate.limit:
            name, bound = limit
            with suppress(AssayError):
                is_time = name.lower() in (LATENCY, SLOW)
                yield name.lower() if is_time else parse_figure(name).slug, bound


def build_trend(points: Sequence[TrendPoint], figure: str) -> TargetTrend:
    """Join what compares, branch by branch; `points` are oldest first."""
    answered = [point for point in points if point.line.answered]
    having = [(point, point.key(figure)) for point in answered if figure in point.values]
    joined: dict[tuple[object, ...], list[TrendPoint]] = {}
    for point, key in having:
        joined.setdefault((point.branch, key), []).append(point)
    keys = Counter(key for _, key in reversed(having))  # of equals, the newest
    largest = keys.most_common(1)[0][0] if keys else ()
    series = [
        TrendSeries(group[0].branch, group, current=key == largest)
        for (_, key), group in joined.items()
    ]
    changes = list(_changes(having, figure))
    silent = len(points) - len(answered)
    return TargetTrend(figure, [point for point, _ in having], series, changes, silent)


def _changes(
    having: Sequence[tuple[TrendPoint, tuple[object, ...]]], figure: str
) -> Iterator[TrendChange]:
    """A kind of run that was not there before, and other settings within a series."""
    keys = set()
    last: dict[tuple[object, ...], TrendPoint] = {}
    on_branch: dict[str, TrendPoint] = {}
    earlier: TrendPoint | None = None
    for point, key in having:
        before = on_branch.get(point.branch, earlier)
        if key not in keys and before is not None:
            yield TrendChange(point, "; ".join(_differences(before, point, figure)), breaks=True)
        same = last.get((point.branch, key))
        if same is not None and same.settings != point.settings:
            yield TrendChange(point, _settings_change(same, point), breaks=False)
        keys.add(key)
        last[point.branch, key] = on_branch[point.branch] = earlier = point


def _differences(before: TrendPoint, after: TrendPoint, figure: str) -> Iterator[str]:
    """Why two runs do not compare."""
    a, b = before.line, after.line
    if a.fingerprint != b.fingerprint:
        same = before.labels is not None and before.labels == after.labels
        yield "the documents changed, the judgments did not" if same else "the data changed"
    if (a.queries, sample_seed(a)) != (b.queries, sample_seed(b)):
        yield f"{sample_words(b)} (before: {sample_words(a)})"
    if (a.top_k, a.metric) != (b.top_k, b.metric):
        yield f"asked for {b.top_k} documents (before: {a.top_k})"
    if a.track != b.track:
        yield f"{b.track} track (before: {a.track})"
    if before.shard != after.shard:
        yield f"shard {after.shard[0] + 1} of {after.shard[1]}"
    if is_answer_figure(figure) and before.answers_by != after.answers_by:
        yield "answers are measured in another way"


def sample_words(line: RunLine) -> str:
    """Which queries a run was asked: all of them, or a sample with its seed."""
    seed = sample_seed(line)
    asked = f"{line.queries or 0:,} queries"
    return f"all {asked}" if seed is None else f"a sample of {asked} (seed {seed})"


def _settings_change(before: TrendPoint, after: TrendPoint) -> str:
    words = {}
    for name in {**before.settings, **after.settings}:
        old, new = before.settings.get(name), after.settings.get(name)
        if old != new:
            words[name] = f"{old} → {new}" if old and new else new or f"without {old}"
    # What the retriever recorded says the same as the options that were given, in other words.
    given = [change for name, change in words.items() if not name.startswith("retriever ")]
    return "; ".join(given or words.values())

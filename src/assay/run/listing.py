"""Runs as lines of a list, as trends and as boards of targets, for `assay runs` and the web UI."""

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from assay.errors import AssayError, UsageError
from assay.files import is_locked
from assay.metrics.figures import AnswerFigure, improvement, parse_figure
from assay.metrics.metric import parse_metric
from assay.metrics.statistics import Estimate, rank_ranges, student_t
from assay.net.json import is_extreme
from assay.net.redact import printable
from assay.run.config import settings
from assay.run.folder import RunFolder
from assay.run.models import GATE_SHAPE, Report, RunHeader, RunState
from assay.text import parse_time

LATENCY, SLOW = "latency_p50_ms", "latency_p95_ms"  # figures of a run that are not scores
MAX_SCORES = 5000  # queries of a run whose scores are kept: more would make a list large
_LATEST = 2.0**33  # the year 2242; a foreign header may have a date that no calendar holds

# When `run.json` and `report.json` were written, and `running` while the run goes on.
Signature = tuple[int, int, str]
_Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RunChange:
    """A run against the previous comparable run of its target.

    `significant` is that of a paired t-test at 0.05: quick enough for a list of thousands.
    """

    previous: str
    difference: float
    better: bool
    significant: bool


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as one line of a list and one point of a trend; no figures without a report."""

    name: str
    state: str
    started: str | None = None
    target: str | None = None
    agent: str | None = None
    dataset: str | None = None
    fingerprint: str | None = None
    split: str | None = None
    track: str | None = None
    top_k: int | None = None
    seed: int | None = None  # that decided which queries were drawn; None if all were asked
    label: str | None = None
    branch: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None
    process: int | None = None
    baseline_of: str | None = None
    moment: float = 0.0  # when it started, in seconds since 1970
    settings: Mapping[str, str] = field(default_factory=dict)  # what may change a score, as shown
    labels: str | None = None  # fingerprint of the judgments; None in older runs
    shard: tuple[int, int] = (0, 1)  # which part of a divided evaluation it is
    metric: str | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    queries: int | None = None
    failed: int | None = None
    gates: int | None = None
    gates_failed: int | None = None
    values: Mapping[str, Estimate] = field(default_factory=dict)  # every figure, by name
    bounds: Mapping[str, float] = field(default_factory=dict)  # of gates, by their figure
    answers_by: str = ""  # how answers were measured; empty if they were not
    damage: str = ""  # of a run that cannot be read
    signature: Signature = (0, 0, "")
    scores: _Scores = field(default_factory=lambda: np.empty(0, np.float32), compare=False)
    change: RunChange | None = None  # None for the first run, and where no index looked for one

    @property
    def branch_title(self) -> str:
        """The branch that it was made on, or that there was none."""
        return self.branch or "no branch"

    def value(self, figure: str) -> float | None:
        """The mean of one of its figures; None if it has none."""
        return self.values[figure].mean if figure in self.values else None

    @property
    def answered(self) -> int:
        """How many queries were answered."""
        return (self.queries or 0) - (self.failed or 0)

    @property
    def sample(self) -> str:
        """Which queries it was asked: all of them, or a sample with its seed."""
        asked = f"{self.queries or 0:,} queries"
        return f"all {asked}" if self.seed is None else f"a sample of {asked} (seed {self.seed})"

    @property
    def comparable(self) -> tuple[object, ...]:
        """Equal for runs that were asked the same queries on the same data, measured in one way."""
        data = (self.dataset, self.split, self.fingerprint, self.queries, self.seed)
        return (*data, self.track, self.metric, self.top_k)

    @property
    def verdict(self) -> tuple[str, str]:
        """What the run came to in two words, and their tone: `good`, `bad`, `plain` or empty."""
        if self.queries and not self.answered:
            return "nothing answered", "bad"
        if self.state != RunState.COMPLETE:
            return self.state, "bad" if self.state == RunState.DAMAGED else "plain"
        if self.gates_failed:
            return "gate failed", "bad"
        return ("passed", "good") if self.gates else ("", "")


# --- the search language -------------------------------------------------------------------------

_TERM = re.compile(r'(?:(?P<key>[a-z]+):)?(?P<value>"[^"]*"|\S+)')
_FIELDS = ("target", "label", "branch", "dataset", "track", "split", "agent")
_WORD_FIELDS = ("name", "label", "target", "dataset", "branch", "git_commit", "note")
_AGE = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_search(text: str) -> Callable[[RunLine], bool]:
    """`parse_search("target:bm25 branch:main gate:failed since:7d words")(line)`.

    Every term must hold; a value in quotes is the whole field: `label:"k1 0.9"`. Raises
    `UsageError` for a date that cannot be read.
    """
    terms = [_term(found) for found in _TERM.finditer(text.strip())]
    return lambda line: all(term(line) for term in terms)


def _term(found: re.Match[str]) -> Callable[[RunLine], bool]:
    key, value = found["key"], found["value"].strip('"').lower()
    if key in _FIELDS and found["value"].startswith('"'):
        return lambda line: value == (getattr(line, key) or "").lower()
    if key in _FIELDS:
        return lambda line: value in (getattr(line, key) or "").lower()
    if key == "gate":
        return lambda line: bool(line.gates) and bool(line.gates_failed) == (value == "failed")
    if key == "since":
        since = _parse_since(value).timestamp()
        return lambda line: line.moment >= since
    if key == "failed":  # it ended early, or a gate or a query failed
        usual = (RunState.COMPLETE, RunState.RUNNING)
        return lambda line: line.state not in usual or bool(line.gates_failed or line.failed)
    words = found[0].strip('"').lower()
    return lambda line: words in " ".join(getattr(line, n) or "" for n in _WORD_FIELDS).lower()


def _parse_since(text: str) -> datetime:
    """`7d`, `12h`, `2026-11-01` or an ISO 8601 time; UTC if no zone is named."""
    try:
        if age := _AGE.fullmatch(text.strip()):
            return datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        return parse_time(text.strip())
    except OverflowError:
        return datetime(1, 1, 2, tzinfo=UTC)
    except ValueError:
        raise UsageError(
            f"since {text!r} is not a time; write, for example: 2026-11-01, "
            "2026-11-01T08:30:00+00:00, 12h or 7d"
        ) from None


_SORTS: Mapping[str, Callable[[RunLine], Any]] = {
    "when": attrgetter("name"),
    "label": lambda line: line.label and line.label.lower(),
    "target": lambda line: line.target and line.target.lower(),
    "change": lambda line: line.change and line.change.difference,
    "answers": lambda line: line.value("correctness"),
    "p50": lambda line: line.value(LATENCY),
    "p95": lambda line: line.value(SLOW),
    "verdict": lambda line: line.verdict[0],
    **{name: attrgetter(name) for name in ("dataset", "branch", "mean", "failed")},
}


def sort_lines(
    lines: Iterable[RunLine], by: str, value: Callable[[RunLine], Any] | None = None
) -> list[RunLine]:
    """Lines by name (`when`), label, mean and so on, or by `value`; `-mean`: the largest first.

    Runs without a value come last.
    """
    value = value or _SORTS.get(by.removeprefix("-"), _SORTS["when"])
    # Names begin with the time, so that runs with equal values stay in their order.
    ordered = sorted(lines, key=attrgetter("name"))
    having = [line for line in ordered if value(line) is not None]
    having.sort(key=value, reverse=by.startswith("-"))
    return [*having, *(line for line in ordered if value(line) is None)]


# --- reading -------------------------------------------------------------------------------------


def list_lines(folder: Path) -> list[RunLine]:
    """Every run under `folder`."""
    return [
        _read_line(RunFolder(folder / name), signature)
        for name, signature in _signatures(folder).items()
    ]


def _signatures(folder: Path) -> dict[str, Signature]:
    """What shows whether a run has changed: times of its files, and whether it is being written.

    A folder whose name has control characters or lone surrogates is skipped: no list, page or
    header could show it.
    """
    if not folder.is_dir():
        return {}
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            header = _modified(f"{entry.path}/run.json")
            if header and printable(entry.name) == entry.name:
                report, calls = _modified(f"{entry.path}/report.json"), f"{entry.path}/calls.jsonl"
                # A finished run is not opened: only a report that is missing or older than the
                # calls can belong to a run that continues.
                may_run = not report or _modified(calls) > report
                running = may_run and is_locked(Path(calls))
                found[entry.name] = (header, report, RunState.RUNNING if running else "")
    return found


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 (a list asks thousands of times)
    except OSError:
        return 0


def _read_line(run: RunFolder, signature: Signature, *, with_scores: bool = False) -> RunLine:
    """A run that cannot be read has a line as well, which says so."""
    _, has_report, state = signature
    line = RunLine(run.name, RunState.DAMAGED, signature=signature)
    try:
        line = _with_header(line, run.read_header())
        if not has_report:
            return replace(line, state=state or RunState.UNFINISHED)
        report = run.read_report()
        line = replace(_with_report(line, report), state=state or report.state)
    except (AssayError, OSError) as error:
        return replace(line, damage=str(error))
    if with_scores and line.metric and (line.queries or 0) <= MAX_SCORES:
        with suppress(AssayError, OSError, TypeError, ValueError):  # opening it says what is wrong
            scores = run.read_scores(parse_metric(line.metric).key)
            return replace(line, scores=np.array(scores, np.float32))
    return line


def _with_header(line: RunLine, header: RunHeader) -> RunLine:
    git, config, moment = header.repository, header.config, 0.0
    with suppress(ValueError):  # a header of another program
        moment = parse_time(header.started).timestamp()
    return replace(
        line,
        started=header.started,
        moment=moment if 0 <= moment < _LATEST else 0.0,
        target=header.target.title,
        agent=header.target.agent,
        dataset=header.dataset.name,
        fingerprint=header.dataset.fingerprint,
        labels=header.dataset.labels,
        split=config.split,
        track=header.track,
        top_k=config.top_k,
        # Without a sample the seed decides nothing: runs with any seed compare.
        seed=None if config.num_queries is None else config.seed,
        shard=(config.shard_index, config.num_shards),
        settings=described_settings(header),
        # A baseline has the label of the run that it was made for, which is not its own.
        label=None if header.baseline_of else header.label,
        branch=git.branch,
        git_commit=git.commit,
        git_dirty=git.dirty,
        tags=header.tags,
        note=header.note,
        process=header.process,
        baseline_of=header.baseline_of,
    )


def _with_report(line: RunLine, report: Report) -> RunLine:
    metric, score = next(iter(report.statistics.items()))
    answers, latency = report.answers, report.latency_ms
    figures = report.figures.items()
    values = {name: Estimate(row.mean, row.low, row.high) for name, row in figures}
    if report.summary.successful_queries:
        values |= {LATENCY: Estimate(latency.p50), SLOW: Estimate(latency.p95)}
    bounds = {}
    for gate in report.gates:  # the bound of one that names another run depends on that run
        if found := GATE_SHAPE.fullmatch(gate.gate.strip()):
            with suppress(AssayError, ValueError):
                name, bound = found["name"].strip().lower(), float(found["bound"])
                if not is_extreme(bound):
                    name = name if name in (LATENCY, SLOW) else parse_figure(name).slug
                    bounds[name] = bound
    return replace(
        line,
        metric=metric,
        mean=score.mean,
        low=score.low,
        high=score.high,
        queries=report.summary.total_queries,
        failed=report.summary.failed_queries,
        gates=len(report.gates),
        gates_failed=sum(not gate.passed for gate in report.gates),
        values=values,
        bounds=bounds,
        answers_by=f"{answers.correctness_by} {answers.references}" if answers else "",
    )


# --- the index that the web UI keeps in memory ---------------------------------------------------


class RunIndex:
    """All runs under a folder, safe to ask from several threads. Only `refresh` reads the disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: dict[str, RunLine] = {}
        self._lock = Lock()

    def refresh(self) -> None:
        """Read what has changed on disk."""
        with self._lock:
            found = _signatures(self._folder)
            if found == {name: line.signature for name, line in self._lines.items()}:
                return
            lines: dict[str, RunLine] = {}
            last: dict[tuple[object, ...], RunLine] = {}
            for name, signature in sorted(found.items()):
                line = self._lines.get(name)
                if line is None or line.signature != signature:
                    line = _read_line(RunFolder(self._folder / name), signature, with_scores=True)
                if line.state == RunState.COMPLETE and line.mean is not None and line.answered:
                    key = (line.target, *line.comparable)
                    change = _change(last[key], line) if key in last else None
                    line = last[key] = replace(line, change=change)
                lines[name] = line
            # Another dictionary, not a changed one: others may be reading the one before.
            self._lines = lines

    def lines(self, matches: Callable[[RunLine], bool] | None = None) -> list[RunLine]:
        """The runs that match, newest first."""
        newest_first = reversed(self._lines.values())
        return [line for line in newest_first if matches is None or matches(line)]

    def get(self, name: str) -> RunLine | None:
        """The run of that name."""
        return self._lines.get(name)


def _change(before: RunLine, line: RunLine) -> RunChange:
    difference = (line.mean or 0.0) - (before.mean or 0.0)
    is_better = improvement(parse_figure(line.metric or ""), difference) > 0
    is_significant = False
    if before.scores.size == line.scores.size >= 2:
        # A t-test in place of the randomization test of `compare`, which takes milliseconds a run.
        steps = line.scores - before.scores
        error = float(steps.std(ddof=1)) / math.sqrt(steps.size)
        bound = student_t(steps.size - 1, 0.025) * error
        is_significant = abs(float(steps.mean())) > bound
    return RunChange(before.name, difference, is_better, is_significant)


def group_lines(lines: Iterable[RunLine]) -> list[list[RunLine]]:
    """Runs of one target that compare with each other, newest run first, newest group first."""
    found: dict[tuple[object, ...], list[RunLine]] = defaultdict(list)
    for line in lines:
        if line.state == RunState.COMPLETE and line.mean is not None:
            found[line.target, *line.comparable].append(line)
    return sorted(found.values(), key=lambda group: group[0].name, reverse=True)


def newest_of_each_target(lines: Iterable[RunLine]) -> list[RunLine]:
    """The newest complete run of each target, for each kind of run that compares.

    A run in which nothing was answered stands for its target only if there is no other.
    """
    groups = group_lines(lines)
    newest = [([line for line in group if line.answered] or group)[0] for group in groups]
    return sorted(newest, key=attrgetter("name"))


# --- trends ---------------------------------------------------------------------------------------


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
    """Whether a figure of a run is a score, and not a time."""
    return name not in (LATENCY, SLOW)


@cache
def _is_of_answers(name: str) -> bool:
    return is_score(name) and isinstance(parse_figure(name), AnswerFigure)


def compared_by(line: RunLine, figure: str) -> tuple[object, ...]:
    """Equal for runs whose figures of this name compare."""
    # Two shards have the same seed, and perhaps as many queries, and were asked other ones.
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


# --- names of runs, made of what differs between them ---------------------------------------------

_MAX_LENGTH = 60
_MAX_FACTS = 4
# What cannot change a score, or is said in another way.
_SAMPLE = ("top_k", "num_queries", "seed")
_NOT_SETTINGS = frozenset(
    {"target", "dataset", "columns", "label", "tags", "note", "compare_to", "baseline", "gates"}
    | {"concurrency", "timeout", "retries", "warm_up", "private", "track"}
    | {"allow_first_run", "fail_on_regression", *_SAMPLE}
)


def distinguish(headers: Sequence[RunHeader]) -> list[str]:
    """A name for each run, different for each: its target, and in brackets what else differs.

    That is label, branch, tags, sample and settings, between runs of one target; then the commit,
    and the time only if nothing else tells two apart.
    """
    targets, every = [h.target.title for h in headers], [_facts(header) for header in headers]
    chosen = []
    for target, facts in zip(targets, every, strict=True):
        alike = [other for name, other in zip(targets, every, strict=True) if name == target]
        words = [facts[name] for name in differing(alike) if facts.get(name)]
        chosen.append(words[:_MAX_FACTS])
    commits = [header.repository.short_commit for header in headers]
    times = [header.started[:19].replace("T", " ") for header in headers]
    processes = [f"process {header.process}" for header in headers]
    for last in (commits, times, processes):
        names = [(target, *words) for target, words in zip(targets, chosen, strict=True)]
        for place, name in enumerate(names):
            if len({fact for other, fact in zip(names, last, strict=True) if other == name}) > 1:
                chosen[place] = [*chosen[place], *filter(None, [last[place]])]
    shown = zip(targets, map(", ".join, chosen), strict=True)
    return [f"{target} ({words})" if words else target for target, words in shown]


def differing(every: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of the facts that are not the same in all runs."""
    names = dict.fromkeys(name for facts in every for name in facts)
    found = [name for name in names if len({facts.get(name, "") for facts in every}) > 1]
    # What the retriever recorded says the same as the options that were given, in other words.
    if any(name in settings() and name not in _NOT_SETTINGS for name in found):
        found = [name for name in found if not name.startswith("retriever ")]
    return found


def _facts(header: RunHeader) -> dict[str, str]:
    found = {"label": _cut(header.label or ""), "branch": _cut(header.repository.branch or "")}
    tags = sorted(header.tags.items())
    found |= {f"tag {key}": f"{key}={_cut(value)}" for key, value in tags}
    found |= {name: _setting(name, header) for name in _SAMPLE} | described_settings(header)
    found.pop("agent", None)
    track = "" if header.track == "undeclared" else f"{header.track} track"
    version = found.pop("assay", "")
    return {**found, "track": track, "assay": version}


def described_settings(header: RunHeader) -> dict[str, str]:
    """What may change the scores of a target, by name: settings, retriever, the agent's version."""
    names = [name for name in settings() if name not in _NOT_SETTINGS]
    found = {name: _setting(name, header) for name in names}
    found |= {f"retriever {k}": f"{k} {_cut(str(v))}" for k, v in (header.retriever or {}).items()}
    found["embedder"] = f"embedder {header.embedder}" if header.embedder else ""
    found["agent"] = header.target.agent or ""
    version = header.versions.get("agent-assay", "")
    found["assay"] = f"assay {version}" if version else ""
    return {name: words for name, words in found.items() if words}


def _setting(name: str, header: RunHeader) -> str:
    setting, value = settings()[name], getattr(header.config, name)
    if value == setting.default:
        return f"{setting.flag} {value}" if setting.kind in (int, float) and value else ""
    if setting.kind is bool:
        return setting.flag if value else setting.negative_flag
    return f"{setting.flag} {_cut(setting.format(value).replace(chr(10), ' '))}"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


RANKED_LIMIT = 30  # Targets of one board: every pair of them is tested

# A report and when it was written: what is known of it holds until it is written anew.
_File = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Board:
    """Targets that compare, best first, each with the ranks that it can have: `1`, or `2–4`.

    The `silent` answered nothing, and have no place.
    """

    figure: str
    places: Sequence[tuple[str, RunLine]]
    silent: Sequence[str] = ()
    left_out: int = 0  # those beyond RANKED_LIMIT


def make_boards(folder: Path, points: Sequence[RunLine], figure: str = "") -> list[Board]:
    """Every board that runs under `folder` allow, by `figure` or by the headline of each run.

    `points` are the newest run of each target, for each kind of run that compares, oldest first.
    """
    groups: dict[tuple[object, ...], list[RunLine]] = {}
    for point in points:
        name = figure or point.metric or ""
        if name in point.values:
            groups.setdefault((name, *compared_by(point, name)), []).append(point)
    newest = {point.fingerprint: point.moment for point in points}  # these are oldest first

    def rank(group: Sequence[RunLine]) -> tuple[object, ...]:
        """Whole sets first, the newest version of the data, then the most queries and targets."""
        line = group[0]
        size = (-newest[line.fingerprint], -(line.queries or 0), -len(group))
        return (line.seed is not None, *size, line.track or "", line.metric or "")

    ordered = sorted(groups.items(), key=lambda item: rank(item[1]))
    return [make_board(folder, group, str(key[0])) for key, group in ordered]


def make_board(folder: Path, points: Sequence[RunLine], figure: str) -> Board:
    """Rank runs that compare, one for each target."""
    answered = [each for each in points if each.answered]
    parsed = parse_figure(figure)
    ordered = sorted(
        answered,
        key=lambda e: (-improvement(parsed, e.values[figure].mean), e.target or ""),
    )
    ranked = ordered[:RANKED_LIMIT]
    paths = [folder / each.name / "report.json" for each in ranked]
    files = tuple((str(path), path.stat().st_mtime_ns) for path in paths)
    places = list(zip(_ranks_of_reports(figure, files), ranked, strict=True))
    silent = [each.target or "" for each in points if not each.answered]
    return Board(figure, places, silent, len(ordered) - len(ranked))


@lru_cache(maxsize=100)  # a page of ranks asks the same again, and reports hardly ever change
def _ranks_of_reports(figure: str, reports: Sequence[_File]) -> list[str]:
    return rank_ranges([[_scores(figure, Path(path))] for path, _ in reports])


def _scores(figure: str, report: Path) -> dict[str, float]:
    parsed = parse_figure(figure)
    if not isinstance(parsed, AnswerFigure):
        return {row.query_id: row.score(parsed) for row in RunFolder(report.parent).read_rows()}
    found = {row.query_id: row.score(parsed.key) for row in RunFolder(report.parent).read_answers()}
    return {query_id: score for query_id, score in found.items() if score is not None}

"""Index of all runs under a folder: for lists, filters and trends.

What lists and trends need of a run is kept in memory, and read again only where a file has changed:
from the cache that `assay runs` uses too, or from the files of the run.
"""

import json
import math
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from assay.errors import AssayError, RunError
from assay.metrics.figures import improvement, parse_figure
from assay.metrics.metric import parse_metric
from assay.metrics.statistics import student_t
from assay.run.folder import RunFolder
from assay.run.listing import (
    ListedRun,
    Signature,
    comparable_key,
    is_since,
    parse_since,
    read_summaries,
    run_signatures,
)
from assay.run.listing import RunLine as RunLine
from assay.run.models import Report, RunHeader
from assay.run.report_file import read_scores
from assay.run.state import RunState
from assay.run.trend import TrendPoint, trend_facts, trend_point

MAX_SCORES = 5000
"""Queries of a run whose scores the index keeps: more would make a list of runs large."""

SORTS: Mapping[str, Callable[[RunLine], Any]] = {
    "when": attrgetter("name"),
    "label": lambda line: line.label and line.label.lower(),
    "target": lambda line: line.target and line.target.lower(),
    "dataset": attrgetter("dataset"),
    "branch": attrgetter("branch"),
    "mean": attrgetter("mean"),
    "answers": attrgetter("correctness"),
    "failed": attrgetter("failed"),
    "p50": attrgetter("latency_p50"),
    "p95": attrgetter("latency_p95"),
    "verdict": lambda line: verdict_of(line)[0],
}
"""What a list can be sorted by; runs without a value come last. `change` is added by the index."""


def verdict_of(line: RunLine) -> tuple[str, str]:
    """What a run came to in two words, and the tone of it: `good`, `bad`, `plain` or empty."""
    if line.queries and line.failed == line.queries:
        return "nothing answered", "bad"
    if line.state != RunState.COMPLETE:
        return line.state, "bad" if line.state == RunState.DAMAGED else "plain"
    if line.gates_failed:
        return "gate failed", "bad"
    if line.trouble:
        return "not judged", "plain"
    return ("passed", "good") if line.gates else ("", "")


@dataclass(frozen=True, slots=True)
class RunChange:
    """A run against the previous comparable run of its target.

    `significant` is that of a paired t-test at 0.05: quick enough for a list of thousands.
    """

    previous: str
    difference: float
    better: bool
    significant: bool


_TERM = re.compile(r'(?:(?P<key>[a-z]+):)?(?P<value>"[^"]*"|\S+)')
_FIELDS = ("target", "label", "branch", "dataset", "track", "split", "agent")


@dataclass(frozen=True, slots=True)
class RunSearch:
    """`RunSearch.parse("target:bm25 branch:main gate:failed since:7d words")`."""

    terms: tuple[Callable[[RunLine], bool], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "RunSearch":
        """Every term must hold. Raises `UsageError` for a date that cannot be read."""
        return cls(tuple(_term(found) for found in _TERM.finditer(text.strip())))

    def __call__(self, line: RunLine) -> bool:
        return all(term(line) for term in self.terms)


def _term(found: re.Match[str]) -> Callable[[RunLine], bool]:
    key, value = found["key"], found["value"].strip('"').lower()
    if key in _FIELDS:
        return lambda line: value in (getattr(line, key) or "").lower()
    if key == "gate":
        return lambda line: bool(line.gates) and bool(line.gates_failed) == (value == "failed")
    if key == "state":
        return lambda line: line.state.startswith(value)
    if key == "since":
        since = parse_since(value)
        return lambda line: is_since(line, since)
    words = found[0].strip('"').lower()
    return lambda line: words in _searched(line)


def _searched(line: RunLine) -> str:
    fields = (line.name, line.label, line.target, line.dataset, line.branch, line.git_commit)
    return " ".join(filter(None, (*fields, line.note))).lower()


class RunIndex:
    """Safe to ask from several threads. `refresh` looks at the disk; the rest does not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, ListedRun] = {}
        self._seen: dict[str, Signature] = {}
        self._changes: dict[str, RunChange] = {}
        self._lock = Lock()

    def refresh(self) -> None:
        """Read what has changed on disk."""
        with self._lock:
            found = run_signatures(self._folder)
            gone = self._seen.keys() - found.keys()
            changed = {name: new for name, new in found.items() if self._seen.get(name) != new}
            if not gone and not changed:
                return
            known = self._known | read_summaries(
                self._folder, changed, gone if self._seen else None
            )
            # Another dictionary, not a changed one: others may be reading the one before.
            self._known = {name: known[name] for name in sorted(found)}
            self._changes = _changes(line for line, _ in self._known.values())
            self._seen = found

    def lines(self, matches: Callable[[RunLine], bool] | None = None) -> list[RunLine]:
        """The runs that match, newest first."""
        every = [line for line, _ in reversed(self._known.values())]
        return every if matches is None else [line for line in every if matches(line)]

    def change(self, line: RunLine) -> RunChange | None:
        """The run against the previous comparable one of its target; None for the first."""
        return self._changes.get(line.name)

    def sort(self, lines: Iterable[RunLine], by: str) -> list[RunLine]:
        """Lines by one of SORTS or `change`; a minus in front for the largest first."""
        name, lines = by.removeprefix("-"), list(lines)
        value = SORTS.get(name, SORTS["when"])
        if name == "change":
            value = self._difference
        having = [line for line in lines if value(line) is not None]
        having.sort(key=value, reverse=by.startswith("-"))
        return [*having, *(line for line in lines if value(line) is None)]

    def _difference(self, line: RunLine) -> float | None:
        change = self._changes.get(line.name)
        return change.difference if change else None

    def get(self, name: str) -> RunLine | None:
        """The run of that name."""
        found = self._known.get(name)
        return found[0] if found else None

    def trend_points(self, lines: Iterable[RunLine]) -> list[TrendPoint]:
        """Complete runs of the list as points of a trend, oldest first."""
        known = self._known
        found = [(line, known[line.name][1]) for line in lines if line.name in known]
        points = [self._trend_point(line, facts) for line, facts in found if facts is not None]
        return sorted(points, key=lambda point: (point.moment, point.line.name))

    def _trend_point(self, line: RunLine, facts: bytes) -> TrendPoint:
        try:
            return trend_point(line, facts)
        except (ValueError, KeyError, TypeError, AttributeError):
            # Not what Assay wrote into the cache: the run itself has it.
            run = RunFolder(self._folder / line.name)
            _, own = read_summary(run, self._seen[line.name])
            if own is None:
                raise RunError(f"run {line.name!r} cannot be read: {damage_of(run)}") from None
            return trend_point(line, own)

    def of_process(self, process: int, since: str) -> RunLine | None:
        """The first run that a process made at `since` or later, for process ids are reused.

        The run of a baseline is not meant, whose name may come first within one second.
        """
        made = self.lines(
            lambda line: (
                line.process == process
                and (line.started or "") >= since
                and line.baseline_of is None
            )
        )
        return made[-1] if made else None

    def groups(self, lines: Iterable[RunLine]) -> list[list[RunLine]]:
        """Runs of one target that compare with each other, newest run first, newest group first."""
        found: dict[tuple[object, ...], list[RunLine]] = defaultdict(list)
        for line in lines:
            if line.state == RunState.COMPLETE and line.mean is not None:
                found[line.target, *comparable_key(line)].append(line)
        return sorted(found.values(), key=lambda group: group[0].name, reverse=True)

    def newest_of_each_target(self, lines: Iterable[RunLine]) -> list[RunLine]:
        """The newest complete run of each target, for each kind of run that compares.

        A run in which nothing was answered stands for its target only if there is no other.
        """
        found: dict[tuple[object, ...], RunLine] = {}
        for group in self.groups(lines):
            answered = [line for line in group if (line.failed or 0) < (line.queries or 0)]
            newest = (answered or group)[0]
            found[newest.target, *comparable_key(newest)] = newest
        return sorted(found.values(), key=attrgetter("name"))


def _changes(lines: Iterable[RunLine]) -> dict[str, RunChange]:
    """Each complete run against the one before it; `lines` are oldest first."""
    last: dict[tuple[object, ...], RunLine] = {}
    found = {}
    for line in lines:
        answered = (line.failed or 0) < (line.queries or 0)
        if line.state != RunState.COMPLETE or line.mean is None or not answered:
            continue
        key = (line.target, *comparable_key(line))
        if (before := last.get(key)) is not None:
            found[line.name] = _change(before, line)
        last[key] = line
    return found


def _change(before: RunLine, line: RunLine) -> RunChange:
    difference = (line.mean or 0.0) - (before.mean or 0.0)
    better = improvement(parse_figure(line.metric or ""), difference) > 0
    return RunChange(before.name, difference, better, _differs(before.scores, line.scores))


def _differs(before: bytes | None, after: bytes | None) -> bool:
    if not before or not after or len(before) != len(after) or len(after) < 8:
        return False
    steps = np.frombuffer(after, np.float32) - np.frombuffer(before, np.float32)
    spread = float(steps.std(ddof=1)) / math.sqrt(steps.size)
    if spread == 0:
        return bool(steps.any())
    return abs(float(steps.mean())) / spread > student_t(steps.size - 1, 0.025)


def damage_of(run: RunFolder) -> str:
    """Which file of a run that cannot be listed is damaged, and what to do."""
    try:
        run.read_header()
        run.read_report()
    except (AssayError, OSError) as error:
        return str(error)
    return "its files changed while they were read; try again"


def read_summary(run: RunFolder, signature: Signature) -> ListedRun:
    """A run from its files. One that cannot be read has a line as well, which says so."""
    state = signature[2]
    line = RunLine(run.name, RunState.DAMAGED)
    try:
        header = run.read_header()
        line = _with_header(line, header)
        if not run.report_file.exists():
            return replace(line, state=state or RunState.UNFINISHED), None
        report = run.read_report()
        whole = replace(_with_report(line, report), state=state or report.state)
        return replace(whole, scores=_packed_scores(run, report)), trend_facts(header, report)
    except (AssayError, OSError):
        return line, None


def _packed_scores(run: RunFolder, report: Report) -> bytes | None:
    if report.summary.total_queries > MAX_SCORES:
        return None
    key = parse_metric(next(iter(report.statistics))).key
    return array("f", read_scores(run.report_file, key)).tobytes()


def _with_header(line: RunLine, header: RunHeader) -> RunLine:
    return replace(
        line,
        started=header.started,
        target=header.target.title,
        agent=header.target.agent,
        dataset=header.dataset.name,
        fingerprint=header.dataset.fingerprint,
        split=header.config.split,
        track=header.track,
        top_k=header.config.top_k,
        seed=header.config.seed,
        sample=header.config.num_queries,
        label=None if header.baseline_of else header.label,
        branch=header.git.branch if header.git else None,
        git_commit=header.git.commit if header.git else None,
        git_dirty=header.git.dirty if header.git else None,
        tags=json.dumps(header.tags) if header.tags else None,
        note=header.note,
        process=header.process,
        baseline_of=header.baseline_of,
    )


def _with_report(line: RunLine, report: Report) -> RunLine:
    metric, score = next(iter(report.statistics.items()))
    line = replace(
        line,
        metric=metric,
        mean=score.mean,
        low=score.low,
        high=score.high,
        ceiling=score.ceiling,
        queries=report.summary.total_queries,
        failed=report.summary.failed_queries,
        gates=len(report.gates),
        gates_failed=sum(not gate.passed for gate in report.gates),
        latency_p50=report.latency_ms.p50 if report.summary.successful_queries else None,
        latency_p95=report.latency_ms.p95 if report.summary.successful_queries else None,
        trouble=report.answers.trouble if report.answers else None,
    )
    correctness = report.answers.statistics.get("correctness") if report.answers else None
    if correctness is None:  # no answers, or no reference to compare them with
        return line
    return replace(
        line,
        questions=correctness.n,
        correctness=correctness.mean,
        correctness_low=correctness.low,
        correctness_high=correctness.high,
    )

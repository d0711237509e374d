"""Index of all runs under a folder, kept in memory: for lists, filters and trends of the web UI.

A run is read again only if a file of it has changed: from the cache that `assay runs` uses too, or
from its files.
"""

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from threading import Lock

import numpy as np

from assay.errors import AssayError, RunError
from assay.metrics.figures import improvement, parse_figure
from assay.metrics.metric import parse_metric
from assay.metrics.statistics import student_t
from assay.run.folder import RunFolder
from assay.run.listing import (
    ListedRun,
    RunLine,
    Signature,
    comparable_key,
    read_summaries,
    run_signatures,
    sort_lines,
)
from assay.run.models import Report, RunHeader
from assay.run.report_file import read_scores
from assay.run.state import RunState
from assay.run.trend import TrendPoint, trend_facts, trend_point

MAX_SCORES = 5000
"""Queries of a run whose scores the index keeps: more would make a list of runs large."""


@dataclass(frozen=True, slots=True)
class RunChange:
    """A run against the previous comparable run of its target.

    `significant` is that of a paired t-test at 0.05: quick enough for a list of thousands.
    """

    previous: str
    difference: float
    better: bool
    significant: bool


class RunIndex:
    """Safe to ask from several threads. `refresh` looks at the disk; the rest does not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, ListedRun] = {}
        self._seen: dict[str, Signature] = {}
        self._changes: dict[str, RunChange] = {}
        self._points: dict[str, TrendPoint] = {}
        self._lock = Lock()

    def refresh(self) -> None:
        """Read what has changed on disk."""
        with self._lock:
            found = run_signatures(self._folder)
            gone = self._seen.keys() - found.keys()
            changed = {name: new for name, new in found.items() if self._seen.get(name) != new}
            if not gone and not changed:
                return
            new = read_summaries(self._folder, changed, gone if self._seen else None)
            known = self._known | new
            # Other dictionaries, not changed ones: others may be reading those before.
            self._known = {name: known[name] for name in sorted(found)}
            self._points = {n: p for n, p in self._points.items() if n in found and n not in new}
            self._changes = _changes(line for line, _ in self._known.values())
            self._seen = found

    def lines(self, matches: Callable[[RunLine], bool] | None = None) -> list[RunLine]:
        """The runs that match, newest first."""
        every = [line for line, _ in reversed(self._known.values())]
        return every if matches is None else [line for line in every if matches(line)]

    def get(self, name: str) -> RunLine | None:
        """The run of that name."""
        found = self._known.get(name)
        return found[0] if found else None

    def change(self, line: RunLine) -> RunChange | None:
        """The run against the previous comparable one of its target; None for the first."""
        return self._changes.get(line.name)

    def sort(self, lines: Iterable[RunLine], by: str) -> list[RunLine]:
        """Lines by one of SORTS or `change`; a minus in front for the largest first."""
        changes = self._changes

        def difference(line: RunLine) -> float | None:
            return changes[line.name].difference if line.name in changes else None

        return sort_lines(lines, by, difference if by.removeprefix("-") == "change" else None)

    def trend_points(self, lines: Iterable[RunLine]) -> list[TrendPoint]:
        """Complete runs of the list as points of a trend, oldest first."""
        known, points = self._known, []
        for line in lines:
            point, facts = self._points.get(line.name), known.get(line.name, (line, None))[1]
            if point is None and facts is not None:
                # Kept: to read the facts of a thousand runs takes half of the time of a page.
                point = self._points[line.name] = self._trend_point(line, facts)
            if point is not None:
                points.append(point)
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
        newest = [
            ([line for line in group if line.answered] or group)[0] for group in self.groups(lines)
        ]
        return sorted(newest, key=attrgetter("name"))


def _changes(lines: Iterable[RunLine]) -> dict[str, RunChange]:
    """Each complete run against the one before it; `lines` are oldest first."""
    last: dict[tuple[object, ...], RunLine] = {}
    found = {}
    for line in lines:
        if line.state != RunState.COMPLETE or line.mean is None or not line.answered:
            continue
        key = (line.target, *comparable_key(line))
        if (before := last.get(key)) is not None:
            difference = line.mean - (before.mean or 0.0)
            better = improvement(parse_figure(line.metric or ""), difference) > 0
            significant = _differs(before.scores, line.scores)
            found[line.name] = RunChange(before.name, difference, better, significant)
        last[key] = line
    return found


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
        report, scores = run.read_report(), None
        if report.summary.total_queries <= MAX_SCORES:
            key = parse_metric(next(iter(report.statistics))).key
            scores = array("f", read_scores(run.report_file, key)).tobytes()
        whole = replace(_with_report(line, report), state=state or report.state, scores=scores)
        return whole, trend_facts(header, report)
    except (AssayError, OSError):
        return line, None


def _with_header(line: RunLine, header: RunHeader) -> RunLine:
    git = header.git
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
        branch=git.branch if git else None,
        git_commit=git.commit if git else None,
        git_dirty=git.dirty if git else None,
        tags=header.tags or None,
        note=header.note,
        process=header.process,
        baseline_of=header.baseline_of,
    )


def _with_report(line: RunLine, report: Report) -> RunLine:
    metric, score = next(iter(report.statistics.items()))
    answered, answers = report.summary.successful_queries > 0, report.answers
    # None without answers, or without references to compare them with.
    right = answers.statistics.get("correctness") if answers else None
    return replace(
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
        latency_p50=report.latency_ms.p50 if answered else None,
        latency_p95=report.latency_ms.p95 if answered else None,
        trouble=answers.trouble if answers else None,
        questions=right.n if right else None,
        correctness=right.mean if right else None,
        correctness_low=right.low if right else None,
        correctness_high=right.high if right else None,
    )

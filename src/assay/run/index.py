"""Index of all runs under a folder, kept in memory: for lists, filters and trends of the web UI."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from threading import Lock

import numpy as np
import numpy.typing as npt

from assay.errors import AssayError
from assay.metrics.figures import improvement, parse_figure
from assay.metrics.statistics import student_t
from assay.run.folder import RunFolder
from assay.run.listing import (
    RunLine,
    Signature,
    comparable_key,
    read_run,
    run_signatures,
    sort_lines,
)
from assay.run.report_file import read_scores
from assay.run.state import RunState
from assay.run.trend import TrendPoint, trend_point

MAX_SCORES = 5000  # queries of a run whose scores are kept: more would make a list large

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
class _ReadRun:
    """A run, read when its files had this signature; without a point if it has no report."""

    signature: Signature
    line: RunLine
    point: TrendPoint | None = None
    scores: _Scores = field(default_factory=lambda: np.array([], np.float32))


class RunIndex:
    """Safe to ask from several threads. `refresh` looks at the disk; the rest does not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs: dict[str, _ReadRun] = {}
        self._changes: dict[str, RunChange] = {}
        self._lock = Lock()

    def refresh(self) -> None:
        """Read what has changed on disk."""
        with self._lock:
            found = run_signatures(self._folder)
            if found == {name: run.signature for name, run in self._runs.items()}:
                return
            runs = {}
            for name, signature in sorted(found.items()):
                known = self._runs.get(name)
                same = known is not None and known.signature == signature
                runs[name] = known if known and same else _read(self._folder / name, signature)
            # Another dictionary, not a changed one: others may be reading the one before.
            self._runs, self._changes = runs, _changes(runs.values())

    def lines(self, matches: Callable[[RunLine], bool] | None = None) -> list[RunLine]:
        """The runs that match, newest first."""
        newest_first = [run.line for run in reversed(self._runs.values())]
        return [line for line in newest_first if matches is None or matches(line)]

    def get(self, name: str) -> RunLine | None:
        """The run of that name."""
        run = self._runs.get(name)
        return run.line if run else None

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
        """The runs with a report as points of a trend, oldest first."""
        runs = (self._runs.get(line.name) for line in lines)
        points = [run.point for run in runs if run and run.point]
        return sorted(points, key=lambda point: (point.moment, point.line.name))

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


def _read(folder: Path, signature: Signature) -> _ReadRun:
    run = RunFolder(folder)
    line, header, report = read_run(run, signature)
    if header is None or report is None:
        return _ReadRun(signature, line)
    scores: list[float] = []
    if report.summary.total_queries <= MAX_SCORES:
        with suppress(AssayError, OSError):  # opening the run says what is wrong with it
            scores = read_scores(run.report_file, report.headline[0].key)
    point = trend_point(line, header, report)
    return _ReadRun(signature, line, point, np.array(scores, np.float32))


def _changes(runs: Iterable[_ReadRun]) -> dict[str, RunChange]:
    """Each complete run against the one before it; `runs` are oldest first."""
    last: dict[tuple[object, ...], _ReadRun] = {}
    changes = {}
    for run in runs:
        line = run.line
        if line.state != RunState.COMPLETE or line.mean is None or not line.answered:
            continue
        key = (line.target, *comparable_key(line))
        if (before := last.get(key)) is not None:
            difference = line.mean - (before.line.mean or 0.0)
            better = improvement(parse_figure(line.metric or ""), difference) > 0
            significant = _differs(before.scores, run.scores)
            changes[line.name] = RunChange(before.line.name, difference, better, significant)
        last[key] = run
    return changes


def _differs(before: _Scores, after: _Scores) -> bool:
    if before.size != after.size or after.size < 2:
        return False
    steps = after - before
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

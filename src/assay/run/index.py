"""Index of all runs under a folder: for lists, filters and trends.

What lists and trends need of a run is kept in memory, and read again only where a file has changed:
from the cache that `assay runs` uses too, or from the files of the run.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from threading import Lock
from typing import Any

from assay.errors import AssayError, RunError
from assay.run.folder import RunFolder
from assay.run.listing import (
    ListedRun,
    Signature,
    comparable_key,
    read_summaries,
    run_signatures,
)
from assay.run.listing import RunLine as RunLine
from assay.run.models import Report, RunHeader
from assay.run.state import RunState
from assay.run.trend import TrendPoint, trend_facts, trend_point

FILTERS = ("target", "dataset", "split", "track", "state", "label", "branch")
ONLY: Mapping[str, Callable[[RunLine], bool]] = {
    "gate failed": lambda line: bool(line.gates_failed),
    "has failures": lambda line: bool(line.failed),
    "ended early": lambda line: line.state not in (RunState.COMPLETE, RunState.RUNNING),
}
"""Runs that somebody may look for, by what they are called."""

SORTS: Mapping[str, Callable[[RunLine], Any]] = {
    "started": attrgetter("name"),
    "target": lambda line: line.target and line.target.lower(),
    "dataset": attrgetter("dataset"),
    "label": attrgetter("label"),
    "branch": attrgetter("branch"),
    "mean": attrgetter("mean"),
    "answers": attrgetter("correctness"),
    "queries": attrgetter("queries"),
    "failed": attrgetter("failed"),
    "latency": attrgetter("latency_p50"),
}
"""What a list can be sorted by; runs without a value come last."""

_TREND_POINTS = 60


@dataclass(frozen=True, slots=True)
class RunPage:
    """Some lines of a list, and how many it has in all."""

    lines: Sequence[RunLine]
    total: int


@dataclass(frozen=True, slots=True)
class Trend:
    """One target on one data set, measured in one way, oldest run first."""

    target: str
    dataset: str
    split: str
    track: str
    metric: str
    runs: int
    points: Sequence[RunLine]


class RunIndex:
    """Safe to ask from several threads. `refresh` looks at the disk; the rest does not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, ListedRun] = {}
        self._seen: dict[str, Signature] = {}
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
            self._seen = found

    def find(
        self,
        filters: Mapping[str, str] | None = None,
        *,
        skip: int = 0,
        limit: int = 25,
        sort: str = "-started",
    ) -> RunPage:
        """Some runs of the list, newest first unless another order is asked for.

        Parameters:
            filters: those of FILTERS, `text` for what name or target hold, `only` for one of ONLY,
                `since` for a day in ISO 8601.
            sort: one of SORTS, with a minus in front for the largest first.
        """
        lines = self._lines(filters or {})[::-1]  # of equals, the newest first
        value = SORTS.get(sort.removeprefix("-"), SORTS["started"])
        known = [line for line in lines if value(line) is not None]
        known.sort(key=value, reverse=sort.startswith("-"))
        ordered = [*known, *(line for line in lines if value(line) is None)]
        return RunPage(ordered[skip : skip + limit], len(lines))

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
        own = (line for line in self._lines({"since": since}) if line.process == process)
        return next((line for line in own if line.baseline_of is None), None)

    def choices(self) -> dict[str, list[str]]:
        """The values that each filter can have."""
        lines = self._lines({})
        found = {name: {getattr(line, name) for line in lines} - {None} for name in FILTERS}
        return {name: sorted(values) for name, values in found.items()}

    def trends(self, filters: Mapping[str, str] | None = None, *, limit: int = 8) -> list[Trend]:
        """Those of several runs, the most recently measured first; one for a target and data set.

        Where a target has several kinds of runs on a data set, which do not compare, the trend is
        that of the newest kind.
        """
        series: dict[tuple[object, ...], list[RunLine]] = defaultdict(list)
        for line in self._lines({**(filters or {}), "state": RunState.COMPLETE}):
            series[(line.target, *comparable_key(line))].append(line)
        several = [lines for lines in series.values() if len(lines) > 1]
        several.sort(key=lambda lines: lines[-1].name)
        newest = {(lines[0].target, lines[0].dataset, lines[0].split): lines for lines in several}
        several = sorted(newest.values(), key=lambda lines: lines[-1].name, reverse=True)
        return [
            Trend(
                target=lines[0].target or "",
                dataset=lines[0].dataset or "",
                split=lines[0].split or "",
                track=lines[0].track or "",
                metric=lines[0].metric or "",
                runs=len(lines),
                points=lines[-_TREND_POINTS:],
            )
            for lines in several[:limit]
        ]

    def datasets(self) -> list[tuple[str, str]]:
        """Every data set and split that has a complete run."""
        complete = self._lines({"state": RunState.COMPLETE})
        return sorted({(line.dataset or "", line.split or "") for line in complete})

    def newest_of_each_target(
        self, dataset: str, split: str, *, answers: bool = False
    ) -> list[RunLine]:
        """The newest complete run of each target, for each kind of run that compares.

        A run in which nothing was answered stands for its target only if there is no other.

        Parameters:
            answers: only runs whose answers were compared with references.
        """
        lines = self._lines({"state": RunState.COMPLETE, "dataset": dataset, "split": split})
        if answers:
            lines = [line for line in lines if line.correctness is not None]
        lines.sort(key=lambda line: (line.failed or 0) < (line.queries or 0))
        return list({(line.target, *comparable_key(line)): line for line in lines}.values())

    def _lines(self, filters: Mapping[str, str]) -> list[RunLine]:
        """The runs that pass all filters, oldest first."""
        equal = [(name, filters[name]) for name in FILTERS if filters.get(name)]
        only = ONLY.get(filters.get("only", ""))
        since, text = filters.get("since", ""), filters.get("text", "").lower()
        return [
            line
            for line, _ in self._known.values()
            if all(getattr(line, name) == value for name, value in equal)
            and (only is None or only(line))
            and (line.started or "") >= since
            and (text in line.name.lower() or text in (line.target or "").lower())
        ]


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
        return whole, trend_facts(header, report)
    except (AssayError, OSError):
        return line, None


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
        label=header.label,
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

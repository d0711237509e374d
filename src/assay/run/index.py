"""Every run under a folder, to be listed, filtered and followed over time.

What lists and trends need of a run is kept in an SQLite table in memory, and read again only where
a file has changed: from the cache that `assay runs` uses too, or from the files of the run.
"""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Any

from assay.errors import AssayError, RunError
from assay.run.folder import UNFINISHED, RunFolder
from assay.run.listing import (
    COLUMNS,
    RunSummary,
    Signature,
    comparable_key,
    line_values,
    read_summaries,
    run_signatures,
)
from assay.run.listing import DAMAGED as DAMAGED
from assay.run.listing import RunLine as RunLine
from assay.run.models import COMPLETE, Report, RunHeader
from assay.run.trend import TrendPoint, trend_facts, trend_point

FILTERS = ("target", "dataset", "split", "track", "state", "label", "branch")
ONLY = {
    "gate failed": "gates_failed > 0",
    "has failures": "failed > 0",
    "ended early": "state NOT IN ('complete', 'running')",
}
"""Runs that somebody may look for, by what they are called; as conditions in SQL."""

SORTS = {
    "started": "name",
    "target": "lower(target)",
    "dataset": "dataset",
    "label": "label",
    "branch": "branch",
    "mean": "mean",
    "answers": "correctness",
    "queries": "queries",
    "failed": "failed",
    "latency": "latency_p50",
}
"""What a list can be sorted by, as expressions in SQL; runs without a value come last."""

_TREND_POINTS = 60
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM runs"


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
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(f"CREATE TABLE runs ({', '.join(COLUMNS)}, facts)")
        self._database.execute("CREATE UNIQUE INDEX by_name ON runs (name)")
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
            known = read_summaries(self._folder, changed, gone if self._seen else None)
            places = ", ".join("?" * (len(COLUMNS) + 1))
            with self._database:
                self._database.executemany(
                    "DELETE FROM runs WHERE name = ?", [(name,) for name in (*gone, *changed)]
                )
                self._database.executemany(
                    f"INSERT INTO runs VALUES ({places})",
                    [(*line_values(line), facts) for line, facts in known.values()],
                )
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
        where, values = _where(filters or {})
        column = SORTS.get(sort.removeprefix("-"), "name")
        down = "DESC" if sort.startswith("-") else "ASC"
        order = f"{column} IS NULL, {column} {down}, name DESC"
        lines = self._lines(f"{where} ORDER BY {order} LIMIT ? OFFSET ?", [*values, limit, skip])
        (total,) = self._rows(f"SELECT count(*) FROM runs {where}", values)[0]
        return RunPage(lines, int(total))

    def get(self, name: str) -> RunLine | None:
        """The run of that name."""
        lines = self._lines("WHERE name = ?", [name])
        return lines[0] if lines else None

    def trend_points(self, lines: Iterable[RunLine]) -> list[TrendPoint]:
        """Complete runs of the list as points of a trend, oldest first."""
        question = "SELECT facts FROM runs WHERE name = ? AND facts IS NOT NULL"
        with self._lock:
            found = [
                (line, facts)
                for line in lines
                for (facts,) in self._database.execute(question, [line.name])
            ]
        points = [self._trend_point(line, facts) for line, facts in found]
        return sorted(points, key=lambda point: (point.moment, point.line.name))

    def _trend_point(self, line: RunLine, facts: bytes) -> TrendPoint:
        try:
            return trend_point(line, facts)
        except (ValueError, KeyError, TypeError, AttributeError):
            # Not what Assay wrote into the cache: the run itself has it.
            _, own = read_summary(RunFolder(self._folder / line.name), self._seen[line.name])
            if own is None:
                raise RunError(f"run {line.name!r} cannot be read: its files are damaged") from None
            return trend_point(line, own)

    def of_process(self, process: int, since: str) -> RunLine | None:
        """The first run that a process made at `since` or later, for process ids are reused.

        The run of a baseline is not meant, whose name may come first within one second.
        """
        lines = self._lines(
            "WHERE process = ? AND started >= ? AND baseline_of IS NULL ORDER BY name LIMIT 1",
            [process, since],
        )
        return lines[0] if lines else None

    def choices(self) -> dict[str, list[str]]:
        """The values that each filter can have."""
        return {name: self._values(name) for name in FILTERS}

    def trends(self, filters: Mapping[str, str] | None = None, *, limit: int = 8) -> list[Trend]:
        """Those of several runs, the most recently measured first; one for a target and data set.

        Where a target has several kinds of runs on a data set, which do not compare, the trend is
        that of the newest kind.
        """
        where, values = _where({**(filters or {}), "state": COMPLETE})
        series: dict[tuple[object, ...], list[RunLine]] = defaultdict(list)
        for line in self._lines(f"{where} ORDER BY name", values):
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
        question = "SELECT DISTINCT dataset, split FROM runs WHERE state = ? ORDER BY 1, 2"
        return [(row[0], row[1]) for row in self._rows(question, [COMPLETE])]

    def newest_of_each_target(
        self, dataset: str, split: str, *, answers: bool = False
    ) -> list[RunLine]:
        """The newest complete run of each target, for each kind of run that compares.

        A run in which nothing was answered stands for its target only if there is no other.

        Parameters:
            answers: only runs whose answers were compared with references.
        """
        condition = "WHERE state = ? AND dataset = ? AND split = ?"
        condition += " AND correctness IS NOT NULL" if answers else ""
        order = "ORDER BY coalesce(failed, 0) < coalesce(queries, 0), name"
        lines = self._lines(f"{condition} {order}", [COMPLETE, dataset, split])
        return list({(line.target, *comparable_key(line)): line for line in lines}.values())

    def _values(self, column: str) -> list[str]:
        rows = self._rows(
            f"SELECT DISTINCT {column} FROM runs WHERE {column} IS NOT NULL ORDER BY 1", []
        )
        return [row[0] for row in rows]

    def _lines(self, condition: str, values: Sequence[Any]) -> list[RunLine]:
        return [RunLine(*row) for row in self._rows(f"{_SELECT} {condition}", values)]

    def _rows(self, question: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._database.execute(question, list(values)).fetchall()


def _where(filters: Mapping[str, str]) -> tuple[str, list[str]]:
    conditions, values = [], []
    for name in FILTERS:
        if filters.get(name):
            conditions.append(f"{name} = ?")
            values.append(filters[name])
    if filters.get("only") in ONLY:
        conditions.append(ONLY[filters["only"]])
    if filters.get("since"):
        conditions.append("started >= ?")
        values.append(filters["since"])
    if filters.get("text"):
        conditions.append("(instr(lower(name), lower(?)) OR instr(lower(target), lower(?)))")
        values += [filters["text"]] * 2
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), values


def read_summary(run: RunFolder, signature: Signature) -> RunSummary:
    """A run from its files. One that cannot be read has a line as well, which says so."""
    state = signature[2]
    line = RunLine(run.name, DAMAGED)
    try:
        header = run.read_header()
        line = _with_header(line, header)
        if not run.report_file.exists():
            return replace(line, state=state or UNFINISHED), None
        report = run.read_report()
        whole = replace(_with_report(line, report), state=state or report.state)
        return whole, trend_facts(header, report)
    except (AssayError, OSError):
        return line, None


def _with_header(line: RunLine, header: RunHeader) -> RunLine:
    return replace(
        line,
        started=header.started,
        target=header.target.name,
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

"""Every run under a folder, to be listed, filtered and followed over time with SQL.

The heads of the reports are read into a DuckDB table in memory, and read again only where a file
has changed: a thousand runs take a tenth of a second the first time, a hundredth afterwards.
Letting DuckDB read the files itself takes five times as long, and one damaged file would spoil
the whole list.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import duckdb
import orjson

from assay.evaluation.run_folder import RunFolder
from assay.evaluation.run_lines import COLUMNS, Line, Signature, run_line, signatures

FILTERS = ("target", "dataset", "split", "track", "state")

_TRENDS_POINTS = 60


@dataclass(frozen=True, slots=True)
class Page:
    lines: Sequence[Line]
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
    points: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Board:
    """What may stand in one ranking: the same judgments, metric and track."""

    dataset: str
    split: str
    fingerprint: str
    metric: str
    track: str
    targets: int


class RunIndex:
    """Safe to ask from several threads. `refresh` looks at the disk; the rest does not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # A thousand lines want no second thread, and nothing may be fetched for them.
        settings: dict[str, Any] = {"threads": 1, "autoinstall_known_extensions": False}
        self._database = duckdb.connect(":memory:", config=settings)
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        self._database.execute(f"CREATE TABLE runs ({columns})")
        self._seen: dict[str, Signature] = {}
        self._lock = Lock()

    def refresh(self) -> None:
        with self._lock:
            found = signatures(self._folder)
            gone = self._seen.keys() - found.keys()
            changed = [name for name, seen in found.items() if self._seen.get(name) != seen]
            if not gone and not changed:
                return
            self._database.execute(
                "DELETE FROM runs WHERE list_contains(?, name)", [[*gone, *changed]]
            )
            lines = [run_line(RunFolder(self._folder / name), found[name]) for name in changed]
            shape = orjson.dumps([COLUMNS]).decode()
            self._database.execute(
                "INSERT INTO runs SELECT unnest(from_json(?, ?), recursive := true)",
                [orjson.dumps(lines).decode(), shape],
            )
            self._seen = found

    def find(
        self, filters: Mapping[str, str] | None = None, *, skip: int = 0, limit: int = 25
    ) -> Page:
        """Newest first. `filters`: those of FILTERS, and `text` for what name or target hold."""
        where, values = _where(filters or {})
        lines = self._ask(
            f"SELECT * FROM runs {where} ORDER BY name DESC LIMIT ? OFFSET ?",
            [*values, limit, skip],
        )
        total = self._ask(f"SELECT count(*) AS n FROM runs {where}", values)[0]["n"]
        return Page(lines, int(total))

    def get(self, name: str) -> Line | None:
        lines = self._ask("SELECT * FROM runs WHERE name = ?", [name])
        return lines[0] if lines else None

    def of_process(self, process: int, since: str) -> Line | None:
        """The first run that a process has made at `since` or later: process ids come back, and
        the run of a baseline follows that of the target.
        """
        question = "SELECT * FROM runs WHERE process = ? AND started >= ? ORDER BY name LIMIT 1"
        lines = self._ask(question, [process, since])
        return lines[0] if lines else None

    def choices(self) -> dict[str, list[str]]:
        """The values that each filter can have."""
        return {name: self._values(name) for name in FILTERS}

    def trends(self, filters: Mapping[str, str] | None = None, *, limit: int = 8) -> list[Trend]:
        """Those of several runs, the most recently measured first."""
        where, values = _where({**(filters or {}), "state": "complete"})
        lines = self._ask(
            f"""
            SELECT target, dataset, split, track, metric, count(*) AS runs,
                   list({{'name': name, 'mean': mean, 'low': low, 'high': high}} ORDER BY name)
                       [-{_TRENDS_POINTS}:] AS points
            FROM runs {where}
            GROUP BY target, dataset, fingerprint, split, track, metric, top_k
            HAVING count(*) > 1 ORDER BY max(name) DESC LIMIT ?
            """,
            [*values, limit],
        )
        return [Trend(**line) for line in lines]

    def boards(self) -> list[Board]:
        lines = self._ask(
            """
            SELECT dataset, split, fingerprint, metric, track, count(DISTINCT target) AS targets
            FROM runs WHERE state = 'complete' GROUP BY ALL
            ORDER BY dataset, split, fingerprint, track DESC, metric
            """,
            [],
        )
        return [Board(**line) for line in lines]

    def latest_of_each_target(self, board: Board, *, limit: int) -> list[Line]:
        """The newest complete run of each target, with as many queries as any has; best first.

        A sample is left out where somebody was asked everything: means over other queries do not
        compare.
        """
        return self._ask(
            """
            WITH board AS (
                SELECT * FROM runs WHERE state = 'complete' AND dataset = ? AND split = ?
                    AND fingerprint = ? AND metric = ? AND track = ?
            )
            SELECT * FROM board WHERE queries = (SELECT max(queries) FROM board)
            QUALIFY row_number() OVER (PARTITION BY target ORDER BY name DESC) = 1
            ORDER BY mean DESC, target LIMIT ?
            """,
            [board.dataset, board.split, board.fingerprint, board.metric, board.track, limit],
        )

    def _values(self, column: str) -> list[str]:
        question = f"SELECT DISTINCT {column} FROM runs WHERE {column} IS NOT NULL ORDER BY 1"
        return [line[column] for line in self._ask(question, [])]

    def _ask(self, question: str, values: Sequence[Any]) -> list[Line]:
        with self._lock:
            answer = self._database.execute(question, list(values))
            names = [column[0] for column in answer.description or ()]
            return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def _where(filters: Mapping[str, str]) -> tuple[str, list[str]]:
    conditions, values = [], []
    for name in FILTERS:
        if filters.get(name):
            conditions.append(f"{name} = ?")
            values.append(filters[name])
    if filters.get("text"):
        conditions.append("(contains(lower(name), lower(?)) OR contains(lower(target), lower(?)))")
        values += [filters["text"]] * 2
    return (f"WHERE {' AND '.join(conditions)}" if conditions else ""), values

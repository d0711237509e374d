"""The list of runs that `assay runs` prints: lines from a cache, chosen and sorted.

A report has thousands of rows, and a list needs twenty figures of it. They are kept in the cache,
by the folder of the runs, with the times of the files that they were read from: what did not change
is not read again, by `assay runs` or by the pages of the web UI. Quick to import, because a list
from the cache needs no model of a report.
"""

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import get_args

from assay.data.cache import CacheDatabase, cache_folder
from assay.errors import AssayError, UsageError
from assay.locks import is_locked
from assay.net.json import LARGEST
from assay.net.redact import printable
from assay.run.state import RunState
from assay.text import parse_time

Signature = tuple[int, int, str]
"""When `run.json` and `report.json` were written, and `running` where the run goes on."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as one line of a list; figures are None if the run has no report.

    `tags` is a JSON object in one text, None where there are none. `scores` are the headline scores
    of the queries as 32-bit floats in the order of the run; None for runs of many queries.
    """

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
    seed: int | None = None
    sample: int | None = None
    label: str | None = None
    branch: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    tags: str | None = None
    note: str | None = None
    process: int | None = None
    baseline_of: str | None = None
    metric: str | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    ceiling: float | None = None
    queries: int | None = None
    failed: int | None = None
    gates: int | None = None
    gates_failed: int | None = None
    latency_p50: float | None = None
    latency_p95: float | None = None
    trouble: str | None = None
    scores: bytes | None = None
    questions: int | None = None
    correctness: float | None = None
    correctness_low: float | None = None
    correctness_high: float | None = None


def sample_seed(line: RunLine) -> int | None:
    """The seed that decided which queries were drawn; None where all were asked."""
    return None if line.sample is None else line.seed


def comparable_key(line: RunLine) -> tuple[object, ...]:
    """Equal for runs that were asked the same queries on the same data, measured in one way."""
    data = (line.dataset, line.split, line.fingerprint, line.queries, sample_seed(line))
    return (*data, line.track, line.metric, line.top_k)


_COLUMNS = tuple(each.name for each in fields(RunLine))


def run_signatures(folder: Path) -> dict[str, Signature]:
    """What shows whether a run has changed: times of its files, and whether it is being written.

    A folder whose name holds controls or half characters is none of ours, and is passed over: no
    list, page or header could hold its name.
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


ListedRun = tuple[RunLine, bytes | None]
"""A run as it is listed, and what a trend needs of it (`assay.run.trend.trend_facts`), or None."""

# Another set of columns is another table: an older Assay's is left alone, and made anew if needed.
# The number changes with what is in a column.
_TABLE = f"lines_{hashlib.sha256(f'2 {_COLUMNS}'.encode()).hexdigest()[:12]}"
_FIELDS = ("header_time", "report_time", *_COLUMNS)
_STORED_AS = {
    str: "'text'",
    bytes: "'blob'",
    int: "'integer'",
    bool: "'integer'",
    float: "'real', 'integer'",
}
# A row with other kinds of values, or figures that are none, was not written by Assay.
_IS_OURS = " AND ".join(
    f"typeof({each.name}) IN ('null', {_STORED_AS[kind]})"
    + (f" AND abs(ifnull({each.name}, 0)) <= {LARGEST:.0f}" if kind is float else "")
    for each in fields(RunLine)
    for kind in (each.type if isinstance(each.type, type) else get_args(each.type)[0],)
)
_FEW = 100
_BATCH = 2000


def list_lines(folder: Path) -> list[RunLine]:
    """Every run under `folder`; a cache that cannot be used costs time, nothing else."""
    found = run_signatures(folder)
    summaries = read_summaries(folder, found, facts=False)
    return [summaries[name][0] for name in found]


MIN_ANSWERED = 0.5
"""A run that answered a smaller share of its queries is never a reference."""


def is_answered(answered: int, asked: int) -> bool:
    """Whether a run answered enough of its queries to compare others with it."""
    return answered > 0 and answered >= MIN_ANSWERED * asked


def complete_runs_of(name: str, folder: Path) -> set[str]:
    """The complete runs of a label, else of a branch, that others can be compared with."""
    complete = [
        line
        for line in list_lines(folder)
        if line.state == RunState.COMPLETE
        and not line.baseline_of
        and is_answered((line.queries or 0) - (line.failed or 0), line.queries or 0)
    ]
    labeled = {line.name for line in complete if line.label == name}
    return labeled or {line.name for line in complete if line.branch == name}


def read_summaries(
    folder: Path,
    runs: Mapping[str, Signature],
    gone: Iterable[str] | None = None,
    *,
    facts: bool = True,
) -> dict[str, ListedRun]:
    """What is known of runs, from the cache where their files have not changed.

    Parameters:
        folder: the folder that holds the run folders.
        runs: the runs that are wanted.
        gone: runs that the cache can forget; all but `runs` where it is None.
        facts: whether to read what trends need, which is longer than the lines.
    """
    known: dict[str, tuple[Signature, ListedRun]] = {}
    with suppress(AssayError, OSError):
        names = None if gone is None or len(runs) > _FEW else runs.keys()
        known = _database(folder).use(lambda database: _read(database, names, facts=facts))
    summaries = {
        name: known[name][1]
        for name, signature in runs.items()
        if name in known and known[name][0] == signature
    }
    new = [name for name in runs if name not in summaries]
    forgotten = list(known.keys() - runs.keys() if gone is None else gone)
    # A first list of very many runs that is interrupted goes on where it was.
    parts = [new[start : start + _BATCH] for start in range(0, len(new), _BATCH)]
    for part in parts or ([[]] if forgotten else []):
        found = _read_files(folder, {name: runs[name] for name in part})
        summaries |= found
        kept = [(runs[name], each) for name, each in found.items()]
        kept = [each for each in kept if _is_settled(each[0], each[1][0])]
        with suppress(AssayError, OSError):
            _database(folder).use(partial(_write, gone=forgotten, kept=kept))
        forgotten = []
    return summaries


def _read_files(folder: Path, runs: Mapping[str, Signature]) -> dict[str, ListedRun]:
    if not runs:
        return {}
    from assay.run.folder import RunFolder  # the models of a report take longer than the list
    from assay.run.index import read_summary

    return {name: read_summary(RunFolder(folder / name), each) for name, each in runs.items()}


def _is_settled(signature: Signature, line: RunLine) -> bool:
    """A run that goes on changes without a new time of its files; a damaged one may be repaired."""
    return not signature[2] and line.state != RunState.DAMAGED


def _database(folder: Path) -> CacheDatabase:
    place = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogatepass")).hexdigest()
    path = cache_folder() / "runs" / f"{place[:16]}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = ", ".join((*_FIELDS, "facts"))
    create = f"CREATE TABLE IF NOT EXISTS {_TABLE} ({columns}, PRIMARY KEY (name))"
    return CacheDatabase(path, "list of runs", create)


def _read(
    database: sqlite3.Connection, names: Iterable[str] | None, *, facts: bool
) -> dict[str, tuple[Signature, ListedRun]]:
    question = f"SELECT {'facts' if facts else 'NULL'}, {', '.join(_FIELDS)} FROM {_TABLE}"
    question += f" WHERE {_IS_OURS}"
    if names is None:
        rows = database.execute(question).fetchall()
    else:
        one = f"{question} AND name = ?"
        rows = [row for name in names for row in database.execute(one, [name])]
    return {row[3]: ((row[1], row[2], ""), (RunLine(*row[3:]), row[0])) for row in rows}


def _write(
    database: sqlite3.Connection, gone: Iterable[str], kept: list[tuple[Signature, ListedRun]]
) -> None:
    database.executemany(f"DELETE FROM {_TABLE} WHERE name = ?", [(name,) for name in gone])
    places = ", ".join("?" * (len(_FIELDS) + 1))
    database.executemany(
        f"INSERT OR REPLACE INTO {_TABLE} VALUES ({places})",
        [
            (*key[:2], *(getattr(line, name) for name in _COLUMNS), facts)
            for key, (line, facts) in kept
        ],
    )


_AGE = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

_last = float("inf")
ORDERS: Mapping[str, Callable[[RunLine], tuple[object, ...]]] = {
    "started": lambda line: (line.name,),
    "score": lambda line: (_last if line.mean is None else -line.mean, line.name),
    "latency": lambda line: (_last if line.latency_p50 is None else line.latency_p50, line.name),
    "label": lambda line: (line.label is None, line.label or "", line.name),
    "branch": lambda line: (line.branch is None, line.branch or "", line.name),
}
"""How lines are sorted: newest last, best first, fastest first, by name."""


@dataclass(frozen=True, slots=True)
class RunSelection:
    """What to list; None takes every run.

    Attributes:
        label: the runs with this label.
        branch: the runs that were made on this branch.
        since: the runs that were started then or later.
        failed: only runs in which something failed, see `something_failed`.
    """

    label: str | None = None
    branch: str | None = None
    since: datetime | None = None
    failed: bool = False

    def choose(self, lines: Iterable[RunLine], order: str = "started") -> list[RunLine]:
        """Those of `lines` that are meant, in one of ORDERS. Raises `UsageError`."""
        if order not in ORDERS:
            raise UsageError(f"--sort must be one of {', '.join(ORDERS)}, got {order!r}")
        return sorted(filter(self._takes, lines), key=ORDERS[order])

    def _takes(self, line: RunLine) -> bool:
        return (
            (self.label is None or line.label == self.label)
            and (self.branch is None or line.branch == self.branch)
            and (self.since is None or is_since(line, self.since))
            and (not self.failed or something_failed(line))
        )


def something_failed(line: RunLine) -> bool:
    """Whether a run ended early, or a gate or a query of it failed."""
    if line.state == RunState.RUNNING:
        return False
    return line.state != RunState.COMPLETE or bool(line.gates_failed) or bool(line.failed)


def is_since(line: RunLine, since: datetime) -> bool:
    """Whether a run was started then or later."""
    if line.started is None:
        return False
    try:
        return parse_time(line.started) >= since
    except ValueError:  # of a damaged header
        return False


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """`7d`, `12h`, `2026-11-01` or an ISO 8601 time; UTC where no zone is named.

    Raises `UsageError`.
    """
    if age := _AGE.fullmatch(text.strip()):
        back = timedelta(**{_UNITS[age[2]]: int(age[1])})
        try:
            return (now or datetime.now(UTC)) - back
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return parse_time(text.strip())
    except ValueError:
        raise UsageError(
            f"--since {text!r} is not a time; write, for example: 2026-11-01, "
            "2026-11-01T08:30:00+00:00, 12h or 7d"
        ) from None

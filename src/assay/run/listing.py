"""Runs as lines of a list: read from a cache, searched and sorted, for `assay runs` and the web UI.

A report has thousands of rows, and a list needs twenty figures of it. They are kept in the cache,
by the folder of the runs, with the times of the files that they were read from: what did not change
is not read again. Quick to import, because a list from the cache needs no model of a report.
"""

import hashlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import orjson

from assay.data.cache import CacheDatabase, cache_folder
from assay.errors import AssayError, UsageError
from assay.locks import is_locked
from assay.net.json import parse_json
from assay.net.redact import printable
from assay.run.state import RunState
from assay.text import parse_time

Signature = tuple[int, int, str]
"""When `run.json` and `report.json` were written, and `running` while the run goes on."""

MIN_ANSWERED = 0.5
"""A run that answered a smaller share of its queries is never a reference."""

_MAX_NAMES = 100
_BATCH = 2000


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as one line of a list; figures are None if the run has no report.

    `scores` are the headline scores of the queries as 32-bit floats in the order of the run; None
    for runs of many queries.
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
    tags: Mapping[str, str] | None = None
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

    @property
    def answered(self) -> int:
        """How many queries were answered."""
        return (self.queries or 0) - (self.failed or 0)


ListedRun = tuple[RunLine, bytes | None]
"""A run as it is listed, and what a trend needs of it (`assay.run.trend.trend_facts`), or None."""


def sample_seed(line: RunLine) -> int | None:
    """The seed that decided which queries were drawn; None if all were asked."""
    return None if line.sample is None else line.seed


def comparable_key(line: RunLine) -> tuple[object, ...]:
    """Equal for runs that were asked the same queries on the same data, measured in one way."""
    data = (line.dataset, line.split, line.fingerprint, line.queries, sample_seed(line))
    return (*data, line.track, line.metric, line.top_k)


def verdict_of(line: RunLine) -> tuple[str, str]:
    """What a run came to in two words, and the tone of it: `good`, `bad`, `plain` or empty."""
    if line.queries and not line.answered:
        return "nothing answered", "bad"
    if line.state != RunState.COMPLETE:
        return line.state, "bad" if line.state == RunState.DAMAGED else "plain"
    if line.gates_failed:
        return "gate failed", "bad"
    if line.trouble:
        return "not judged", "plain"
    return ("passed", "good") if line.gates else ("", "")


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
        and is_answered(line.answered, line.queries or 0)
    ]
    labeled = {line.name for line in complete if line.label == name}
    return labeled or {line.name for line in complete if line.branch == name}


# --- the search language -------------------------------------------------------------------------

_TERM = re.compile(r'(?:(?P<key>[a-z]+):)?(?P<value>"[^"]*"|\S+)')
_FIELDS = ("target", "label", "branch", "dataset", "track", "split", "agent")
_WORD_FIELDS = ("name", "label", "target", "dataset", "branch", "git_commit", "note")


@dataclass(frozen=True, slots=True)
class RunSearch:
    """`RunSearch.parse("target:bm25 branch:main gate:failed since:7d words")`.

    A value in quotes is the whole field: `label:"k1 0.9"`.
    """

    terms: tuple[Callable[[RunLine], bool], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "RunSearch":
        """Every term must hold. Raises `UsageError` for a date that cannot be read."""
        return cls(tuple(_term(found) for found in _TERM.finditer(text.strip())))

    def __call__(self, line: RunLine) -> bool:
        return all(term(line) for term in self.terms)


def _term(found: re.Match[str]) -> Callable[[RunLine], bool]:
    key, value = found["key"], found["value"].strip('"').lower()
    if key in _FIELDS and found["value"].startswith('"'):
        return lambda line: value == (getattr(line, key) or "").lower()
    if key in _FIELDS:
        return lambda line: value in (getattr(line, key) or "").lower()
    if key == "gate":
        return lambda line: bool(line.gates) and bool(line.gates_failed) == (value == "failed")
    if key == "state":
        return lambda line: line.state.startswith(value)
    if key == "since":
        since = parse_since(value)
        return lambda line: is_since(line, since)
    if key == "failed":
        return something_failed
    words = found[0].strip('"').lower()
    return lambda line: words in " ".join(getattr(line, n) or "" for n in _WORD_FIELDS).lower()


def something_failed(line: RunLine) -> bool:
    """Whether a run ended early, or a gate or a query of it failed."""
    if line.state == RunState.RUNNING:
        return False
    return line.state != RunState.COMPLETE or bool(line.gates_failed) or bool(line.failed)


def is_since(line: RunLine, since: datetime) -> bool:
    """Whether a run was started then or later."""
    try:
        return line.started is not None and parse_time(line.started) >= since
    except ValueError:  # of a damaged header
        return False


_AGE = re.compile(r"(\d{1,6})\s*([mhdw])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_since(text: str, now: datetime | None = None) -> datetime:
    """`7d`, `12h`, `2026-11-01` or an ISO 8601 time; UTC if no zone is named.

    Raises `UsageError`.
    """
    if age := _AGE.fullmatch(text.strip()):
        try:
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[age[2]]: int(age[1])})
        except OverflowError:
            return datetime.min.replace(tzinfo=UTC)
    try:
        return parse_time(text.strip())
    except ValueError:
        raise UsageError(
            f"since {text!r} is not a time; write, for example: 2026-11-01, "
            "2026-11-01T08:30:00+00:00, 12h or 7d"
        ) from None


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
"""What a list can be sorted by."""


def sort_lines(
    lines: Iterable[RunLine], by: str, value: Callable[[RunLine], Any] | None = None
) -> list[RunLine]:
    """Lines by one of SORTS, or by `value`; a minus in front of `by` puts the largest first.

    Runs without a value come last.
    """
    value = value or SORTS.get(by.removeprefix("-"), SORTS["when"])
    ordered = sorted(lines, key=attrgetter("name"))
    having = [line for line in ordered if value(line) is not None]
    having.sort(key=value, reverse=by.startswith("-"))
    return [*having, *(line for line in ordered if value(line) is None)]


# --- reading -------------------------------------------------------------------------------------


def list_lines(folder: Path) -> list[RunLine]:
    """Every run under `folder`; a cache that cannot be used costs time, nothing else."""
    found = run_signatures(folder)
    summaries = read_summaries(folder, found, facts=False)
    return [summaries[name][0] for name in found]


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


def read_summaries(
    folder: Path,
    runs: Mapping[str, Signature],
    gone: Iterable[str] | None = None,
    *,
    facts: bool = True,
) -> dict[str, ListedRun]:
    """What is known of runs, from the cache if their files have not changed.

    Parameters:
        folder: the folder that holds the run folders.
        runs: the runs that are wanted.
        gone: runs that the cache can forget; all but `runs` if it is None.
        facts: whether to read what trends need, which is longer than the lines.
    """
    known: dict[str, tuple[Signature, ListedRun]] = {}
    with suppress(AssayError, OSError):
        names = None if gone is None or len(runs) > _MAX_NAMES else list(runs)
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
        # A run that goes on changes without a new time of its files; a damaged one may be repaired.
        kept = {
            name: listed
            for name, listed in found.items()
            if not runs[name][2] and listed[0].state != RunState.DAMAGED
        }
        with suppress(AssayError, OSError):
            write = partial(_write, gone=forgotten, runs=runs, kept=kept)
            _database(folder).use(write)
        forgotten = []
    return summaries


def _read_files(folder: Path, runs: Mapping[str, Signature]) -> dict[str, ListedRun]:
    if not runs:
        return {}
    from assay.run.folder import RunFolder  # the models of a report take longer than the list
    from assay.run.index import read_summary

    return {name: read_summary(RunFolder(folder / name), each) for name, each in runs.items()}


# Another set of fields is another table: an older Assay's is left alone. The number changes with
# what is in a field.
_NAMES = [each.name for each in fields(RunLine)]
_TABLE = f"lines_{hashlib.sha256(f'3 {_NAMES}'.encode()).hexdigest()[:12]}"
_COLUMNS = "name, header_time, report_time, line, scores, facts"


def _database(folder: Path) -> CacheDatabase:
    place = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogatepass")).hexdigest()
    path = cache_folder() / "runs" / f"{place[:16]}.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    create = f"CREATE TABLE IF NOT EXISTS {_TABLE} ({_COLUMNS}, PRIMARY KEY (name))"
    return CacheDatabase(path, "list of runs", create)


def _read(
    database: sqlite3.Connection, names: list[str] | None, *, facts: bool
) -> dict[str, tuple[Signature, ListedRun]]:
    columns = _COLUMNS if facts else _COLUMNS.replace("facts", "NULL")
    question = f"SELECT {columns} FROM {_TABLE}"
    if names is not None:
        question += f" WHERE name IN ({', '.join('?' * len(names))})"
    found = {}
    for name, header, report, line, scores, kept in database.execute(question, names or []):
        with suppress(TypeError, ValueError):  # not what Assay wrote: the run itself has it
            listed = RunLine(**parse_json(line), scores=scores)
            found[name] = ((header, report, ""), (listed, kept))
    return found


def _write(
    database: sqlite3.Connection,
    gone: Iterable[str],
    runs: Mapping[str, Signature],
    kept: Mapping[str, ListedRun],
) -> None:
    database.executemany(f"DELETE FROM {_TABLE} WHERE name = ?", [(name,) for name in gone])
    rows = []
    for name, (line, facts) in kept.items():
        written = {key: value for key, value in asdict(line).items() if key != "scores"}
        rows.append((name, *runs[name][:2], orjson.dumps(written), line.scores, facts))
    places = ", ".join("?" * len(_COLUMNS.split(",")))
    database.executemany(f"INSERT OR REPLACE INTO {_TABLE} VALUES ({places})", rows)

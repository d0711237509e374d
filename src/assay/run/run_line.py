"""A run as one line of a list, and what shows that it has changed; quick to import.

`assay runs` over thousands of folders reads lines from its cache and needs no model of a report.
"""

import os
from dataclasses import dataclass, fields
from pathlib import Path

from assay.files import is_locked

COMPLETE = "complete"
RUNNING = "running"
UNFINISHED = "unfinished"
DAMAGED = "damaged"

Signature = tuple[int, int, str]
"""When `run.json` and `report.json` were written, and RUNNING where the run goes on."""


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run as one line of a list; figures are None if the run has no report."""

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
    questions: int | None = None
    correctness: float | None = None
    correctness_low: float | None = None
    correctness_high: float | None = None


COLUMNS = tuple(each.name for each in fields(RunLine))


def run_signatures(folder: Path) -> dict[str, Signature]:
    """What shows whether a run has changed: times of its files, and whether it is being written."""
    if not folder.is_dir():
        return {}
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            header = _modified(f"{entry.path}/run.json")
            if header:
                report, calls = _modified(f"{entry.path}/report.json"), f"{entry.path}/calls.jsonl"
                # A finished run is not opened: only a report that is missing or older than the
                # calls can belong to a run that continues.
                may_run = not report or _modified(calls) > report
                running = may_run and is_locked(Path(calls))
                found[entry.name] = (header, report, RUNNING if running else "")
    return found


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 (a list asks thousands of times)
    except OSError:
        return 0

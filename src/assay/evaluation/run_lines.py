"""A run as one line of a list, read from its folder without the rows of its report."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.errors import AssayError
from assay.evaluation.run_folder import RunFolder
from assay.files import is_locked

RUNNING = "running"
UNFINISHED = "unfinished"
DAMAGED = "damaged"

COLUMNS = {
    "name": "VARCHAR",
    "started": "VARCHAR",
    "state": "VARCHAR",
    "target": "VARCHAR",
    "dataset": "VARCHAR",
    "fingerprint": "VARCHAR",
    "split": "VARCHAR",
    "track": "VARCHAR",
    "top_k": "INTEGER",
    "seed": "BIGINT",
    "process": "BIGINT",
    "metric": "VARCHAR",
    "mean": "DOUBLE",
    "low": "DOUBLE",
    "high": "DOUBLE",
    "ceiling": "DOUBLE",
    "queries": "INTEGER",
    "failed": "INTEGER",
    "gates": "INTEGER",
    "gates_failed": "INTEGER",
    "latency_p50": "DOUBLE",
    "questions": "INTEGER",
    "correctness": "DOUBLE",
    "correctness_low": "DOUBLE",
    "correctness_high": "DOUBLE",
}

Line = dict[str, Any]
Signature = tuple[int, int, str]
"""When `run.json` and `report.json` were written, and RUNNING where the run goes on."""


def signatures(folder: Path) -> dict[str, Signature]:
    """What tells whether a run has changed: times of its files, and whether it is being written."""
    if not folder.is_dir():
        return {}
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            header = _changed(f"{entry.path}/run.json")
            if header:
                report, calls = _changed(f"{entry.path}/report.json"), f"{entry.path}/calls.jsonl"
                # A finished run is not opened: only a report that is missing or older than the
                # calls can belong to a run that goes on.
                may_run = not report or _changed(calls) > report
                running = may_run and is_locked(Path(calls))
                found[entry.name] = (header, report, RUNNING if running else "")
    return found


def _changed(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 (a list asks thousands of times)
    except OSError:
        return 0


def run_line(run: RunFolder, signature: Signature) -> Line:
    """One row of the table. A run that cannot be read is one as well, and says so."""
    state = signature[2]
    line: Line = dict.fromkeys(COLUMNS) | {"name": run.name, "state": DAMAGED}
    try:
        line |= _from_header(run.read_header())
        line["state"] = state or UNFINISHED
        if run.report.exists():
            head = run.read_head()
            line |= _from_head(head)
            line["state"] = state or head["state"]
    except (AssayError, OSError, KeyError, TypeError, StopIteration):
        line["state"] = DAMAGED
    return line


def _from_header(header: Mapping[str, Any]) -> Line:
    config = header["config"]
    return {
        "started": header["started"],
        "target": header["target"]["name"],
        "dataset": header["dataset"]["name"],
        "fingerprint": header["dataset"]["fingerprint"],
        "split": config["split"],
        "track": header["track"],
        "top_k": config["top_k"],
        "seed": config["seed"],
        "process": header.get("process"),
    }


def _from_head(head: Mapping[str, Any]) -> Line:
    metric, row = next(iter(head["statistics"].items()))
    return {
        "metric": metric,
        **{name: row[name] for name in ("mean", "low", "high", "ceiling")},
        "queries": head["summary"]["total_queries"],
        "failed": head["summary"]["failed_queries"],
        "gates": len(head["gates"]),
        "gates_failed": sum(not gate["passed"] for gate in head["gates"]),
        "latency_p50": head["latency_ms"]["p50"],
        **_from_answers(head.get("answers") or {}),
    }


def _from_answers(answers: Mapping[str, Any]) -> Line:
    """Nothing where there were no answers, or nothing to hold them against."""
    row = answers.get("statistics", {}).get("correctness")
    if row is None:
        return {}
    return {
        "questions": row["n"],
        "correctness": row["mean"],
        "correctness_low": row["low"],
        "correctness_high": row["high"],
    }

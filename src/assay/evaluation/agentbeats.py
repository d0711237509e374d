"""Result files of AgentBeats: `{"participants": {...}, "results": [report, ...]}`.

document = submission_of(shards)             # what the platform would write for these runs
folders = runs_in_results(path, into)        # its reports as runs, to be merged like any others
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from assay.errors import FailureKind, RunError
from assay.evaluation.merge import merged_config
from assay.files import make_private_folder, read_file
from assay.net.json import JsonObject, parse_json
from assay.run.calls import Call, CallWriter
from assay.run.folder import RunFolder
from assay.run.models import FORMAT, QueryRow, Report, RunHeader, RunState

# What the agent under test is called among the participants of a benchmark.
ROLE = "retrieval_agent"

MAX_RESULT_BYTES = 1_000_000_000
_ROWS = "per_query_results"
_REMEDY = "merge the run folders instead"


def submission_of(shards: Sequence[RunFolder], agent_id: str | None = None) -> JsonObject:
    """The platform's result file for the shards of one evaluation, or for an undivided run.

    `agent_id` is the platform's id of the agent; by default its own name, else its target. Raises
    `RunError` if the runs are not all the shards of one evaluation.
    """
    merged_config(shards)
    shards = sorted(shards, key=lambda shard: shard.read_config().shard_index)
    target = shards[0].read_header().target
    complete = all(shard.state() == RunState.COMPLETE for shard in shards)
    return {
        "status": "completed" if complete else "partial",
        "participants": {ROLE: agent_id or target.agent or target.name},
        "results": [shard.read_json() | {"run": shard.name} for shard in shards],
    }


def runs_in_results(path: Path, into: Path) -> list[RunFolder]:
    """The reports of a result file as runs under `into`.

    Raises `RunError` if it is not a result file, or its reports lack what a run needs.
    """
    try:
        document = _whole_numbers(parse_json(read_file(path, limit=MAX_RESULT_BYTES)))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise RunError(f"{path} is not JSON: {error}") from None
    found = document if isinstance(document, Mapping) else {}
    reports = [found] if _ROWS in found else found.get("results")
    if not isinstance(reports, list) or not reports or found.get("status") == "failed":
        raise RunError(
            f"{path} has no list 'results' of reports, or is of a failed assessment; leave it out"
        )
    return [
        _run_of(path, number, report if isinstance(report, Mapping) else {}, into)
        for number, report in enumerate(reports, start=1)
    ]


def _run_of(path: Path, number: int, document: Mapping[str, Any], into: Path) -> RunFolder:
    """One report as a run folder: its header, the calls that its rows tell of, and itself."""
    where = f"results[{number - 1}]"
    rows = document.get(_ROWS)
    if not isinstance(rows, list):
        raise RunError(
            f"{path}: {where} has no {_ROWS!r}, so it is not a report of Assay's green agent"
        )
    figures = {key: value for key, value in document.items() if key != _ROWS}
    report = Report.read(figures, path, _REMEDY)
    if report.config.answers:
        raise RunError(f"{path}: {where} is about answers, which its rows do not hold; {_REMEDY}")
    name = document.get("run")  # it becomes the name of a folder
    usable = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,120}", name)
    folder = RunFolder(into / (f"{number:03d}-{name}" if usable else f"{number:03d}"))
    make_private_folder(folder.path, exist_ok=False)
    shared = {"started", "config", "target", "track", "dataset", "versions"}
    header = {name: getattr(report, name) for name in shared}
    folder.write_header(RunHeader(format=FORMAT, **header))
    with CallWriter(folder.calls_file) as writer:
        for place, value in enumerate(rows, start=1):
            writer.append(_call(QueryRow.read(value, path, _REMEDY, f"{where}, row {place}"), path))
    folder.report_file.write_bytes(orjson.dumps(document))
    return folder


def _call(row: QueryRow, path: Path) -> Call:
    try:
        failure = FailureKind(row.failure) if row.status == "failed" else None
    except ValueError:
        raise RunError(
            f"{path}: query {row.query_id!r} has an unknown kind of failure, {row.failure!r:.80}; "
            f"{_REMEDY}"
        ) from None
    return Call(
        query_id=row.query_id,
        doc_ids=tuple(row.retrieved_docs),
        latency_ms=row.latency_ms,
        attempts=row.attempts,
        at=row.at,
        failure=failure,
        message=row.message,
        returned=len(row.retrieved_docs),
    )


def _whole_numbers(value: Any) -> Any:
    """5.0 as 5, as it was before A2A carried it. Beyond 2**53 a double may be any of several."""
    if isinstance(value, dict):
        return {key: _whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(each) for each in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
    return int(value) if whole else value

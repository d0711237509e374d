"""AgentBeats' result file: runs written as one, and its reports read back as runs.

    {"status": "completed", "participants": {"retrieval_agent": ID}, "results": [REPORT, ...]}

with one report for each shard. The platform's own client leaves out `status`, and A2A carries every
number as a double.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from assay.errors import FailureKind, RunError
from assay.evaluation.merge import merged_config
from assay.files import make_private_folder
from assay.net.json import JsonObject, parse_json
from assay.run.calls import Call, CallWriter
from assay.run.folder import RunFolder
from assay.run.models import COMPLETE, FORMAT, QueryRow, Report, RunHeader

ROLE = "retrieval_agent"
MAX_BYTES = 1_000_000_000
"""The largest result file that is read."""

_ROWS = "per_query_results"
_REMEDY = "merge the run folders instead"


def submission_of(shards: Sequence[RunFolder], agent_id: str | None = None) -> JsonObject:
    """The platform's result file for the shards of one evaluation, or for an undivided run.

    agent_id: the platform's id of the agent; its own name, or else its target, by default.

    Raises `RunError` where the runs are not all the shards of one evaluation.
    """
    merged_config(shards)
    shards = sorted(shards, key=lambda shard: shard.read_config().shard_index)
    header = shards[0].read_header()
    complete = all(shard.state() == COMPLETE for shard in shards)
    return {
        "status": "completed" if complete else "partial",
        "participants": {ROLE: agent_id or header.target.agent or header.target.name},
        "results": [shard.read_json() | {"run": shard.name} for shard in shards],
    }


def runs_in_results(path: Path, into: Path) -> list[RunFolder]:
    """The reports of a result file as runs under `into`, to be merged like any others.

    Raises `RunError` where the file is no result file, or its reports lack what a run needs.
    """
    return [
        _run_of(path, number, report, into) for number, report in enumerate(_reports(path), start=1)
    ]


def _reports(path: Path) -> list[JsonObject]:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RunError(f"{path} has more than {MAX_BYTES:,} bytes; {_REMEDY}")
        document = _whole_numbers(parse_json(path.read_bytes()))
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}") from None
    except orjson.JSONDecodeError as error:
        raise RunError(f"{path} is not JSON: {error}") from None
    if isinstance(document, Mapping) and _ROWS in document:
        return [dict(document)]
    results = document.get("results") if isinstance(document, Mapping) else None
    if not isinstance(results, list) or not results:
        raise RunError(
            f"{path} has no list 'results' of reports, so it is not a result file of AgentBeats"
        )
    if document.get("status") == "failed":
        raise RunError(f"{path} is the result of an assessment that failed")
    return [each if isinstance(each, dict) else {} for each in results]


def _run_of(path: Path, number: int, document: JsonObject, into: Path) -> RunFolder:
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
    folder = RunFolder(into / _folder_name(document.get("run"), number))
    make_private_folder(folder.path, exist_ok=False)
    folder.write_header(
        RunHeader(
            format=FORMAT,
            started=report.started,
            config=report.config,
            target=report.target,
            track=report.track,
            dataset=report.dataset,
            versions=report.versions,
        )
    )
    with CallWriter(folder.calls_file) as writer:
        for call in _calls(rows, path, where):
            writer.append(call)
    folder.report_file.write_bytes(orjson.dumps(document))
    return folder


def _calls(rows: Sequence[Any], path: Path, where: str) -> Iterator[Call]:
    for number, value in enumerate(rows):
        row = QueryRow.read(value, path, _REMEDY, f"{where}, row {number + 1}")
        yield Call(
            query_id=row.query_id,
            doc_ids=tuple(row.retrieved_docs),
            latency_ms=row.latency_ms,
            attempts=row.attempts,
            at=row.at,
            failure=_failure(row, path) if row.status == "failed" else None,
            message=row.message,
            returned=len(row.retrieved_docs),
        )


def _failure(row: QueryRow, path: Path) -> FailureKind:
    try:
        return FailureKind(row.failure)
    except ValueError:
        raise RunError(
            f"{path}: query {row.query_id!r} failed with an unknown kind; {_REMEDY}"
        ) from None


def _whole_numbers(value: Any) -> Any:
    """5.0 as 5, as it was before A2A carried it. Beyond 2**53 a double may be any of several."""
    if isinstance(value, dict):
        return {key: _whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(each) for each in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) <= 2**53
    return int(value) if whole else value


def _folder_name(name: object, number: int) -> str:
    """The run's own name where the report has it: it becomes the name of a folder."""
    usable = isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]{0,120}", name)
    return f"{number:03d}-{name}" if usable else f"{number:03d}"

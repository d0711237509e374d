"""Merge the shards of one evaluation, runs or submissions: the result equals a run without shards.

The calls of all shards are written into a new run in the order of the undivided plan and scored
from there, so every figure equals the undivided run's to the last digit.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from assay.data.dataset import Dataset, Query
from assay.errors import AgentFailure, FailureKind, RunError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.plan import target_record
from assay.evaluation.run import Run
from assay.files import make_private_folder, read_file, staging_folder
from assay.llm.passages import Passage
from assay.net.json import JsonObject, parse_json
from assay.run.calls import Call, CallLog, CallWriter
from assay.run.config import RunConfig
from assay.run.folder import RunFolder, create_run
from assay.run.models import FORMAT, QueryRow, Report, RunHeader
from assay.run.settings import require_same
from assay.run.state import RunState
from assay.targets.protocol import AgentAnswer, AgentInfo


def merged_config(shards: Sequence[RunFolder], target: str | None = None) -> RunConfig:
    """The settings of the undivided run. Raise `RunError` where the runs are not its shards.

    `target` names the agent where the shards were evaluated at different addresses.
    """
    configs = [shard.read_config() for shard in shards]
    _refuse_unfinished(shards)
    _refuse_different(shards, configs)
    _refuse_gaps(shards, configs)
    targets = sorted({config.target for config in configs})
    if target is None and len(targets) > 1:
        raise RunError(
            f"the runs are of different targets: {', '.join(map(repr, targets))}; "
            "if this is one agent at several URLs, pass --target NAME"
        )
    return replace(configs[0], target=target or targets[0], shard_index=0, num_shards=1)


async def merge(shards: Sequence[RunFolder], config: RunConfig, dataset: Dataset, out: Path) -> Run:
    """Write the merged run under `out`, all or nothing; `config` is that of `merged_config`."""
    shards = sorted(shards, key=lambda shard: shard.read_config().shard_index)
    header = shards[0].read_header()
    if header.dataset.fingerprint != dataset.fingerprint:
        raise RunError(
            f"run {shards[0].name!r} was made on a different version of {config.dataset!r}; "
            "merge with the data it was made on"
        )
    evaluation = Evaluation.plan(config, dataset)
    agent = _NoAgent(header, len(shards))
    try:
        with staging_folder(out / "merge") as staging:
            folder = create_run(
                staging,
                config,
                dataset,
                target_record(agent.info, config.target_name),
                track=agent.info.track,
                references=dataset.references_fingerprint if config.answers else None,
            )
            _note_origin(folder, shards)
            _write_calls(folder, shards, evaluation.asks)
            merged = await evaluation.resume(agent, folder)
            return replace(merged, folder=RunFolder(folder.path.rename(out / folder.name)))
    except (OSError, RunError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise RunError(
            f"cannot write the merged run under {out}: {cause.strerror}; the shards are as they "
            "were: free some disk space and merge again"
        ) from error


class _NoAgent:
    """A placeholder for the agent when all its calls have been made. Queries that a shard could not
    ask, because it lost the agent, are recorded as not asked."""

    def __init__(self, header: RunHeader, shards: int) -> None:
        self.info = AgentInfo(
            name=header.target.name,
            protocol=header.target.protocol,
            track=header.track,
            details=f"{header.target.details}; merged from {shards} shards".lstrip("; "),
            agent=header.target.agent,
        )

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        raise AgentFailure(FailureKind.CIRCUIT_OPEN, "the agent of this shard stopped responding")

    takes_context = True

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        return await self.ask(query, len(passages))


def _write_calls(folder: RunFolder, shards: Sequence[RunFolder], plan: Sequence[Query]) -> None:
    """Those of the run, and of the further questions in other contexts.

    Times are shifted as if the shards had run one after the other.
    """
    for name in sorted({path.name for shard in shards for path in shard.path.glob("calls*.jsonl")}):
        _write_log(folder.path / name, [shard.path / name for shard in shards], plan)


def _write_log(into: Path, parts: Sequence[Path], plan: Sequence[Query]) -> None:
    found = {}
    start = 0.0
    for part in parts:
        log = CallLog(part)
        for call in log.read(plan):
            if call is not None:
                found[call.key] = replace(call, at=start + call.at)
        start += log.elapsed
    with CallWriter(into) as writer:
        for query in plan:
            if (query.id, query.trial) in found:
                writer.append(found[query.id, query.trial])


def _note_origin(folder: RunFolder, shards: Sequence[RunFolder]) -> None:
    headers = [shard.read_header() for shard in shards]
    origin = {
        "started": min(each.started for each in headers),
        "merged_from": [shard.name for shard in shards],
        "git": headers[0].git,
        "machine": headers[0].machine,
    }
    folder.write_header(folder.read_header().model_copy(update=origin))


def _refuse_unfinished(shards: Sequence[RunFolder]) -> None:
    for shard in shards:
        state = shard.state()
        if state not in (RunState.COMPLETE, RunState.TARGET_LOST):
            raise RunError(
                f"run {shard.name!r} is {state}; finish it with: assay eval --resume {shard.path}"
            )


def _refuse_different(shards: Sequence[RunFolder], configs: Sequence[RunConfig]) -> None:
    names = [shard.name for shard in shards]
    require_same(dict(zip(names, configs, strict=True)))
    first, *others = (shard.read_header().dataset for shard in shards)
    for name, other in zip(names[1:], others, strict=True):
        if other.fingerprint != first.fingerprint:
            raise RunError(
                f"run {names[0]!r} is on {first.name} {first.fingerprint[:12]}, run {name!r} on "
                f"{other.name} {other.fingerprint[:12]}: different data, so not shards of one "
                "evaluation; run one of them again on the data of the other"
            )


def _refuse_gaps(shards: Sequence[RunFolder], configs: Sequence[RunConfig]) -> None:
    """Shards are counted from 1, as in `--shard I/N`."""
    wanted = configs[0].num_shards
    found: dict[int, str] = {}
    for shard, config in zip(shards, configs, strict=True):
        number = config.shard_index + 1
        if number in found:
            raise RunError(
                f"{found[number]!r} and {shard.name!r} are both shard {number} of {wanted}; pass "
                "one of them"
            )
        found[number] = shard.name
    missing = [str(number) for number in range(1, wanted + 1) if number not in found]
    if missing:
        raise RunError(
            f"missing shards of {wanted}: {', '.join(missing)}; evaluate each with: assay eval "
            f"--shard {missing[0]}/{wanted}"
        )


ROLE = "retrieval_agent"
"""What the agent under test is called among the participants of a benchmark."""

RESULT_MAX_BYTES = 1_000_000_000
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
    complete = all(shard.state() == RunState.COMPLETE for shard in shards)
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
        document = _whole_numbers(parse_json(read_file(path, limit=RESULT_MAX_BYTES)))
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
        raise RunError(f"{path} is the result of a failed assessment; leave it out, or repeat it")
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
            f"{path}: query {row.query_id!r} has an unknown kind of failure, {row.failure!r:.80}; "
            f"{_REMEDY}"
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

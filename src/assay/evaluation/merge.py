"""The shards of one evaluation: run on a Ray cluster, and merged into one run.

run = await merge(shards, merged_config(shards), dataset, Path("runs"))

The calls of all shards are scored in the order of the undivided plan, so every figure equals the
undivided run's to the last digit.
"""

import asyncio
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

from assay.data.dataset import Dataset, Query
from assay.errors import AgentFailure, AssayError, FailureKind, RunError, TargetError
from assay.evaluation.evaluation import Events, compare_run, plan_evaluation, run_evaluation
from assay.evaluation.plan import target_record
from assay.evaluation.run import Run
from assay.files import staging_folder
from assay.llm.passages import Passage
from assay.net.json import JsonObject
from assay.ray_cluster import RayCluster
from assay.run.calls import CallLog, CallWriter
from assay.run.config import RunConfig, require_same
from assay.run.folder import RunFolder, create_run
from assay.run.models import RunHeader, RunState
from assay.targets.protocol import AgentAnswer, AgentInfo

# What the agent under test is called among the participants of an AgentBeats benchmark.
ROLE = "retrieval_agent"


def merged_config(shards: Sequence[RunFolder], target: str | None = None) -> RunConfig:
    """The settings of the undivided run. Raises `RunError` if the runs are not its shards.

    `target` names the agent if the shards were evaluated at different addresses.
    """
    for shard in shards:
        if (state := shard.state()) not in (RunState.COMPLETE, RunState.TARGET_LOST):
            raise RunError(
                f"run {shard.name!r} is {state}; finish it with: assay eval --resume {shard.path}"
            )
    headers = {shard.name: shard.read_header() for shard in shards}
    require_same({name: header.config for name, header in headers.items()})
    first, *others = headers
    for name in others:
        if headers[name].dataset.fingerprint != headers[first].dataset.fingerprint:
            raise RunError(f"runs {first!r} and {name!r} are on different data")
    config = headers[first].config
    # As in `--shard I/N`
    numbers = sorted(header.config.shard_index + 1 for header in headers.values())
    if len(headers) < len(shards) or numbers != list(range(1, config.num_shards + 1)):
        raise RunError(
            f"merging takes each of shards 1 to {config.num_shards} once, got "
            f"{', '.join(map(str, numbers))}; evaluate a missing one with: assay eval --shard "
            f"I/{config.num_shards}"
        )
    targets = sorted({header.config.target for header in headers.values()})
    if target is None and len(targets) > 1:
        raise RunError(
            f"the runs are of different targets: {', '.join(map(repr, targets))}; "
            "if this is one agent at several URLs, pass --target NAME"
        )
    return replace(config, target=target or targets[0], shard_index=0, num_shards=1)


async def merge(
    shards: Sequence[RunFolder],
    config: RunConfig,
    dataset: Dataset,
    out: Path,
    events: Events | None = None,
) -> Run:
    """Write the merged run under `out`, all or nothing; `config` is that of `merged_config`.

    Its gates and comparisons are those of a run that was never divided.
    """
    events = events or Events()
    shards = sorted(shards, key=lambda shard: shard.read_config().shard_index)
    headers = [shard.read_header() for shard in shards]
    if headers[0].dataset.fingerprint != dataset.fingerprint:
        raise RunError(
            f"run {shards[0].name!r} was made on a different version of {config.dataset!r}; "
            "merge with the data it was made on"
        )
    plan = plan_evaluation(config, dataset, out, events)
    agent = _NoAgent(headers[0], len(shards))
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
            origin = {
                "started": min(each.started for each in headers),
                "merged_from": [shard.name for shard in shards],
                "git": headers[0].git,
                "machine": headers[0].machine,
            }
            folder.write_header(folder.read_header().model_copy(update=origin))
            # Those of the run, and those of further questions in other contexts.
            for name in {path.name for shard in shards for path in shard.path.glob("calls*.jsonl")}:
                _write_log(folder.path / name, [shard.path / name for shard in shards], plan.asks)
            merged = await plan.resume(agent, folder)
            merged = replace(merged, folder=RunFolder(folder.path.rename(out / folder.name)))
    except (OSError, RunError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise RunError(
            f"cannot write the merged run under {out}: {cause.strerror}; the shards are as they "
            "were: free some disk space and merge again"
        ) from error
    return await compare_run(plan, merged, out, events=events)


class _NoAgent:
    """Stands for the agent when all its calls have been made.

    What a shard could not ask, because it lost the agent, is recorded as not asked.
    """

    takes_context = True

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

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        return await self.ask(query, len(passages))


def _write_log(into: Path, parts: Sequence[Path], plan: Sequence[Query]) -> None:
    """Times are shifted as if the shards had run one after the other."""
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


def submission_of(shards: Sequence[RunFolder], agent_id: str | None = None) -> JsonObject:
    """AgentBeats' result file for the shards of one evaluation, or for an undivided run.

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


def evaluate_on_cluster(
    config: RunConfig,
    dataset: Dataset,
    shards: int,
    cluster: RayCluster,
    out: Path,
    events: Events | None = None,
) -> Run:
    """Evaluate every shard on some node, and merge them into one run under `out`.

    The shards are kept under `out` as well. Raises `RunError` if one of them failed, with the
    command that makes up for it; those that are complete need not be made again.
    """
    events = events or Events()
    plan = plan_evaluation(config, dataset, out, Events())  # a wrong gate is an error at once
    shards = min(shards, len(plan.queries))
    undivided = {"gates": (), "compare_to": "", "baseline": ""}
    parts = [
        config.with_changes(shard_index=index, num_shards=shards, **undivided)
        for index in range(shards)
    ]
    remedy = f"run each missing shard with --shard I/{shards}, then join all with: assay merge"
    done: dict[int, RunFolder] = {}
    failed: dict[int, str] = {}  # those that failed by themselves come before lost ones
    try:
        shared = cluster.share(dataset)
        for place, result in cluster.map(run_shard, [(part, shared) for part in parts]):
            if isinstance(result, AssayError):
                failed[place] = str(result)
            else:
                with ZipFile(io.BytesIO(result)) as archive:
                    run = RunFolder(out / Path(archive.namelist()[0]).parts[0])
                    archive.extractall(out)  # which writes nothing outside of it, and no links
                if (state := run.read_report().state) == RunState.COMPLETE:
                    done[place] = run
                else:
                    failed[place] = f"it is {state}"
            events.progress("shards on Ray", len(done) + len(failed), shards)
    except TargetError as error:  # the cluster itself is gone: what is here need not be done again
        failed |= {one: str(error) for one in range(shards) if one not in done | failed}
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; {remedy}") from None
    if failed:
        shard, why = next(iter(failed.items()))
        raise RunError(
            f"{len(failed)} of {shards} shards failed; shard {shard + 1}: {why}; {remedy}"
        )
    return asyncio.run(merge([done[place] for place in sorted(done)], config, dataset, out, events))


def run_shard(config: RunConfig, dataset: Dataset) -> bytes:
    """On a worker: an ordinary run in a temporary folder, which is returned as a zip file."""
    with TemporaryDirectory(prefix="assay-ray-") as folder:
        run = asyncio.run(run_evaluation(config, dataset, out=Path(folder)))
        packed = io.BytesIO()
        with ZipFile(packed, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(run.folder.path.rglob("*")):
                archive.write(path, path.relative_to(run.folder.path.parent))
        return packed.getvalue()

"""Merge the shards of one evaluation: the result equals a run without shards.

config = merged_config(shards)
run = await merge(shards, config, dataset, Path("runs"))

The calls of all shards are written into a new run in the order of the undivided plan and scored
from there, so every figure equals the undivided run's to the last digit.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay.data.dataset import Dataset, Query
from assay.errors import AgentFailure, FailureKind, RunError
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.plan import target_record
from assay.evaluation.run import Run
from assay.files import staging_folder
from assay.llm.passages import Passage
from assay.run.calls import CallLog, CallWriter
from assay.run.config import RunConfig
from assay.run.folder import RunFolder, create_run
from assay.run.models import RunHeader
from assay.run.settings import require_same
from assay.run.state import RunState
from assay.targets.protocol import AgentAnswer, AgentInfo


def merged_config(shards: Sequence[RunFolder], target: str | None = None) -> RunConfig:
    """The settings of the undivided run. Raises `RunError` if the runs are not its shards.

    `target` names the agent if the shards were evaluated at different addresses.
    """
    for shard in shards:
        if (state := shard.state()) not in (RunState.COMPLETE, RunState.TARGET_LOST):
            raise RunError(
                f"run {shard.name!r} is {state}; finish it with: assay eval --resume {shard.path}"
            )
    headers = [shard.read_header() for shard in shards]
    names = [shard.name for shard in shards]
    configs = [header.config for header in headers]
    require_same(dict(zip(names, configs, strict=True)))
    first = headers[0].dataset
    for name, header in zip(names, headers, strict=True):
        if header.dataset.fingerprint != first.fingerprint:
            raise RunError(f"runs {names[0]!r} and {name!r} are on different data")
    wanted = configs[0].num_shards
    found: dict[int, str] = {}
    for name, config in zip(names, configs, strict=True):
        number = config.shard_index + 1  # as in `--shard I/N`
        if number in found:
            raise RunError(f"{found[number]!r} and {name!r} are both shard {number}; pass one")
        found[number] = name
    missing = [str(number) for number in range(1, wanted + 1) if number not in found]
    if missing:
        raise RunError(
            f"missing shards of {wanted}: {', '.join(missing)}; evaluate each with: assay eval "
            f"--shard {missing[0]}/{wanted}"
        )
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
    headers = [shard.read_header() for shard in shards]
    if headers[0].dataset.fingerprint != dataset.fingerprint:
        raise RunError(
            f"run {shards[0].name!r} was made on a different version of {config.dataset!r}; "
            "merge with the data it was made on"
        )
    evaluation = Evaluation.plan(config, dataset)
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
                parts = [shard.path / name for shard in shards]
                _write_log(folder.path / name, parts, evaluation.asks)
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

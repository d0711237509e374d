"""`--engine ray`: the shards of a run, or the runs of a bench, on all nodes of a Ray cluster.

A worker makes an ordinary run in a temporary folder and sends the folder back: what comes out is
what `assay eval --shard I/N` and `assay merge` make on several machines.
"""

import asyncio
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

from assay.data.dataset import Dataset
from assay.errors import AssayError, RunError, TargetError, UsageError
from assay.evaluation.evaluation import Evaluation, run_evaluation
from assay.evaluation.merge import merge, merged_config
from assay.evaluation.plan import draw_queries
from assay.evaluation.run import Run
from assay.progress import Progress, silent
from assay.ray_cluster import RayCluster
from assay.run.config import RunConfig
from assay.run.folder import RunFolder
from assay.run.models import RunState


def evaluate_on_cluster(
    evaluation: Evaluation, shards: int, cluster: RayCluster, out: Path, progress: Progress = silent
) -> Run:
    """Evaluate every shard on some node, and merge them into one run under `out`.

    The shards are kept under `out` as well. Raises `RunError` if one of them failed, with the
    command that makes up for it; those that are complete need not be made again.
    """
    config, dataset = evaluation.config, evaluation.dataset
    parts = [
        config.with_changes(
            shard_index=index, num_shards=shards, gates=(), compare_to="", baseline=""
        )
        for index in range(shards)
    ]
    sizes = [len(draw_queries(dataset, part)) for part in parts]
    folders: dict[int, RunFolder] = {}
    failed: dict[int, str] = {}
    done = 0
    try:
        for place, result in run_on_cluster(parts, dataset, cluster, out):
            if isinstance(result, AssayError):
                failed[place] = str(result)
                continue
            state = result.read_report().state
            if state == RunState.COMPLETE:
                folders[place] = result
            else:
                failed[place] = f"it is {state}"
            done += sizes[place]
            progress(f"{shards} shards on Ray", done, sum(sizes))
    except TargetError as error:  # the cluster itself is gone: what is here need not be done again
        failed |= {one: str(error) for one in range(shards) if one not in folders | failed}
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted. {_remedy(shards, folders)}") from None
    if failed:
        first = next(iter(failed))  # those that failed by themselves come before lost ones
        raise RunError(
            f"{len(failed)} of {shards} shards failed; shard {first + 1}: {failed[first]}. "
            f"{_remedy(shards, folders)}"
        )
    runs = [folders[place] for place in sorted(folders)]
    whole = replace(
        merged_config(runs),
        gates=config.gates,
        compare_to=config.compare_to,
        allow_first_run=config.allow_first_run,
    )
    return asyncio.run(merge(runs, whole, dataset, out))


def _remedy(shards: int, complete: Mapping[int, RunFolder]) -> str:
    """How the shards that are not complete are made up for."""
    if not complete:
        return "No shard is complete: repeat the command"
    again = ", ".join(str(one + 1) for one in range(shards) if one not in complete)
    folders = " ".join(str(complete[one]) for one in sorted(complete))
    run_again = f"Run each of {again} again with --shard I/{shards}, then " if again else ""
    return f"{run_again}join them with those that are complete: assay merge {folders}"


def worker_environment() -> dict[str, str]:
    """Variables with which a worker finds a `python:` target where this process does."""
    known = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(Path.cwd()), known)))}


def run_on_cluster(
    configs: Sequence[RunConfig], dataset: Dataset, cluster: RayCluster, out: Path
) -> Iterator[tuple[int, RunFolder | AssayError]]:
    """The run of each of the settings on the same data, as they are finished, under `out`."""
    for config in configs:
        _require_shared_index(config, cluster)
    shared = cluster.share(dataset)
    for place, result in cluster.map(_run, [(config, shared) for config in configs]):
        yield place, result if isinstance(result, AssayError) else _unpack(result, out)


def _require_shared_index(config: RunConfig, cluster: RayCluster) -> None:
    """Without a server, every node would embed all documents for its own index."""
    mode = config.target.removeprefix("builtin:").partition("#")[0]
    embeds = config.target.startswith("builtin:") and mode != "bm25"
    if embeds and not os.environ.get("QDRANT_URL") and cluster.nodes > 1:
        raise UsageError(
            f"{config.target} would embed the documents on each of {cluster.nodes} Ray nodes: set "
            "QDRANT_URL to a server that all of them reach, or leave out --engine"
        )


def _run(config: RunConfig, dataset: Dataset) -> bytes:
    """On a worker: the run's folder as a zip file."""
    with TemporaryDirectory(prefix="assay-ray-") as folder:
        run = asyncio.run(run_evaluation(config, dataset, out=Path(folder)))
        packed = io.BytesIO()
        with ZipFile(packed, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(run.folder.path.rglob("*")):
                archive.write(path, path.relative_to(run.folder.path.parent))
        return packed.getvalue()


def _unpack(packed: bytes, out: Path) -> RunFolder:
    out.mkdir(parents=True, exist_ok=True)
    with ZipFile(io.BytesIO(packed)) as archive:
        name = Path(archive.namelist()[0]).parts[0]
        archive.extractall(out)  # which writes nothing outside of it, and no links
    return RunFolder(out / name)

"""`assay bench` and `assay merge`: many targets and data sets in one table, shards in one run."""

import asyncio
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from assay.cli.console import evaluation_events, say
from assay.cli.eval import evaluation_result, run_in_terminal
from assay.cli.options import OUT_OPTION, choose_dataset
from assay.cli.verb import Result, argument, option
from assay.errors import UsageError
from assay.evaluation import bench as suites
from assay.evaluation.merge import merge as merge_shards
from assay.evaluation.merge import merged_config
from assay.privacy import private_mode
from assay.run.folder import RunFolder, find_run
from assay.run.models import RunState

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.evaluation.run import Run
    from assay.run.config import RunConfig


def bench(
    suite: str | None = argument(
        "SUITE",
        "A suite file (.toml), or a built-in suite: quick (bundled data) or beir (downloads data).",
        default=None,
    ),
    resume: str | None = option(
        None,
        "Finish this bench instead of starting a new one: its folder, its name or 'latest'.",
        metavar="BENCH",
    ),
    out: Path = OUT_OPTION,
) -> Result:
    """Evaluate every target of a suite on every data set.

    Exit codes: 0 success, 1 a gate failed, 2 usage or input error, 3 something could not be
    measured, 130 interrupted.
    """
    if (suite is None) == (resume is None):
        raise UsageError("name a suite, such as: assay bench quick; or --resume BENCH, not both")
    if resume:
        folder = suites.find_bench(resume, out)
        planned = suites.read_suite(folder / "suite.toml", folder.name.split("-bench-", 1)[-1])
    else:
        planned = suites.read_suite(suites.find_suite(suite or ""))
        folder = suites.create_bench(planned, out)

    @lru_cache(maxsize=1)  # all targets on one data set, then the next
    def load(name: str, columns: tuple[str, ...], private: bool) -> "Dataset":
        with private_mode(private):
            return choose_dataset(name, columns)

    def run_cell(config: "RunConfig", earlier: RunFolder | None) -> "Run":
        data = load(config.dataset, config.columns, config.private)
        return run_in_terminal(config, data, out=out, resume=earlier)[0]

    remedy = f"assay bench --resume {folder}"
    try:
        report = suites.run_suite(planned, folder, out, run_cell, say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted; continue with: {remedy}") from None
    notes = [f"results: {folder / 'bench.json'}"]
    exit_code = 0 if report.gates_passed else 1
    if any(cell.state == RunState.INTERRUPTED for cell in report.cells):
        exit_code = 130
    elif any(cell.state != RunState.COMPLETE or cell.mean is None for cell in report.cells):
        exit_code = 3
    if exit_code in (3, 130):
        notes.append(f"finish it with: {remedy}")
    table = suites.render_bench(report)
    return Result(report.model_dump(mode="json"), [table], exit_code, notes, wide=True)


def merge(
    runs: list[str] = argument(
        "RUN",
        "The run of each shard: its folder, its name or a prefix of its name; or all parts of "
        "an index that `assay index --shard` made.",
    ),
    out: Path = OUT_OPTION,
    dataset: str | None = option(
        None, "The data set, if it is not where the shards found it.", metavar="NAME|PATH"
    ),
    target: str | None = option(
        None, "The agent's name, if the shards were evaluated at different URLs.", metavar="NAME"
    ),
) -> Result:
    """Merge the shards of one evaluation into one run. Its figures are those of a run that was
    never split. Parts of an index are merged into the index.
    """
    folders = [Path(run) for run in runs]
    if any((folder / "part.json").is_file() for folder in folders):
        from assay.cli.search import merge_index_parts

        return merge_index_parts(folders, dataset)
    shards = [find_run(run, out) for run in runs]
    config = merged_config(shards, target)
    if dataset is not None:
        config = replace(config, dataset=dataset)
    with private_mode(config.private):
        data = choose_dataset(config.dataset, config.columns)
    with evaluation_events() as events:
        run = asyncio.run(merge_shards(shards, config, data, out, events))
    return evaluation_result(run)

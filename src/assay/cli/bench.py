"""`assay bench` and `assay merge`: many targets and data sets in one table, shards in one run."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from assay.cli.after_run import show_run
from assay.cli.console import print_json, say, show
from assay.cli.dataset_and_judge import Archive, choose_dataset
from assay.cli.evaluation_run import run_in_terminal
from assay.cli.index import merge_index_parts
from assay.cli.options import EngineOption, JsonOption, OutOption, option, switch
from assay.errors import AssayError, UsageError
from assay.privacy import private_mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.data.dataset import Dataset
    from assay.evaluation.bench import Suite, Workload
    from assay.evaluation.run import Run
    from assay.report.bench import BenchReport
    from assay.run.config import RunConfig
    from assay.run.folder import RunFolder


def bench_command(
    suite: Annotated[
        str | None,
        typer.Argument(
            help="A suite file (.toml), or a built-in suite: quick (bundled data) or beir "
            "(downloads data).",
            metavar="SUITE",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        option(
            "Finish this bench instead of starting a new one: its folder, its name or 'latest'.",
            metavar="BENCH",
        ),
    ] = None,
    dry_run: Annotated[bool, switch("--dry-run", "Only print what would be evaluated.")] = False,
    engine: EngineOption = None,
    archive: Archive = None,
    out: OutOption = Path("runs"),
    as_json: JsonOption = False,
) -> None:
    """Evaluate every target of a suite on every data set.

    Exit codes: 0 success, 1 a gate failed, 2 usage or input error, 3 something could not be
    measured, 130 interrupted.
    """
    from assay.evaluation.bench import (
        create_bench,
        estimate,
        find_bench,
        find_suite,
        read_suite,
        run_suite,
        runs_of,
    )
    from assay.files import atomic_write
    from assay.report.bench import render_bench, render_bench_page

    if (suite is None) == (resume is None):
        raise UsageError("name a suite, such as: assay bench quick; or --resume BENCH, not both")
    folder = find_bench(resume, out) if resume else None
    if folder is not None:
        planned = read_suite(folder / "suite.toml", folder.name.split("-bench-", 1)[-1])
    else:
        planned = read_suite(find_suite(suite or ""))

    def load(config: "RunConfig") -> "Dataset":
        given = archive if config.dataset == "nfcorpus" else None
        with private_mode(config.private):
            return choose_dataset(config.dataset, given, config.columns)

    done = {} if folder is None else runs_of(folder.name, planned, out)
    say(_workload(estimate(planned, load, done), len(planned.cells)))
    if dry_run:
        return
    folder = folder or create_bench(planned, out)
    try:
        if engine:
            _run_on_cluster(planned, folder, out, load, engine)
        report = run_suite(
            planned,
            folder,
            out,
            load=load,
            run_cell=partial(_run_cell, out),
            say=say,
        )
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; continue with: assay bench --resume {folder}"
        ) from None
    page = folder / "bench.html"
    atomic_write(page, render_bench_page(report).encode())
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        show(render_bench(report), wide=True)
    say(f"page: {page}")
    raise typer.Exit(_exit_code(report, folder))


def _run_cell(
    out: Path, config: "RunConfig", data: "Dataset", earlier: "RunFolder | None"
) -> "Run":
    return run_in_terminal(config, data, out=out, resume=earlier)[0]


def _exit_code(report: "BenchReport", folder: Path) -> int:
    """That of a bench that has ended; says how to finish one that has not."""
    from assay.run.state import RunState

    if any(cell.state == RunState.INTERRUPTED for cell in report.cells):
        say(f"interrupted; continue with: assay bench --resume {folder}")
        return 130
    missing = [one for one in report.cells if one.state != RunState.COMPLETE or one.mean is None]
    if missing:
        if not all(one.not_tuned for one in missing):
            say(f"finish it with: assay bench --resume {folder}")
        return 3
    return 0 if report.gates_passed else 1


def _run_on_cluster(
    suite: "Suite",
    folder: Path,
    out: Path,
    load: "Callable[[RunConfig], Dataset]",
    engine: str,
) -> None:
    """Make the runs that are missing, as many at once as the cluster has CPUs."""
    from assay.evaluation.bench import missing_cells
    from assay.evaluation.ray_shards import run_on_cluster, worker_environment
    from assay.ray_cluster import RayCluster

    private = any(cell.config.private for cell in suite.cells)
    with private_mode(private), RayCluster(engine, worker_environment()) as cluster:
        for dataset, cells in missing_cells(folder.name, suite, out):
            try:
                data = load(cells[0].config)
            except AssayError:
                continue  # told with the others, when the results are collected
            configs = [cell.config for cell in cells]
            for place, result in run_on_cluster(configs, data, cluster, out):
                words = result if isinstance(result, AssayError) else "done"
                say(f"{cells[place].system} on {dataset}: {words}")


def _workload(work: "Workload", cells: int) -> str:
    from assay.report.numbers import dollars

    done = cells - work.runs
    words = f"{work.runs} runs to make, {work.queries:,} queries to ask"
    if done and not work.unavailable:
        words += f"; {done} runs are there"
    if work.judge_calls:
        cost = work.judge_cost
        price = "at a price that is not known" if cost is None else f"about {dollars(cost)}"
        words += f"; about {work.judge_calls:,} calls to the judge, {price}"
    for name, reason in work.unavailable.items():
        words += f"\n{name} cannot be loaded: {reason}"
    return words


def merge_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The run of each shard: its folder, its name or a prefix of its name; or a "
            "result file of AgentBeats; or all parts of an index that `assay index --shard` made.",
            metavar="RUN",
        ),
    ],
    out: Annotated[
        Path,
        option(
            "Folder of the runs; the merged run is written there too.",
            "ASSAY_OUT",
            "DIR",
            "--runs",
            "--out",
        ),
    ] = Path("runs"),
    dataset: Annotated[
        str | None,
        option("The data set, if it is not where the shards found it.", metavar="NAME|PATH"),
    ] = None,
    archive: Archive = None,
    target: Annotated[
        str | None,
        option("The agent's name, if the shards were evaluated at different URLs.", metavar="NAME"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Merge the shards of one evaluation into one run. Its figures are those of a run that was
    never split. Parts of an index are merged into the index.
    """
    folders = [Path(run) for run in runs]
    if any((folder / "part.json").is_file() for folder in folders):
        merge_index_parts(folders, dataset, archive, as_json)
        return
    from assay.evaluation.merge import merge as merge_shards
    from assay.evaluation.merge import merged_config, runs_in_results
    from assay.run.folder import find_run

    with TemporaryDirectory(prefix="assay-merge-") as unpacked:
        shards = []
        for place, run in enumerate(runs):
            if Path(run).is_file():
                shards += runs_in_results(Path(run), Path(unpacked) / str(place))
            else:
                shards.append(find_run(run, out))
        config = merged_config(shards, target)
        if dataset is not None:
            config = replace(config, dataset=dataset)
        with private_mode(config.private):
            data = choose_dataset(config.dataset, archive, config.columns)
        merged = asyncio.run(merge_shards(shards, config, data, out))
    show_run(merged, as_json)

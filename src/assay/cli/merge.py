"""`assay merge`: the shards of one evaluation as one run."""

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.eval import Archive, choose_dataset, show_run


def merge(
    runs: Annotated[
        list[str],
        typer.Argument(help="The run of each shard: its folder, its name or a prefix of its name."),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the runs; the merged run is written there too.", envvar="ASSAY_OUT"
        ),
    ] = Path("runs"),
    dataset: Annotated[
        str | None,
        typer.Option(
            help="The data set, if it is not where the shards found it.",
            metavar="NAME|PATH",
        ),
    ] = None,
    archive: Archive = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="The agent's name, if the shards were evaluated at different URLs.",
            metavar="NAME",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Merge the shards of one evaluation into one run. Its figures are those of a run that was
    never split."""
    import asyncio
    from dataclasses import replace

    from assay.evaluation.merge import merge as merge_shards
    from assay.evaluation.merge import merged_config
    from assay.run.folder import find_run

    shards = [find_run(run, out) for run in runs]
    config = merged_config(shards, target)
    if dataset is not None:
        config = replace(config, dataset=dataset)
    data = choose_dataset(config.dataset, archive)
    show_run(asyncio.run(merge_shards(shards, config, data, out)), as_json)

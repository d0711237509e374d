"""`assay merge`: the shards of one evaluation as one run."""

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.eval import Archive, choose_dataset, show_run


def merge(
    runs: Annotated[
        list[str],
        typer.Argument(help="The run of every shard: its folder, its name or the start of one."),
    ],
    out: Annotated[
        Path,
        typer.Option(help="Where run folders are, and the merged run goes.", envvar="ASSAY_OUT"),
    ] = Path("runs"),
    dataset: Annotated[
        str | None,
        typer.Option(
            help="The data set, where it is not where the shards found it.",
            metavar="NAME|PATH",
        ),
    ] = None,
    archive: Archive = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="The agent's name, where the shards were evaluated at several addresses.",
            metavar="NAME",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Put the shards of one evaluation together; its figures are those of the undivided run."""
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

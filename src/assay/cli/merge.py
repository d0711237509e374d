"""`assay merge`: the shards of one evaluation as one run."""

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.console import show
from assay.cli.evaluating import choose_dataset, print_report


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
    archive: Annotated[
        Path | None,
        typer.Option(
            help="nfcorpus.zip, where it is not to be downloaded. [env var: NFCORPUS_ARCHIVE]",
            metavar="FILE",
        ),
    ] = None,
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
    from assay.evaluation.run_folder import find_run
    from assay.report.terminal import plain_text, render_report

    shards = [find_run(run, out) for run in runs]
    config = merged_config(shards, target)
    if dataset is not None:
        config = replace(config, dataset=dataset)
    data = choose_dataset(config.dataset, archive)
    outcome = asyncio.run(merge_shards(shards, config, data, out))
    table = render_report(outcome.head, path=str(outcome.folder.path))
    outcome.folder.summary.write_text(plain_text(table), encoding="utf-8")
    if as_json:
        print_report(outcome.folder)
    else:
        show(table)

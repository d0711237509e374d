"""`assay merge` and `assay submission`: the shards of one evaluation as one run, or as one file."""

from pathlib import Path
from typing import Annotated

import typer

from assay.cli.after_run import show_run
from assay.cli.eval import Archive, choose_dataset
from assay.cli.options import RunsOption
from assay.errors import UsageError
from assay.privacy import private_mode


def merge_command(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The run of each shard: its folder, its name or a prefix of its name; or a "
            "result file of AgentBeats; or all parts of an index that `assay index --shard` made."
        ),
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
    never split. Parts of an index become the index.
    """
    folders = [Path(run) for run in runs]
    if any((folder / "part.json").is_file() for folder in folders):
        from assay.cli.index import merge_index_parts

        merge_index_parts(folders, dataset, archive, as_json)
        return
    import asyncio
    from dataclasses import replace
    from tempfile import TemporaryDirectory

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


def submission(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="The run, or the run of each shard: its folder, its name or a prefix of its name."
        ),
    ],
    agent: Annotated[
        str | None,
        typer.Option(
            help="The agent's id on the platform. Default: the name in its card.",
            envvar="AGENTBEATS_AGENT_ID",
            metavar="ID",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write to this file instead of stdout.", metavar="FILE"),
    ] = None,
    folder: RunsOption = Path("runs"),
) -> None:
    """Write a run as a result file of AgentBeats. Its leaderboards read such files; see
    docs/leaderboard.md."""
    import sys

    import orjson

    from assay.cli.console import say
    from assay.evaluation.merge import submission_of
    from assay.files import atomic_write
    from assay.run.folder import find_run

    document = submission_of([find_run(run, folder) for run in runs], agent)
    content = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if document["status"] != "completed":
        say("warning: not every query was asked, so the submission is partial")
    if out is None:
        sys.stdout.buffer.write(content)
        return
    try:
        atomic_write(out, content)
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}") from None
    say(f"wrote {out}")

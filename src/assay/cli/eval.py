"""`assay eval`: send a data set's queries to an agent and report how good its answers are."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.after_run import (
    Html,
    Junit,
    Markdown,
    errors_in_ci_files,
    print_run,
    say_where,
    write_ci_files,
)
from assay.cli.console import evaluation_events, say
from assay.cli.dataset_and_judge import Archive, choose_dataset, judge_spec
from assay.cli.evaluation_run import run_in_terminal
from assay.cli.options import (
    EngineOption,
    is_on_command_line,
    option,
    read_values,
    switch,
    use_named_target,
    with_options,
)
from assay.errors import UsageError
from assay.privacy import private_mode
from assay.run.config import RunConfig, without_unneeded
from assay.run.settings import command_settings, parse_shard, resumed, settings
from assay.targets.opening import (
    DEFAULT_ANSWERING_TARGET,
    DEFAULT_TARGET,
    parse_target,
    targets_help,
)
from assay.targets.target_kinds import TARGET_KINDS

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.evaluation.run import Run
    from assay.run.folder import RunFolder


@with_options(command_settings(), conditions=True)
def eval_command(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            help=f"The agent under test: {targets_help()}. Default: the reference "
            f"agent over A2A ({DEFAULT_TARGET}), or with --answers {DEFAULT_ANSWERING_TARGET}.",
            envvar="ASSAY_TARGET",
            metavar="TARGET",
        ),
    ] = None,
    archive: Archive = None,
    out: Annotated[
        Path,
        option(
            "Folder of the runs.", "ASSAY_OUT", "DIR", "--runs", "--out", rich_help_panel="Output"
        ),
    ] = Path("runs"),
    resume: Annotated[
        str | None,
        option(
            "Finish this run instead of starting a new one: its folder, its name or 'latest'.",
            metavar="RUN",
            rich_help_panel="Usual options",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        option(
            "Ask only this part of the queries, such as 2/4, on one of several machines; "
            "`assay merge` joins the runs.",
            "ASSAY_SHARD",
            "I/N",
            rich_help_panel="Data",
        ),
    ] = None,
    shards: Annotated[
        int | None,
        option(
            "With --engine: in how many shards to evaluate. Default: one for each CPU.",
            metavar="N",
            min=1,
            rich_help_panel="Data",
        ),
    ] = None,
    engine: EngineOption = None,
    junit: Junit = None,
    markdown: Markdown = None,
    html: Html = None,
    listener: Annotated[
        list[str] | None,
        option(
            "Send the run to a listener: mlflow, otel, a name that a package registers, or "
            "module:Class. Repeatable.",
            "ASSAY_LISTENER",
            "NAME",
            rich_help_panel="Output",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        switch("--json", "Print the report as JSON on stdout.", rich_help_panel="Usual options"),
    ] = False,
    **options: Any,
) -> None:
    """Evaluate an agent: send it queries, score what it returns.

    Exit codes: 0 success, 1 a gate failed, 2 usage or input error, 3 the target answered no query,
    the target or the judge could not be reached, 130 interrupted.
    """
    from assay.evaluation.plan import refuse_unused_settings
    from assay.run.folder import find_run

    folder = find_run(resume, out) if resume else None
    if folder is not None:
        if not is_on_command_line(context, "out"):  # its baseline and reference are beside it
            out = folder.path.parent
        config = _resumed_config(folder, context)
        context.with_resource(private_mode(config.private))
        if is_on_command_line(context, "shard"):
            _refuse_other_shard(config, shard or "")
        data = choose_dataset(config.dataset, archive, config.columns)
    else:
        named, target = target, use_named_target(context, target, options)
        config, data = _new_config(context, target, options, archive, shard)
        if named and named != target:
            config = replace(config, target_name=named)
    given = [each.name for each in command_settings() if is_on_command_line(context, each.param)]
    refuse_unused_settings(config, given, resumed=folder is not None)
    if shards and not engine:
        raise UsageError("--shards needs --engine ray; to run one shard here, use --shard I/N")
    if config.fail_on_regression and not (config.compare_to or config.baseline):
        raise UsageError("--fail-on-regression needs --compare-to or --baseline")
    with errors_in_ci_files(junit, markdown, html, config.target):
        if engine:
            run = _evaluate_on_cluster(config, data, out, folder, engine, shards, listener or ())
            finished = True
        else:
            run, finished = run_in_terminal(
                config,
                data,
                out=out,
                resume=folder,
                accept_other_agent=is_on_command_line(context, "target"),
                listeners=listener or (),
            )
    print_run(run, as_json)
    write_ci_files(run, junit, markdown, html)
    say_where(run)
    raise typer.Exit(run.exit_code if finished else 130)


def _new_config(
    context: typer.Context,
    target: str | None,
    options: dict[str, Any],
    archive: Path | None,
    shard: str | None,
) -> "tuple[RunConfig, Dataset]":
    # Before the data is read: a large corpus would otherwise be kept on the disk.
    context.with_resource(private_mode(options["private"]))
    built_in = not target or TARGET_KINDS[parse_target(target).kind].searches_dataset
    data = choose_dataset(options["dataset"], archive, options["columns"] or (), fallback=built_in)
    values = read_values(context, command_settings(), options)
    values["dataset"] = options["dataset"] or data.name
    values["judge"] = (
        judge_spec(options["judge"], options["max_cost"])
        if options["answers"] or options["judge"] or options["poison"]
        else ""
    )
    answers = options["answers"] or options["poison"]
    default = DEFAULT_ANSWERING_TARGET if answers else DEFAULT_TARGET
    given = {name: values[name] for name in values if _is_typed(context, name)}
    config = RunConfig(target=target or default, **without_unneeded(values) | given)
    if shard:
        index, count = parse_shard(shard)
        config = replace(config, shard_index=index, num_shards=count)
    return config, data


def _is_typed(context: typer.Context, name: str) -> bool:
    """Whether a setting is on the command line: a file or a variable may mean other runs."""
    return name in settings() and is_on_command_line(context, settings()[name].param)


def _refuse_other_shard(config: RunConfig, shard: str) -> None:
    if parse_shard(shard) != (config.shard_index, config.num_shards):
        own = f"{config.shard_index + 1}/{config.num_shards}"
        raise UsageError(
            f"--shard {shard} is not the shard of the run that is resumed, which is {own}; leave "
            "--shard out"
        )


def _resumed_config(folder: "RunFolder", context: typer.Context) -> RunConfig:
    """The run's own settings; its pace, gates and baseline may be changed, its questions not."""
    changes: dict[str, Any] = {}
    for setting in command_settings():
        if is_on_command_line(context, setting.param):
            value = context.params[setting.param]
            if value not in (None, []):
                changes[setting.name] = tuple(value) if setting.repeatable else value
    if is_on_command_line(context, "target"):
        changes["target"] = context.params["target"]
    if changes.get("judge"):
        changes["judge"] = judge_spec(changes["judge"])
    return resumed(folder.read_config(), changes, folder.name)


def _evaluate_on_cluster(
    config: RunConfig,
    dataset: "Dataset",
    out: Path,
    folder: "RunFolder | None",
    engine: str,
    shards: int | None,
    listeners: Sequence[str],
) -> "Run":
    import asyncio

    from assay.evaluation.driver import compare_run, plan_evaluation
    from assay.evaluation.listeners import RunListeners
    from assay.evaluation.ray_shards import evaluate_on_cluster, worker_environment
    from assay.ray_cluster import RayCluster

    if folder is not None or config.num_shards > 1:
        raise UsageError("--engine starts new runs; leave out --resume and --shard")
    with evaluation_events() as events, RunListeners(listeners, say) as following:
        plan = plan_evaluation(config, dataset, out, events=events)
        with RayCluster(engine, worker_environment()) as cluster:
            count = min(shards or cluster.cpus, len(plan.queries))
            run = evaluate_on_cluster(plan, count, cluster, out, events.progress)
        following.started(run.folder)
        run = asyncio.run(compare_run(plan, run, out, events=events))
        following.finished(run)
    return run

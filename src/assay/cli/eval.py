"""`assay eval`: send a data set's queries to an agent and report how good its answers are."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from assay.cli.console import evaluation_events, say, warn, write_output
from assay.cli.options import (
    ENGINE_OPTION,
    METRICS_OPTION,
    OUT_OPTION,
    choose_dataset,
    judge_spec,
    read_config,
    use_named_target,
)
from assay.cli.verb import Result, argument, is_on_command_line, option, with_settings
from assay.errors import AssayError, UsageError
from assay.net.json import parse_json
from assay.privacy import private_mode
from assay.run.config import RunConfig, command_settings, parse_shard, resumed
from assay.run.models import RunState
from assay.targets.target_kinds import (
    DEFAULT_ANSWERING_TARGET,
    DEFAULT_TARGET,
    TARGET_KINDS,
    parse_target,
    targets_help,
)

if TYPE_CHECKING:
    from assay.data.dataset import Dataset
    from assay.evaluation.run import Run
    from assay.run.folder import RunFolder

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_NAMES = [setting.name for setting in command_settings()]


@with_settings(_NAMES, grouped=True)
def evaluate(
    context: click.Context,
    target: str | None = argument(
        "TARGET",
        f"The agent under test: {targets_help()}. Default: the reference agent over A2A "
        f"({DEFAULT_TARGET}), or with --answers {DEFAULT_ANSWERING_TARGET}.",
        "ASSAY_TARGET",
        default=None,
    ),
    metrics: list[str] | None = METRICS_OPTION,
    out: Path = OUT_OPTION,
    resume: str | None = option(
        None, "Finish this run: a folder, a name or latest.", metavar="RUN", group="Usual options"
    ),
    shard: str | None = option(
        None,
        "Ask only this part of the queries, such as 2/4; with --engine: the number of parts.",
        "ASSAY_SHARD",
        "I/N",
        group="Data",
        usual=False,
    ),
    engine: str | None = ENGINE_OPTION,
    junit: Path | None = option(None, "Write gates as JUnit XML.", "ASSAY_JUNIT", group="Output"),
    markdown: Path | None = option(
        None,
        "Write a summary; to $GITHUB_STEP_SUMMARY, it is appended.",
        "ASSAY_MARKDOWN",
        group="Output",
        usual=False,
    ),
    listener: list[str] | None = option(
        None,
        "Send the run to otel, to a plug-in or to module:Class. Repeatable.",
        "ASSAY_LISTENER",
        "NAME",
        group="Output",
        usual=False,
    ),
    **options: Any,
) -> Result:
    """Evaluate an agent: send it queries, score what it returns.

    Exit codes: 0 success, 1 a gate failed, 2 usage or input error, 3 the target answered no query,
    the target or the judge could not be reached, 130 interrupted.
    """
    from assay.evaluation.plan import require_used_settings
    from assay.run.folder import find_run

    folder = find_run(resume, out) if resume else None
    if folder is not None:
        if not is_on_command_line(context, "out"):  # its baseline and reference are beside it
            out = folder.path.parent
        config = _resumed_config(folder, context)
        context.with_resource(private_mode(config.private))
        data = choose_dataset(config.dataset, config.columns)
    else:
        config, data = _new_config(context, target, options, None if engine else shard)
    given = [each.name for each in command_settings() if is_on_command_line(context, each.param)]
    require_used_settings(config, given, resumed=folder is not None)
    if engine and (folder is not None or (shard and not shard.isdecimal())):
        raise UsageError("--engine starts new runs: leave out --resume, and pass --shard N")
    finished = True
    try:
        if engine:
            run = _evaluate_on_cluster(config, data, out, int(shard or 0), listener or ())
        else:
            run, finished = run_in_terminal(
                config,
                data,
                out=out,
                resume=folder,
                accept_other_agent=is_on_command_line(context, "target"),
                listeners=listener or (),
            )
    except AssayError as error:
        # What an earlier run left there would be taken for the result of this one.
        _write_ci_files(junit, markdown, config.target, error)
        raise
    _write_ci_files(junit, markdown, config.target, run)
    return evaluation_result(run, metrics or (), finished)


def evaluate_stdin() -> NoReturn:
    """Carry out a run whose settings stdin has as JSON: how the web UI starts one."""
    given = parse_json(sys.stdin.buffer.read())
    config = RunConfig.from_json(given["config"])
    listeners = [name for name in os.environ.get("ASSAY_LISTENER", "").split(";") if name]
    with private_mode(config.private):
        data = choose_dataset(config.dataset, config.columns)
        out = Path(given["runs"])
        run, finished = run_in_terminal(config, data, out=out, listeners=listeners)
    result = evaluation_result(run, finished=finished)
    result.show(as_json=True)
    sys.exit(result.exit_code)


def _new_config(
    context: click.Context, named: str | None, options: dict[str, Any], shard: str | None
) -> "tuple[RunConfig, Dataset]":
    target = use_named_target(context, named, options)
    # Before the data is read: a large corpus would otherwise be kept on the disk.
    context.with_resource(private_mode(options["private"]))
    built_in = not target or TARGET_KINDS[parse_target(target).kind].searches_dataset
    data = choose_dataset(options["dataset"], options["columns"] or (), fallback=built_in)
    options["dataset"] = options["dataset"] or data.name
    answers = options["answers"] or options["poison"]
    asks_judge = answers or options["judge"]
    options["judge"] = judge_spec(options["judge"], options["judge_set"]) if asks_judge else ""
    default = DEFAULT_ANSWERING_TARGET if answers else DEFAULT_TARGET
    fixed: dict[str, Any] = {"target": target or default}
    if named and named != target:
        fixed["target_name"] = named
    if shard:
        fixed["shard_index"], fixed["num_shards"] = parse_shard(shard)
    return read_config(context, _NAMES, options, **fixed), data


def _resumed_config(folder: "RunFolder", context: click.Context) -> RunConfig:
    """The run's own settings; its pace, gates and baseline may be changed, its questions not."""
    changes: dict[str, Any] = {}
    for setting in command_settings():
        if is_on_command_line(context, setting.param):
            value = context.params[setting.param]
            changes[setting.name] = tuple(value) if setting.repeatable else value
    if is_on_command_line(context, "target"):
        changes["target"] = context.params["target"]
    if changes.get("judge"):
        changes["judge"] = judge_spec(changes["judge"])
    if is_on_command_line(context, "shard"):
        changes["shard_index"], changes["num_shards"] = parse_shard(context.params["shard"])
    return resumed(folder.read_config(), changes, folder.name)


def _evaluate_on_cluster(
    config: RunConfig,
    dataset: "Dataset",
    out: Path,
    shards: int,
    listeners: Sequence[str],
) -> "Run":
    from assay.evaluation.listeners import RunListeners
    from assay.evaluation.merge import evaluate_on_cluster
    from assay.ray_cluster import RayCluster

    with evaluation_events() as events, RunListeners(listeners, say) as following:
        with RayCluster() as cluster:
            count = shards or cluster.count("CPU")
            run = evaluate_on_cluster(config, dataset, count, cluster, out, events)
        following.started(run.folder)
        following.finished(run)
    return run


def run_in_terminal(config: RunConfig, dataset: "Dataset", **options: Any) -> "tuple[Run, bool]":
    """Evaluate with bars and signals; whether it came to its end. Options: `run_evaluation`."""
    from assay.evaluation.evaluation import run_evaluation

    async def run() -> "tuple[Run, bool]":
        with evaluation_events() as events:
            _stop_on_signals(events.stop)
            found = await run_evaluation(config, dataset, events=events, **options)
        return found, not events.stop.is_set()

    with _stdout_for_results_only():
        return asyncio.run(run())


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stop.is_set():  # a second Ctrl-C: stop at once
            # Not `sys.exit`, which waits for the threads of a target that hangs.
            os._exit(130)
        stop.set()

    numbers = [signal.SIGINT, signal.SIGTERM]
    hang_up = getattr(signal, "SIGHUP", None)  # the terminal was closed; Windows has none
    if hang_up is not None and signal.getsignal(hang_up) is not signal.SIG_IGN:  # nohup ignores it
        numbers.append(hang_up)
    for number in numbers:
        try:
            loop.add_signal_handler(number, end)
        except NotImplementedError:  # Windows: Ctrl-C arrives as KeyboardInterrupt
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(end))


@contextmanager
def _stdout_for_results_only() -> Iterator[None]:
    """What an agent, its libraries or its children print goes to stderr: `--json` stays JSON."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def _write_ci_files(
    junit: Path | None, markdown: Path | None, target: str, made: "Run | AssayError"
) -> None:
    """The files of a run, or of an evaluation that broke off without a report."""
    if junit is None and markdown is None:
        return
    from assay.report import ci

    if isinstance(made, AssayError):
        xml = ci.render_junit_error(target, str(made))
        text = ci.render_markdown_error(target, str(made))
    else:
        xml = ci.render_junit(made.report, made.name)
        text = ci.render_markdown(made.report, made.folder.read_header(), made.name)
    if junit is not None:
        write_output(junit, xml)
    if markdown is not None:
        shared = str(markdown) == os.environ.get(SUMMARY_VARIABLE)  # other steps write there too
        write_output(markdown, text.encode(), append=shared)


def evaluation_result(run: "Run", metrics: Sequence[str] = (), finished: bool = True) -> Result:
    """A run that has just ended: its tables, also kept in its folder, or its report as JSON."""
    from assay.evaluation.run import no_answers
    from assay.report.terminal import query_texts, render_report

    if words := no_answers(run):  # before tables and advice that all follow from it
        warn(words)
    path = str(run.folder)
    texts = query_texts(run.answers(), run.rows())
    render = partial(render_report, run.report, path=path, metrics=metrics, texts=texts)
    tables = render(gates=False)
    exit_code = run.exit_code if finished else 130
    return Result(run.folder.copy_report, [tables], exit_code, _notes(run))


def _notes(run: "Run") -> Iterator[str]:
    """The verdict of every gate, warnings, what is left to do, and how to see the run."""
    from assay.report.terminal import gate_verdict

    report = run.report
    for gate in report.gates:
        yield gate_verdict(gate, report)
    if not report.summary.successful_queries:
        yield "no query was answered: see the failures above"
    for words in report.warnings:
        yield f"warning: {words}"
    unjudged = report.answers.trouble if report.answers else None
    if unjudged:
        yield f"not all answers were judged: {unjudged}"
    if run.state != RunState.COMPLETE or unjudged:
        yield f"finish it with: assay eval --resume {run.folder}"
    if run.folder.page_file.is_file():  # not if it was interrupted before anything was scored
        parent = str(run.folder.path.parent)
        runs = "" if parent == "runs" else f" --runs {shlex.quote(parent)}"
        yield f"report: {run.folder.page_file}; all runs: assay serve ui{runs}"

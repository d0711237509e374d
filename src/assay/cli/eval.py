"""`assay eval`: send a data set's queries to an agent and report how good its answers are."""

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import click

from assay.cli.console import evaluation_events, print_json, say, show, warn, write_output
from assay.cli.options import (
    METRICS_HELP,
    EngineOption,
    choose_dataset,
    judge_spec,
    make_config,
    read_values,
    use_named_target,
)
from assay.cli.verb import argument, is_on_command_line, option, switch, with_settings
from assay.errors import AssayError, UsageError
from assay.net.json import parse_json
from assay.privacy import private_mode
from assay.run.config import RunConfig
from assay.run.settings import command_settings, parse_shard, resumed
from assay.run.state import RunState
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
    from assay.run.models import Report
    from assay.run.run_record import GateResult

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_NAMES = [setting.name for setting in command_settings()]


def _output(help: str, flag: str) -> Any:
    variable = f"ASSAY_{flag[2:].upper()}"
    return option(help, variable, "FILE", flag, group="Output", usual=flag == "--junit")


@with_settings(_NAMES, conditions=True)
def evaluate(
    context: click.Context,
    target: Annotated[
        str | None,
        argument(
            "TARGET",
            f"The agent under test: {targets_help()}. Default: the reference agent over A2A "
            f"({DEFAULT_TARGET}), or with --answers {DEFAULT_ANSWERING_TARGET}.",
            "ASSAY_TARGET",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        option(METRICS_HELP, "ASSAY_METRICS", "NAME,…|all", group="Usual options", separator=","),
    ] = None,
    out: Annotated[
        Path,
        option("Folder of the runs.", "ASSAY_OUT", "DIR", "--runs", "--out", group="Output"),
    ] = Path("runs"),
    resume: Annotated[
        str | None,
        option(
            "Finish this run instead of starting a new one: its folder, its name or 'latest'.",
            metavar="RUN",
            group="Usual options",
        ),
    ] = None,
    shard: Annotated[
        str | None,
        option(
            "Ask only this part of the queries, such as 2/4, on one of several machines; "
            "`assay merge` joins the runs. With --engine: the number of parts.",
            "ASSAY_SHARD",
            "I/N",
            group="Data",
            usual=False,
        ),
    ] = None,
    engine: EngineOption = None,
    junit: Annotated[
        Path | None, _output("Write the gates as JUnit XML, which CI shows as tests.", "--junit")
    ] = None,
    markdown: Annotated[
        Path | None,
        _output("Write a summary; it is appended to $GITHUB_STEP_SUMMARY.", "--markdown"),
    ] = None,
    html: Annotated[
        Path | None, _output("Write the report as one HTML file here too.", "--html")
    ] = None,
    listener: Annotated[
        list[str] | None,
        option(
            "Send the run to a listener: otel, a name that a package registers, or "
            "module:Class. Repeatable.",
            "ASSAY_LISTENER",
            "NAME",
            group="Output",
            usual=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, switch("--json", "Print the report as JSON on stdout.", group="Usual options")
    ] = False,
    **options: Any,
) -> None:
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
        if is_on_command_line(context, "shard"):
            _require_same_shard(config, shard or "")
        data = choose_dataset(config.dataset, config.columns)
    else:
        named, target = target, use_named_target(context, target, options)
        config, data = _new_config(context, target, options, None if engine else shard)
        if named and named != target:
            config = replace(config, target_name=named)
    given = [each.name for each in command_settings() if is_on_command_line(context, each.param)]
    require_used_settings(config, given, resumed=folder is not None)
    if config.fail_on_regression and not (config.compare_to or config.baseline):
        raise UsageError("--fail-on-regression needs --compare-to or --baseline")
    with _errors_in_ci_files(junit, markdown, html, config.target):
        if engine:
            run = _evaluate_on_cluster(config, data, out, folder, engine, shard, listener or ())
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
    _print_run(run, as_json, metrics or ())
    _write_ci_files(run, junit, markdown, html)
    _say_where(run)
    context.exit(run.exit_code if finished else 130)


def evaluate_stdin() -> NoReturn:
    """Carry out a run whose settings stdin has as JSON: how the web UI starts one."""
    given = parse_json(sys.stdin.buffer.read())
    config = RunConfig.from_json(given["config"])
    listeners = [name for name in os.environ.get("ASSAY_LISTENER", "").split(";") if name]
    with private_mode(config.private):
        data = choose_dataset(config.dataset, config.columns)
        out = Path(given["runs"])
        run, finished = run_in_terminal(config, data, out=out, listeners=listeners)
    _print_run(run, True, ())
    sys.exit(run.exit_code if finished else 130)


def _new_config(
    context: click.Context, target: str | None, options: dict[str, Any], shard: str | None
) -> "tuple[RunConfig, Dataset]":
    # Before the data is read: a large corpus would otherwise be kept on the disk.
    context.with_resource(private_mode(options["private"]))
    built_in = not target or TARGET_KINDS[parse_target(target).kind].searches_dataset
    data = choose_dataset(options["dataset"], options["columns"] or (), fallback=built_in)
    values = read_values(context, _NAMES, options)
    values["dataset"] = options["dataset"] or data.name
    answers = options["answers"] or options["poison"]
    asks_judge = answers or options["judge"]
    values["judge"] = judge_spec(options["judge"], options["max_cost"]) if asks_judge else ""
    default = DEFAULT_ANSWERING_TARGET if answers else DEFAULT_TARGET
    part = {}
    if shard:
        part = dict(zip(("shard_index", "num_shards"), parse_shard(shard), strict=True))
    return make_config(context, values, target=target or default, **part), data


def _require_same_shard(config: RunConfig, shard: str) -> None:
    if parse_shard(shard) != (config.shard_index, config.num_shards):
        own = f"{config.shard_index + 1}/{config.num_shards}"
        raise UsageError(
            f"--shard {shard} is not the shard of the run that is resumed, which is {own}; leave "
            "--shard out"
        )


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
    return resumed(folder.read_config(), changes, folder.name)


def _evaluate_on_cluster(
    config: RunConfig,
    dataset: "Dataset",
    out: Path,
    folder: "RunFolder | None",
    engine: str,
    shards: str | None,
    listeners: Sequence[str],
) -> "Run":
    from assay.evaluation.evaluation import compare_run, plan_evaluation
    from assay.evaluation.listeners import RunListeners
    from assay.evaluation.ray_shards import evaluate_on_cluster, worker_environment
    from assay.ray_cluster import RayCluster

    if folder is not None or (shards and not shards.isdecimal()):
        raise UsageError("--engine starts new runs: leave out --resume, and pass --shard N")
    with evaluation_events() as events, RunListeners(listeners, say) as following:
        plan = plan_evaluation(config, dataset, out, events=events)
        with RayCluster(engine, worker_environment()) as cluster:
            count = min(int(shards or 0) or cluster.cpus, len(plan.queries))
            run = evaluate_on_cluster(plan, count, cluster, out, events.progress)
        following.started(run.folder)
        run = asyncio.run(compare_run(plan, run, out, events=events))
        following.finished(run)
    return run


def run_in_terminal(config: RunConfig, dataset: "Dataset", **options: Any) -> "tuple[Run, bool]":
    """Evaluate with bars and signals; whether it came to its end. Options: `run_evaluation`."""
    with _stdout_for_results_only():
        return asyncio.run(_run(config, dataset, options))


async def _run(
    config: RunConfig, dataset: "Dataset", options: dict[str, Any]
) -> "tuple[Run, bool]":
    from assay.evaluation.evaluation import run_evaluation

    with evaluation_events() as events:
        _stop_on_signals(events.stop)
        run = await run_evaluation(config, dataset, events=events, **options)
    return run, not events.stop.is_set()


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        if stop.is_set():  # a second Ctrl-C: stop at once
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


@contextmanager
def _errors_in_ci_files(
    junit: Path | None, markdown: Path | None, html: Path | None, target: str
) -> Iterator[None]:
    """An evaluation that breaks off without a report is an error in the files for CI as well.

    What an earlier run left there would be taken for the result of this one.
    """
    try:
        yield
    except AssayError as error:
        from assay.report.ci import render_html_error, render_junit_error, render_markdown_error

        if junit is not None:
            _write_ci_file(junit, render_junit_error(target, str(error)))
        if markdown is not None:
            _write_ci_file(markdown, render_markdown_error(target, str(error)).encode())
        if html is not None:
            _write_ci_file(html, render_html_error(target, str(error)).encode())
        raise


def _write_ci_files(
    run: "Run", junit: Path | None, markdown: Path | None, html: Path | None
) -> None:
    from assay.files import read_file

    if html is not None and run.folder.page_file.is_file():
        _write_ci_file(html, read_file(run.folder.page_file))
    if junit is None and markdown is None:
        return
    from assay.report.ci import render_junit, render_markdown

    if junit is not None:
        _write_ci_file(junit, render_junit(run.report, run.name))
    if markdown is not None:
        text = render_markdown(run.report, run.folder.read_header(), run.name)
        _write_ci_file(markdown, text.encode())


def _write_ci_file(path: Path, content: bytes) -> None:
    shared = str(path) == os.environ.get(SUMMARY_VARIABLE)  # other steps of the job write there too
    write_output(path, content, append=shared)


def say_gates(gates: Iterable["GateResult"], report: "Report | None" = None) -> None:
    """The verdict of every gate on stderr, whatever stdout is used for.

    `report`: of the run that they were applied to, if there is one.
    """
    from assay.report.terminal import gate_verdict

    for gate in gates:
        say(gate_verdict(gate, report))


def show_run(run: "Run", as_json: bool, metrics: Sequence[str] = ()) -> None:
    """The run's tables, also kept in its folder; or its report as JSON."""
    from assay.report.terminal import plain_text, render_report

    report, path = run.report, str(run.folder)
    if not as_json:  # the gates are on stderr
        show(render_report(report, path=path, metrics=metrics, gates=False))
    elif sys.stdout.isatty():
        print_json(run.folder.read_json())
    else:
        run.folder.copy_report(sys.stdout.buffer)
    run.folder.write_summary(plain_text(render_report(report, path=path, metrics=metrics)))


def _print_run(run: "Run", as_json: bool, metrics: Sequence[str]) -> None:
    """The result on stdout; gates, warnings and what is left to do on stderr."""
    from assay.evaluation.run import no_answers

    if words := no_answers(run):  # before tables and advice that all follow from it
        warn(words)
    show_run(run, as_json, metrics)
    say_gates(run.report.gates, run.report)
    report = run.report
    if not report.summary.successful_queries:
        say("no query was answered: see the failures above")
    for words in report.warnings:
        warn(words)
    trouble = report.answers.trouble if report.answers else None
    if trouble:
        say(f"not all answers were judged: {trouble}")
    if run.state != RunState.COMPLETE or trouble:
        say(f"finish it with: assay eval --resume {run.folder}")


def _say_where(run: "Run") -> None:
    """One line that says how to see the run."""
    if not run.folder.page_file.is_file():  # interrupted before anything was scored
        return
    parent = run.folder.path.parent
    runs = "" if str(parent) == "runs" else f" --runs {shlex.quote(str(parent))}"
    say(f"report: {run.folder.page_file}; all runs: assay serve ui{runs}")

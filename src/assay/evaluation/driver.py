"""The one way to run an evaluation, from settings to a compared report.

    run = await run_evaluation(config, dataset, out=Path("runs"))
    run = await run_evaluation(config, dataset, out=out, events=Events(message=print))

The command line, `assay.evaluate`, the A2A evaluator, `assay bench` and the workers of a Ray
cluster all call it, so that references, baselines, gates, listeners and messages are the same.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from assay.data.dataset import Dataset
from assay.evaluation.compare_to import reference_note, regression_gate, with_reference
from assay.evaluation.evaluation import Evaluation, Events
from assay.evaluation.listeners import RunListener, RunListeners
from assay.evaluation.plan import baseline_track, open_agent
from assay.evaluation.reporting import write_report_page
from assay.evaluation.run import Run
from assay.run.comparison import ComparedRun, compare_reports
from assay.run.config import RunConfig
from assay.run.folder import RunFolder, list_runs
from assay.run.state import RunState
from assay.targets.protocol import Agent

if TYPE_CHECKING:
    from assay.llm.providers.provider import LLMProvider


async def run_evaluation(
    config: RunConfig,
    dataset: Dataset,
    *,
    out: Path,
    agent: Agent | None = None,
    baseline: Agent | None = None,
    resume: RunFolder | None = None,
    accept_other_agent: bool = False,
    provider: "LLMProvider | None" = None,
    listeners: Sequence[str | RunListener] = (),
    events: Events | None = None,
) -> Run:
    """Ask every query of the plan, write the report, and compare it with what the settings name.

    Parameters:
        config: the settings of the run.
        dataset: what `config.dataset` names.
        out: where run folders go.
        agent: asked in place of the target that `config` names.
        baseline: likewise, in place of the baseline.
        resume: the run to finish, instead of a new one.
        accept_other_agent: go on although the agent has another version than the run's.
        provider: judges answers, in place of the model that `config` names.
        listeners: are told when the run starts and ends.
        events: hears of the run while it goes on, and can stop it.

    Raises `AssayError` for whatever is wrong before the first query.
    """
    events = events or Events()
    plan = plan_evaluation(config, dataset, out, resume, provider, events)
    agent = agent or open_agent(config, dataset, events.progress)
    if config.baseline and baseline is None:  # a wrong one is reported before the run, not after it
        baseline = open_agent(_baseline_config(config), dataset, events.progress)
    with RunListeners(listeners, events.message) as following:

        def opened(folder: RunFolder) -> None:
            events.opened(folder)
            following.started(folder)

        heard = replace(events, opened=opened)
        if resume is None:
            run = await plan.start(agent, out, heard)
        else:
            run = await plan.resume(agent, resume, heard, accept_other_agent)
        run = await compare_run(plan, run, out, baseline=baseline, events=events)
        following.finished(run)
    return run


def plan_evaluation(
    config: RunConfig,
    dataset: Dataset,
    out: Path,
    resume: RunFolder | None = None,
    provider: "LLMProvider | None" = None,
    events: Events | None = None,
) -> Evaluation:
    """The queries, gates and reference of a run; says so if there is no reference yet."""
    plan = replace(Evaluation.plan(config, dataset), provider=provider)
    plan = with_reference(plan, out, resume)
    if events is not None and (note := reference_note(plan)):
        events.message(note)
    return plan


async def compare_run(
    plan: Evaluation,
    run: Run,
    out: Path,
    *,
    baseline: Agent | None = None,
    events: Events | None = None,
) -> Run:
    """The run with its comparison: with the earlier run of the plan, or with its baseline.

    A baseline that was run for it before is used, or finished; one that is interrupted leaves the
    run without a comparison, since a part of it would be compared with the whole.
    """
    events = events or Events()
    target = plan.config.baseline
    if run.state != RunState.COMPLETE or not (target or plan.reference):
        return run
    if (reference := plan.reference) is not None:
        if reference.problem:
            return run
        earlier = Run(reference.folder, reference.folder.read_report())
        return _write_comparison(run, earlier, plan.dataset, reference.skipped)
    second = replace(
        Evaluation.plan(_baseline_config(run.report.config, target), plan.dataset),
        baseline_of=run.name,
        provider=plan.provider,
    )
    baseline = baseline or open_agent(second.config, plan.dataset, events.progress)
    found = find_baseline(run, target, out)
    unopened = replace(events, opened=Events().opened)  # the run is told of, its baseline is not
    other = None
    try:
        if found is None:
            other = await second.start(baseline, out, unopened)
        else:
            other = await second.resume(baseline, found, unopened)
    except KeyboardInterrupt:  # before its first response
        if not events.stop.is_set():
            raise
    if other is None or other.state == RunState.INTERRUPTED:
        resume = f"assay eval --resume {run.folder}"
        events.message(f"the baseline was interrupted; compare with: {resume}")
        return run
    return _write_comparison(run, other, plan.dataset)


def find_baseline(run: Run, target: str, out: Path) -> RunFolder | None:
    """The run of that target that was made for `run` before, finished or not."""
    for folder in reversed(list(list_runs(out))):
        if folder.is_baseline():
            header = folder.read_header()
            if header.baseline_of == run.name and header.config.target == target:
                return folder
    return None


def _baseline_config(config: RunConfig, target: str = "") -> RunConfig:
    """The same queries and settings, without gates."""
    target = target or config.baseline
    track = baseline_track(config, target)
    return config.with_changes(
        target=target, baseline="", compare_to="", gates=(), track=track, poison=()
    )


def _write_comparison(
    run: Run, baseline: Run, dataset: Dataset, skipped: Sequence[str] = ()
) -> Run:
    """Compare, and keep the comparison in the files of `run`; a regression may fail a gate."""
    config = run.report.config
    first, second = ComparedRun.read(baseline.folder), ComparedRun.read(run.folder)
    found = compare_reports(first, second, dataset=dataset)
    notes = [f"not the reference: {each}" for each in skipped]
    changes: dict[str, object] = {"run": baseline.name, "warnings": [*found.warnings, *notes]}
    comparison = found.model_copy(update=changes)
    if config.fail_on_regression:
        gate = regression_gate(comparison, run.report.summary.total_queries)
        comparison = comparison.model_copy(update={"gate": gate})
    run.folder.write_comparison(comparison)
    write_report_page(run.folder, dataset)
    return Run(run.folder, run.folder.read_report())

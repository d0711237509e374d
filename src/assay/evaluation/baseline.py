"""A second run on the same queries, to compare with."""

from dataclasses import replace
from pathlib import Path

from assay.data.dataset import Dataset
from assay.evaluation.evaluation import Evaluation
from assay.evaluation.reporting import write_report_page
from assay.evaluation.run import Run
from assay.run.comparison import ComparedRun, compare_reports
from assay.run.folder import RunFolder, list_runs


def plan_baseline(evaluation: Evaluation, run: Run, target: str) -> Evaluation:
    """The plan of the baseline of `run`: the same queries and settings, without gates."""
    config = replace(run.report.config, target=target, baseline="", compare_to="", gates=())
    config = replace(config, poison=False, poison_kinds=())
    plan = Evaluation.plan(config, evaluation.dataset)
    return replace(plan, baseline_of=run.name, provider=evaluation.provider)


def find_baseline(run: Run, target: str, out: Path) -> RunFolder | None:
    """The run of that target that was made for `run` before, finished or not."""
    for folder in reversed(list(list_runs(out))):
        if folder.is_baseline():
            header = folder.read_header()
            if header.baseline_of == run.name and header.config.target == target:
                return folder
    return None


def compare_with_baseline(run: Run, baseline: Run, dataset: Dataset) -> Run:
    """Compare, and keep the comparison in the files of `run`."""
    judgments = dataset.judgments_in(run.report.config.split)
    first, second = ComparedRun.read(baseline.folder), ComparedRun.read(run.folder)
    comparison = compare_reports(first, second, judgments=judgments)
    comparison = comparison.model_copy(update={"run": baseline.name})
    run.folder.write_comparison(comparison)
    write_report_page(run.folder, dataset)
    return Run(run.folder, run.folder.read_report())

"""`Run`: a finished evaluation, for notebooks and scripts."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import RunError
from assay.extras import data_frame
from assay.metrics.figures import parse_figure
from assay.metrics.metric import Metric
from assay.metrics.scoring import Means, as_metric
from assay.report.numbers import figure
from assay.run.comparison import ComparedRun, compare_reports, find_dataset
from assay.run.folder import RunFolder, find_run, list_runs
from assay.run.models import AnswerRow, Comparison, QueryRow, Report, RunState

if TYPE_CHECKING:
    from pandas import DataFrame


def no_answers(run: "Run") -> str:
    """The warning for a target that returned documents and no answers; "" if it did answer."""
    answers = run.report.answers
    if answers is None or answers.answered or not run.report.summary.successful_queries:
        return ""
    return (
        "the target returned documents but no answers; to measure answers it must return "
        '{"doc_ids": [...], "answer": "...", "citations": [...]}, or --map answer=EXPR (in Python, '
        "mapping) must name the field of the text"
    )


@dataclass(frozen=True, repr=False)
class Run:
    """One evaluation of one target on one data set, with its report and its rows.

    Attributes:
        folder: the run's folder; usable as a path.
        report: every figure of the run, with its settings and its data.
    """

    folder: RunFolder
    report: Report

    @property
    def name(self) -> str:
        """The name of the run's folder."""
        return self.folder.name

    @property
    def state(self) -> str:
        """complete, interrupted, target lost or not judged."""
        return self.report.state

    @property
    def metrics(self) -> Means:
        """Means by name: `run.metrics["ndcg@5"]`; `nDCG @ 5` and other spellings find them too."""
        return Means(self.report.metrics)

    @property
    def gates_passed(self) -> bool:
        """Whether no gate failed; true without gates, and says nothing of failed queries."""
        return self.report.gates_passed

    @property
    def exit_code(self) -> int:
        """What `assay eval` exits with after such a run.

        0 if all is well, 1 if a gate failed, 3 if the target, its services or the judge failed or
        no query was answered, 130 if the run was interrupted.
        """
        answers = self.report.answers
        if self.state == RunState.INTERRUPTED:
            return 130
        answered = answers.answered if answers else self.report.summary.successful_queries
        if self.state == RunState.TARGET_LOST or (answers and answers.trouble) or not answered:
            return 3
        if not self.gates_passed:
            return 1
        return 0

    @property
    def comparison(self) -> Comparison | None:
        """The comparison with the run's baseline, where it had one."""
        return self.report.comparison

    def rows(self) -> Iterator[QueryRow]:
        """One row for each query: what was asked, what came back, how it scored."""
        return self.folder.read_rows()

    def answers(self) -> Iterator[AnswerRow]:
        """One row for each question; none where answers were not evaluated."""
        return self.folder.read_answers()

    def compare(
        self,
        other: "Run | str | PathLike[str]",
        metrics: Metric | str | Sequence[Metric | str] = (),
    ) -> Comparison:
        """Compare this run with another, as `compare_runs(other, this run, metrics)` does."""
        return compare_runs(other, self, metrics)

    def to_pandas(self) -> "DataFrame":
        """The rows as a pandas data frame, one line a query. Needs pandas."""
        return data_frame(row.model_dump() for row in self.rows())

    def __repr__(self) -> str:
        metric, score = self.report.headline
        target, dataset = self.report.target.title, self.report.dataset.name
        state = "" if self.state == RunState.COMPLETE else f", {self.state}"
        summary = self.report.summary
        if summary.failed_queries:
            state += f", {summary.failed_queries:,} of {summary.total_queries:,} queries failed"
        return f"<Run {target} on {dataset}: {metric} {figure(score.mean)}{state}>"

    def __hash__(self) -> int:
        return hash(self.folder)

    def _repr_html_(self) -> str:
        from assay.report.terminal import plain_text, render_report

        return f"<pre>{escape(plain_text(render_report(self.report, path=self.name)))}</pre>"


def compare_runs(
    run_a: Run | str | PathLike[str],
    run_b: Run | str | PathLike[str],
    metrics: Metric | str | Sequence[Metric | str] = (),
) -> Comparison:
    """Compare run B with run A, query by query.

    A positive difference means that B scores higher: better, unless the metric is a rate of faults
    such as `hallucination_rate`.

    Parameters:
        run_a: a run, or what `load_run` takes: a folder, a name, or `latest`.
        run_b: the same.
        metrics: one name or object, or several; the usual ones that both runs have by
            default.
    """
    given = [metrics] if isinstance(metrics, Metric | str) else metrics
    figures = [parse_figure(each) if isinstance(each, str) else as_metric(each) for each in given]
    folders = [run_folder(each, Path("runs")) for each in (run_a, run_b)]
    a, b = map(ComparedRun.read, folders)
    return compare_reports(a, b, figures, find_dataset([a, b]))


def load_run(path: str | PathLike[str], out: str | Path = "runs") -> Run:
    """Open a run that was made before.

    Parameters:
        path: the run's folder, or its name, the start of one, or `latest` under `out`.
        out: where run folders are.
    """
    folder = run_folder(path, Path(out))
    return Run(folder, folder.read_report())


def run_folder(run: Run | str | PathLike[str], out: Path) -> RunFolder:
    """The folder of a `Run`, or of what `load_run` takes."""
    if isinstance(run, Run):
        return run.folder
    return find_run(fspath(run), out)


def runs(folder: str | Path = "runs") -> list[Run]:
    """The runs under `folder` that have a report, oldest first.

    A run that cannot be read is left out with a `UserWarning` that says why.
    """
    found = []
    for each in list_runs(Path(folder)):
        try:
            if each.report_file.exists():
                found.append(Run(each, each.read_report()))
        except RunError as error:
            warnings.warn(f"run {each.name!r} is left out: {error}", stacklevel=2)
    return found

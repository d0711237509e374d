"""`--listener mlflow`: every run as a run of MLflow.

Where to is MLflow's own affair: `MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME` (`assay` by
default) and its other variables. A run has the settings as parameters, every mean and the ends of
its interval as metrics, and the report and page as artifacts.
"""

import os
import re
from collections.abc import Iterator
from typing import Any

from assay.evaluation.run import Run
from assay.run.folder import RunFolder
from assay.run.models import COMPLETE

_MAX_VALUE = 500
"""The longest parameter that all of MLflow's stores take."""

# MLflow waits for minutes for a server that is not there; a run has ended, and somebody waits.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


class MlflowListener:
    """Writes runs to the tracking store that MLflow's variables name."""

    def __init__(self) -> None:
        for name, value in _PATIENCE.items():
            os.environ.setdefault(name, value)
        from mlflow.tracking import MlflowClient

        self._client: Any = MlflowClient()
        self._run_id: str | None = None

    def on_start(self, folder: RunFolder) -> None:
        """Create MLflow's run, with the settings of ours."""
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "assay"
        experiment = self._client.get_experiment_by_name(name)
        experiment_id = (
            self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        )
        header = folder.read_header()
        tags = {"assay.run": folder.name, "assay.version": header.versions.get("assay", "")}
        if header.git is not None:
            tags |= {
                "mlflow.source.git.commit": header.git.commit or "",
                "mlflow.source.git.branch": header.git.branch or "",
            }
        tags |= {f"assay.tag.{key}": value for key, value in header.tags.items()}
        started = self._client.create_run(experiment_id, run_name=folder.name, tags=tags)
        self._run_id = started.info.run_id
        config = header.config.to_json()
        for key, value in config.items():
            if value not in (None, "", [], ()):
                self._client.log_param(self._run_id, key, str(value)[:_MAX_VALUE])

    def on_finish(self, run: Run) -> None:
        """Write figures, verdicts and files, and end MLflow's run."""
        assert self._run_id is not None
        for name, value in _figures(run):
            self._client.log_metric(self._run_id, name, value)
        gates = "passed" if run.gates_passed else "failed"
        self._client.set_tag(self._run_id, "assay.gates", gates if run.report.gates else "none")
        self._client.set_tag(self._run_id, "assay.state", run.state)
        for path in (run.folder.report_file, run.folder.page_file):
            if path.is_file():
                self._client.log_artifact(self._run_id, str(path))
        status = "FINISHED" if run.state == COMPLETE else "FAILED"
        self._client.set_terminated(self._run_id, status)

    def on_fail(self, _folder: RunFolder) -> None:
        """End MLflow's run where ours broke off."""
        if self._run_id is not None:
            self._client.set_terminated(self._run_id, "FAILED")


def _figures(run: Run) -> Iterator[tuple[str, float]]:
    """Means and intervals under names that MLflow takes: `ndcg_at_5`, `ndcg_at_5.low`."""
    report = run.report
    for name, row in report.statistics.items():
        yield from _interval(name, row.mean, row.low, row.high)
    for name, each in (report.answers.statistics if report.answers else {}).items():
        yield from _interval(name, each.mean, each.low, each.high)
    yield "success_rate", report.summary.success_rate
    yield "failed_queries", float(report.summary.failed_queries)
    if report.summary.successful_queries:
        yield "latency_p95_ms", float(report.latency_ms.p95)


def _interval(
    name: str, mean: float | None, low: float | None, high: float | None
) -> Iterator[tuple[str, float]]:
    plain = re.sub(r"[^\w./ -]", "_", name.replace("@", "_at_"))
    for end, value in (("", mean), (".low", low), (".high", high)):
        if value is not None:
            yield f"{plain}{end}", float(value)

"""Listeners: experiment trackers such as MLflow, and programs that are notified of every run.

A listener is an object with `on_start` and `on_finish` (and `on_fail`, if it likes). It is named on
the command line by `--listener`: one that Assay brings, one that a package registers as an entry
point of the group `assay.listeners`, or `module:Class`. From Python it may be an object.

A run never fails and hardly waits because of a listener: it is called in a thread of its own, what
it raises is reported, and one that does not return is left behind.
"""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol

from assay.errors import AssayError, UsageError, did_you_mean
from assay.evaluation.otel import OtelListener
from assay.evaluation.run import Run
from assay.extras import missing_extra
from assay.net.redact import mask_secrets, redact_secrets
from assay.privacy import is_private
from assay.run.folder import RunFolder
from assay.run.state import RunState

GROUP = "assay.listeners"
SECONDS = 60.0
"""How long a run that has ended waits for its listeners."""

_MAX_VALUE = 500
"""The longest parameter that all of MLflow's stores take."""

# MLflow waits for minutes for a server that is not there; a run has ended, and somebody waits.
_SHORT_WAITS = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "10"}


class RunListener(Protocol):
    """What listens to runs. `on_fail(folder)` is called, where it exists, for a run that breaks off
    with an error after it was started.
    """

    def on_start(self, folder: RunFolder) -> None:
        """The run's folder exists, with its settings in `run.json`; no query was asked yet."""

    def on_finish(self, run: Run) -> None:
        """The run has ended, complete or not, and its report, page and comparison are written."""


def open_listener(name: str) -> RunListener:
    """The listener of that name, or of `module:Class`. Raises `UsageError`."""
    registered = {each.name: each for each in entry_points(group=GROUP)}
    try:
        if name in registered:
            made = registered[name].load()()
        elif name in BUILT_IN:
            made = BUILT_IN[name]()
        elif ":" in name:
            module, _, attribute = name.partition(":")
            if (folder := str(Path.cwd())) not in sys.path:  # the script `assay` does not have it
                sys.path.insert(0, folder)
            made = getattr(import_module(module), attribute)()
        else:
            known = sorted({*BUILT_IN, *registered})
            raise UsageError(
                f"no listener {name!r}; known are {', '.join(known)}, or module:Class"
                f"{did_you_mean(name, known)}"
            )
    except AssayError:
        raise
    except ImportError as error:
        raise missing_extra(error) or UsageError(f"listener {name!r}: {error}") from None
    except Exception as error:
        raise UsageError(f"listener {name!r} cannot be opened: {_words(error)}") from error
    return _checked(made, name)


def _checked(listener: Any, name: str) -> RunListener:
    for method in ("on_start", "on_finish"):
        if not callable(getattr(listener, method, None)):
            raise UsageError(f"listener {name!r} has no method {method}")
    checked: RunListener = listener
    return checked


class RunListeners:
    """All listeners of one run, as a context manager around it.

    Parameters:
        listeners: names, or objects with the methods of `RunListener`.
        say: told what a listener raises.
    """

    def __init__(self, listeners: Sequence[str | RunListener], say: Callable[[str], None]) -> None:
        self._workers = [
            _Worker(each, open_listener(each), say)
            if isinstance(each, str)
            else _Worker(type(each).__name__, _checked(each, type(each).__name__), say)
            for each in listeners
        ]
        self._folder: RunFolder | None = None
        self._finished = False

    def __enter__(self) -> "RunListeners":
        for worker in self._workers:
            worker.start()
        return self

    def started(self, folder: RunFolder) -> None:
        """Tell that the run's folder exists."""
        self._folder = folder
        self._tell("on_start", folder)

    def finished(self, run: Run) -> None:
        """Tell that the run has ended."""
        self._finished = True
        self._tell("on_finish", run)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._folder is not None and not self._finished:
            self._tell("on_fail", self._folder)
        for worker in self._workers:
            worker.close()

    def _tell(self, method: str, value: RunFolder | Run) -> None:
        for worker in self._workers:
            worker.put(method, value)


class _Worker:
    """One listener in a thread of its own: a call waits for those before it, nobody for it."""

    def __init__(self, name: str, listener: RunListener, say: Callable[[str], None]) -> None:
        self._name, self._listener, self._say = name, listener, say
        self._tasks: SimpleQueue[tuple[str, RunFolder | Run] | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._work,), name=f"listener-{name}", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def put(self, method: str, value: RunFolder | Run) -> None:
        self._tasks.put((method, value))

    def close(self) -> None:
        self._tasks.put(None)
        self._thread.join(SECONDS)
        if self._thread.is_alive():
            self._say(
                f"warning: listener {self._name!r} has not returned within {SECONDS:g} s and is "
                "abandoned; the run itself is complete on disk"
            )

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            method, value = task
            call = getattr(self._listener, method, None)
            try:
                if call is not None:
                    call(value)
            except (Exception, SystemExit) as error:
                words = _words(error, _is_of_private(value))
                self._say(
                    f"warning: listener {self._name!r} failed in {method}: {words}; the "
                    "run is not affected"
                )


def _is_of_private(value: RunFolder | Run) -> bool:
    folder = value if isinstance(value, RunFolder) else value.folder
    try:
        return is_private() or folder.read_config().private
    except AssayError:  # told where the run is read
        return True


def _words(error: BaseException, private: bool = False) -> str:
    """One line, without secrets; of a private run the kind alone, as it may quote a text."""
    if private:
        return type(error).__name__
    first = redact_secrets(str(mask_secrets(str(error).strip().partition("\n")[0])))
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


class MlflowListener:
    """`--listener mlflow`: every run as a run of MLflow.

    Where to is MLflow's own affair: `MLFLOW_TRACKING_URI`, `MLFLOW_EXPERIMENT_NAME` (`assay` by
    default) and its other variables. A run has the settings as parameters, every mean and the ends
    of its interval as metrics, and the report and page as artifacts.
    """

    def __init__(self) -> None:
        for name, value in _SHORT_WAITS.items():
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
        tags = {"assay.run": folder.name, "assay.version": header.versions.get("agent-assay", "")}
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
        status = "FINISHED" if run.state == RunState.COMPLETE else "FAILED"
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


BUILT_IN: dict[str, type[RunListener]] = {"mlflow": MlflowListener, "otel": OtelListener}
"""The listeners that Assay brings, by the name that `--listener` takes."""

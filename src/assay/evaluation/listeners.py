"""Listeners: programs that are told of every run, such as experiment trackers.

with RunListeners(["otel", MyListener()], say=print) as listeners:
    listeners.started(folder)
    listeners.finished(run)

A listener has `on_start` and `on_finish`, and `on_fail` if it likes. `--listener` names one that
Assay brings, an entry point of the group `assay.listeners`, or `module:Class`.

A run never fails and hardly waits because of a listener: it is called in its own thread, what
it raises is reported, and one that does not return is left behind.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from importlib import import_module
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol

from assay.errors import AssayError, UsageError
from assay.evaluation.otel import OtelListener
from assay.evaluation.run import Run
from assay.extras import find_plugin, load_plugin, missing_extra
from assay.net.redact import mask_secrets, redact_secrets
from assay.privacy import is_private
from assay.run.folder import RunFolder

GROUP = "assay.listeners"
SECONDS = 60.0  # How long a run that has ended waits for its listeners


class RunListener(Protocol):
    """What listens to runs. `on_fail(folder)` is called, if it exists, for a run that breaks off
    with an error after it was started.
    """

    def on_start(self, folder: RunFolder) -> None:
        """The run's folder exists, with its settings in `run.json`; no query was asked yet."""

    def on_finish(self, run: Run) -> None:
        """The run has ended, complete or not, and its report, page and comparison are written."""


def open_listener(name: str) -> Any:
    """`otel`, the name of a plug-in, or `module:Class`. Raises `UsageError`."""
    if (point := find_plugin(GROUP, name)) is not None:
        return load_plugin(point)()
    if name == "otel":
        return OtelListener()
    module, colon, attribute = name.partition(":")
    if not colon:
        raise UsageError(f"no listener {name!r}; use otel, an installed plug-in, or module:Class")
    if (folder := str(Path.cwd())) not in sys.path:  # the script `assay` does not have it
        sys.path.insert(0, folder)
    try:
        return getattr(import_module(module), attribute)()
    except AssayError:
        raise
    except ImportError as error:
        raise missing_extra(error) or UsageError(f"listener {name!r}: {error}") from None
    except Exception as error:
        raise UsageError(f"listener {name!r} cannot be opened: {_quote(error)}") from error


class RunListeners:
    """All listeners of one run, as a context manager around it.

    Parameters:
        listeners: names, or objects with the methods of `RunListener`.
        say: told what a listener raises.
    """

    def __init__(self, listeners: Sequence[str | RunListener], say: Callable[[str], None]) -> None:
        self._workers = []
        for each in listeners:
            name = each if isinstance(each, str) else type(each).__name__
            listener = open_listener(each) if isinstance(each, str) else each
            for method in ("on_start", "on_finish"):
                if not callable(getattr(listener, method, None)):
                    raise UsageError(f"listener {name!r} has no method {method}")
            self._workers.append(_Worker(name, listener, say))
        self._folder: RunFolder | None = None
        self._finished = False

    def __enter__(self) -> "RunListeners":
        for worker in self._workers:
            worker.thread.start()
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
            worker.tasks.put((method, value))


class _Worker:
    """One listener in its own thread: a call waits for those before it, the run for none."""

    def __init__(self, name: str, listener: Any, say: Callable[[str], None]) -> None:
        self._name, self._listener, self._say = name, listener, say
        self.tasks: SimpleQueue[tuple[str, RunFolder | Run] | None] = SimpleQueue()
        self.thread = threading.Thread(
            target=copy_context().run, args=(self._work,), name=f"listener-{name}", daemon=True
        )

    def close(self) -> None:
        self.tasks.put(None)
        self.thread.join(SECONDS)
        if self.thread.is_alive():
            self._say(
                f"warning: listener {self._name!r} has not returned within {SECONDS:g} s and is "
                "abandoned; the run itself is complete on disk"
            )

    def _work(self) -> None:
        while (task := self.tasks.get()) is not None:
            method, value = task
            try:
                if (call := getattr(self._listener, method, None)) is not None:
                    call(value)
            except (Exception, SystemExit) as error:
                said = _quote(error, private=_is_of_private(value))
                self._say(
                    f"warning: listener {self._name!r} failed in {method}: {said}; the run is not "
                    "affected"
                )


def _is_of_private(value: RunFolder | Run) -> bool:
    folder = value if isinstance(value, RunFolder) else value.folder
    try:
        return is_private() or folder.read_config().private
    except AssayError:  # reported when the run is read
        return True


def _quote(error: BaseException, private: bool = False) -> str:
    """One line without secrets; of a private run the kind alone, as it may quote a text."""
    first = redact_secrets(str(mask_secrets(str(error).strip().partition("\n")[0])))
    return f"{type(error).__name__}: {first}" if first and not private else type(error).__name__

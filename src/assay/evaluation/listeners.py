"""Listeners: programs that hear of every run, such as experiment trackers.

with RunListeners(["otel", MyListener()], say=print) as listeners:
    listeners.started(folder)
    listeners.finished(run)

A run never fails because of a listener, and waits at most a minute for one.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Protocol

from assay.errors import AssayError, UsageError
from assay.evaluation.otel import OtelListener
from assay.evaluation.run import Run
from assay.extras import find_plugin, load_plugin
from assay.net.redact import mask_secrets, redact_secrets
from assay.privacy import is_private
from assay.run.folder import RunFolder
from assay.targets.python_call import load_object

GROUP = "assay.listeners"
SECONDS = 60.0  # how long a run waits for one call of a listener


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
    if name == "otel":
        return OtelListener()
    if (point := find_plugin(GROUP, name)) is not None:
        made = load_plugin(point)
    elif ":" in name:
        made = load_object(name)
    else:
        raise UsageError(f"no listener {name!r}; use otel, an installed plug-in, or module:Class")
    try:
        return made()
    except AssayError:
        raise
    except Exception as error:
        raise UsageError(f"listener {name!r} cannot be opened: {_quote(error)}") from error


class RunListeners:
    """All listeners of one run, as a context manager around it.

    `listeners` are names, or objects with the methods of `RunListener`; `say` is told what they
    raise.
    """

    def __init__(self, listeners: Sequence[str | RunListener], say: Callable[[str], None]) -> None:
        self._listeners: list[tuple[str, Any]] = []
        for each in listeners:
            name = each if isinstance(each, str) else type(each).__name__
            listener = open_listener(each) if isinstance(each, str) else each
            for method in ("on_start", "on_finish"):
                if not callable(getattr(listener, method, None)):
                    raise UsageError(f"listener {name!r} has no method {method}")
            self._listeners.append((name, listener))
        self._say = say
        self._open: RunFolder | None = None

    def __enter__(self) -> "RunListeners":
        return self

    def started(self, folder: RunFolder) -> None:
        """Tell that the run's folder exists."""
        self._open = folder
        self._tell("on_start", folder, folder)

    def finished(self, run: Run) -> None:
        """Tell that the run has ended."""
        self._open = None
        self._tell("on_finish", run, run.folder)

    def __exit__(self, *_: object) -> None:
        if self._open is not None:
            self._tell("on_fail", self._open, self._open)

    def _tell(self, method: str, value: RunFolder | Run, folder: RunFolder) -> None:
        for name, listener in self._listeners:
            where, call = f"warning: listener {name!r}", getattr(listener, method, None)
            if call is None:
                continue
            # Not of an executor, whose threads the end of the process waits for.
            work = partial(copy_context().run, self._call, where, call, value, folder)
            thread = threading.Thread(target=work, name=f"listener-{name}", daemon=True)
            thread.start()
            thread.join(SECONDS)
            if thread.is_alive():
                self._say(
                    f"{where} has not returned from {method} within {SECONDS:g} s; the run goes "
                    "on without it"
                )

    def _call(
        self, where: str, call: Callable[[Any], None], value: RunFolder | Run, folder: RunFolder
    ) -> None:
        try:
            call(value)
        except (Exception, SystemExit) as error:
            private = True
            with suppress(AssayError):  # a header that cannot be read is reported elsewhere
                private = is_private() or folder.read_config().private
            said = _quote(error, private=private)
            self._say(f"{where} failed in {call.__name__}: {said}; the run is not affected")


def _quote(error: BaseException, private: bool = False) -> str:
    """One line without secrets; of a private run the kind alone, as it may quote a text."""
    first = redact_secrets(str(mask_secrets(str(error).strip().partition("\n")[0])))
    return f"{type(error).__name__}: {first}" if first and not private else type(error).__name__

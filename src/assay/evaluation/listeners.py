"""Who listens to runs: experiment trackers and programs that want to know of every run.

A listener is an object with `on_start` and `on_finish` (and `on_fail`, if it likes). It is named on
the command line by `--listener`: one that Assay brings, one that a package registers as an entry
point of the group `assay.listeners`, or `module:Class`. From Python it may be an object.

A run never fails and hardly waits because of a listener: it is called in a thread of its own, what
it raises is reported, and one that does not return is left behind.
"""

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Protocol

from assay.errors import AssayError, UsageError, did_you_mean
from assay.evaluation.run import Run
from assay.extras import missing_extra
from assay.net.redact import mask_secrets, redact_secrets
from assay.privacy import is_private
from assay.run.folder import RunFolder

GROUP = "assay.listeners"
BUILT_IN = {"mlflow": "assay.evaluation.mlflow_listener:MlflowListener"}
SECONDS = 60.0
"""How long a run that has ended waits for its listeners."""


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
        elif name in BUILT_IN or ":" in name:
            module, _, attribute = BUILT_IN.get(name, name).partition(":")
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
        self._thread = threading.Thread(target=self._work, name=f"listener-{name}", daemon=True)

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
                "left behind; the run itself is complete on disk"
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

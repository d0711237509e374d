"""Everything that is logged while a test runs, as our servers write it and as anyone could."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from contextvars import ContextVar
from dataclasses import dataclass, field

from assay.serve.request_log import set_up_logging

CANARY = "Jane-Roe-7d2e91"
"""What stands for a patient in all that is sent."""


_asking: ContextVar[bool] = ContextVar("_asking", default=False)


@contextmanager
def asking() -> Iterator[None]:
    """Around a call of the test's own client: what that logs is not the server's doing. The server
    shares the process and not the context."""
    token = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(token)


def _of_the_server(_record: logging.LogRecord) -> bool:
    return not _asking.get()


@dataclass
class Recording:
    """`ours` is what a server's stderr gets. `raw` is what a logging set-up of somebody else's
    would write, with every message spelled out and every traceback."""

    ours: io.StringIO = field(default_factory=io.StringIO)
    raw: io.StringIO = field(default_factory=io.StringIO)

    def leaks(self, text: str) -> list[str]:
        return [line[:300] for line in text.splitlines() if CANARY in line]


@contextmanager
def recording_everything() -> Iterator[Recording]:
    """As a server does it, then every logger there is at DEBUG, whatever level it was given."""
    recording = Recording()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    known = _loggers()
    levels = {logger: logger.level for logger in known}
    try:
        with redirect_stderr(recording.ours):
            set_up_logging("debug")
        raw = logging.StreamHandler(recording.raw)
        raw.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        root.addHandler(raw)
        for handler in root.handlers:
            handler.addFilter(_of_the_server)
        for logger in _loggers():
            logger.setLevel(logging.DEBUG)
        yield recording
    finally:
        for logger in _loggers():
            logger.setLevel(levels.get(logger, logging.NOTSET))
        root.handlers[:] = handlers
        root.setLevel(level)


def _loggers() -> list[logging.Logger]:
    found = logging.root.manager.loggerDict.values()
    return [each for each in found if isinstance(each, logging.Logger)]

"""Private mode: nothing of queries, documents and answers is written anywhere.

What could write a text asks `is_private` instead of being told, so that nothing new can forget to
pass it on. Threads are started with `copy_context().run`, processes with `child_environment()`.
"""

import logging
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType

VARIABLE = "ASSAY_PRIVATE"
WITHHELD = "withheld, because the run is private"

_OFF = ("", "0", "false", "no", "off")


# Of a run, whose tasks and threads inherit it: other runs of this process do not see it.
_private: ContextVar[bool] = ContextVar("private", default=False)


def is_private() -> bool:
    """Whether this run may write no text of a query, a document or an answer."""
    return _private.get() or os.environ.get(VARIABLE, "").strip().lower() not in _OFF


def child_environment() -> dict[str, str]:
    """This process's environment for one that it starts, which is private if this run is."""
    return {**os.environ, **({VARIABLE: "1"} if is_private() else {})}


@contextmanager
def private_mode(wanted: bool = True) -> Iterator[None]:
    """Switch private mode on for the block, where it is wanted. Core dumps stay off afterwards,
    and tracebacks without messages: the texts are still in memory.
    """
    if not wanted:
        yield
        return
    # A core dump is the whole memory in a file. Windows has neither the limit nor the dumps.
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    sys.excepthook = _show_without_texts
    logging.getLogger("asyncio").addFilter(_without_exception)  # twice has no effect
    token = _private.set(True)
    try:
        yield
    finally:
        _private.reset(token)


def _show_without_texts(
    kind: type[BaseException], error: BaseException, _trace: TracebackType | None
) -> None:
    """A traceback without messages and source lines: an exception may quote what it failed on."""
    if issubclass(kind, KeyboardInterrupt):
        return
    print(f"error: {kind.__name__}, in a private run: its message is withheld", file=sys.stderr)
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        print(f"  {code.co_filename}:{trace.tb_lineno} in {code.co_name}", file=sys.stderr)
        trace = trace.tb_next


def _without_exception(record: logging.LogRecord) -> bool:
    """Keeps the class of a logged exception, and not its text."""
    if record.exc_info and record.exc_info[0] is not None:
        record.msg = f"{record.exc_info[0].__name__} in a private run"
        record.args, record.exc_info, record.exc_text = (), None, None
    return True


def log_exception(logger: logging.Logger, what: str, error: BaseException, **fields: str) -> None:
    """Log that work raised: of the exception, only the class and the line that raised it.

    log_exception(logger, "task failed", error, task_id=id)
    """
    frame, number = next(reversed([*traceback.walk_tb(error.__traceback__)]), (None, 0))
    place = f"{frame.f_globals.get('__name__', 'unknown')}:{number}" if frame else "unknown"
    line = {**fields, "exception": type(error).__name__, "raised_at": place}
    text = " ".join(f"{name}={value}" for name, value in line.items())
    logger.error("%s %s", what, text, extra={"fields": {"message": what, **line}})

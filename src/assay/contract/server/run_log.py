"""What may be written down about a run: who, what kind, how long, how it ended, how much.

Never what was asked or answered. Only values that this module names can reach the log, and of an
exception only its class and the line that raised it, since its text may quote an input.
"""

import logging
import traceback
from dataclasses import asdict, dataclass

_logger = logging.getLogger("assay.contract.runs")


@dataclass(frozen=True, slots=True)
class RunRecord:
    """`task_type` is the agent's own, not the caller's text; `way` is sync or stream."""

    request_id: str
    task_type: str
    way: str
    status: str
    http_status: int
    duration_ms: int
    bytes_in: int
    bytes_out: int


def log_run(record: RunRecord) -> None:
    """As text for people and, under `fields`, as values for a formatter that writes JSON."""
    fields = asdict(record)
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    _logger.info("run %s", text, extra={"fields": fields})


def log_failure(request_id: str, task_type: str, error: BaseException) -> None:
    fields = {
        "request_id": request_id,
        "task_type": task_type,
        "error": type(error).__name__,
        "raised_at": _raised_at(error),
    }
    text = " ".join(f"{name}={value}" for name, value in fields.items())
    _logger.error("work failed %s", text, extra={"fields": fields})


def keep_payloads_out_of(library: str) -> None:
    """Drop a library's debug messages where they quote what is sent. A filter, unlike a level,
    still holds when someone turns on debugging for everything."""
    logger = logging.getLogger(library)
    if _above_debug not in logger.filters:
        logger.addFilter(_above_debug)


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def _raised_at(error: BaseException) -> str:
    frames = list(traceback.walk_tb(error.__traceback__))
    if not frames:
        return "unknown"
    frame, line = frames[-1]
    return f"{frame.f_globals.get('__name__', 'unknown')}:{line}"

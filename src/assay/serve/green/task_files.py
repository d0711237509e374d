"""Keeps tasks of the green agent across restarts: a small file for each, beside the runs.

A task's report is in its run folder anyway. The file says which task it belongs to, so that a
client that asks again after a restart finds its task, and its report with it.
"""

import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from assay.errors import AssayError
from assay.files import atomic_write, make_private_folder, read_file
from assay.run.folder import RunFolder
from assay.run.state import RunState

FOLDER = ".tasks"
_MAX_BYTES = 64_000
_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,127}")

_logger = logging.getLogger(__name__)


class JobState(StrEnum):
    """The states of an A2A task that an evaluation passes through."""

    SUBMITTED = "submitted"
    WORKING = "working"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELED = "canceled"

    @property
    def is_final(self) -> bool:
        """Whether nothing follows this state."""
        return self in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELED)


class TaskRecord(BaseModel):
    """A task as it is written down. `context_id` is that of A2A; tasks over REST have none."""

    model_config = ConfigDict(frozen=True)

    id: str
    state: JobState
    message: str
    context_id: str | None = None
    run: str | None = None
    warnings: tuple[str, ...] = ()


class TaskFiles:
    """The records under a folder of runs: at most `limit`, and none that is older than `lifetime`
    seconds. Nothing here fails a task: what cannot be written is not there after a restart."""

    def __init__(self, out: Path, *, limit: int, lifetime: float) -> None:
        self._out = out
        self._folder = out / FOLDER
        self._limit = limit
        self._lifetime = lifetime

    def write(self, record: TaskRecord) -> None:
        """Replace the task's file, and remove those of old tasks."""
        path = self._path(record.id)
        if path is None:
            _logger.error("a task id is not a valid file name: the task is not saved")
            return
        try:
            make_private_folder(self._folder)
            atomic_write(path, record.model_dump_json().encode())
            self._evict()
        except OSError as error:
            _logger.error("cannot write the file of a task: %s", error.strerror)

    def read(self, task_id: str) -> "RecalledJob | None":
        """The task of an earlier process, unless it is unknown, too old or damaged."""
        path = self._path(task_id)
        if path is None:
            return None
        try:
            if path.stat().st_mtime < time.time() - self._lifetime:
                return None
            record = TaskRecord.model_validate_json(read_file(path, limit=_MAX_BYTES))
        except (OSError, ValidationError):
            return None
        return RecalledJob(record, self._out) if record.id == task_id else None

    def _path(self, task_id: str) -> Path | None:
        """None for an id that would lead out of the folder: it came with a request."""
        return self._folder / f"{task_id}.json" if _ID.fullmatch(task_id) else None

    def _evict(self) -> None:
        found = sorted(
            ((path.stat().st_mtime, path) for path in self._folder.glob("*.json")), reverse=True
        )
        oldest_kept = time.time() - self._lifetime
        for place, (written, path) in enumerate(found):
            if place >= self._limit or written < oldest_kept:
                path.unlink(missing_ok=True)


class RecalledJob:
    """A task of an earlier process: how it ended, or what became of its run since."""

    tick = None

    def __init__(self, record: TaskRecord, out: Path) -> None:
        self.id = record.id
        self.context_id = record.context_id
        self.state = record.state
        self.folder = _run_folder(record, out)
        self._message = record.message
        self._warnings = record.warnings
        if not record.state.is_final:
            self._settle()

    def _settle(self) -> None:
        """The process ended before the task did; its run may go on elsewhere or be finished."""
        state = "" if self.folder is None else _state_of(self.folder)
        if state == RunState.COMPLETE:
            self.state, self._message = JobState.COMPLETED, "evaluated after the server restarted"
        elif state == RunState.RUNNING:
            self.state, self._message = JobState.WORKING, "the evaluation is being resumed"
        else:
            kept = f"; kept as run {self.folder.name}" if self.folder is not None else ""
            self.state = JobState.FAILED
            self._message = f"the server stopped during this evaluation{kept}"

    def describe(self) -> str:
        """The end of the evaluation in one sentence."""
        return self._message

    def warnings(self) -> tuple[str, ...]:
        """What was unusual about the request and the agent."""
        return self._warnings

    def cancel(self) -> None:
        """Nothing of it runs in this process."""

    async def updates(self, _interval: float) -> AsyncIterator[JobState]:
        """The one state that is known."""
        yield self.state


def _run_folder(record: TaskRecord, out: Path) -> RunFolder | None:
    if record.run is None or Path(record.run).name != record.run:
        return None
    folder = RunFolder(out / record.run)
    return folder if folder.header_file.is_file() else None


def _state_of(folder: RunFolder) -> str:
    with suppress(AssayError, OSError):
        return folder.state()
    return ""

"""How many queries are in flight: fewer, once timeouts come in clusters; and the record of it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from assay.errors import RunError
from assay.run.folder import RunFolder
from assay.run.models import COMPLETE, NOT_JUDGED
from assay.run.run_record import PacingRecord, WarmUpRecord


class ConcurrencyLimit:
    """How many calls may be in flight: fewer, once timeouts come in clusters.

    An agent that is sent more than it can work on answers nobody in time. Where at least half of
    the last calls timed out, and more than one of them, the limit is halved; it is not raised
    again, since figures of one run should be of one load.

    Parameters:
        limit: how many at first.
        say: receives a sentence for each change.
    """

    def __init__(self, limit: int, say: Callable[[str], None] = lambda _message: None) -> None:
        self.asked_for = self.limit = limit
        self._say = say
        self._recent: deque[bool] = deque(maxlen=max(2, limit))
        self._free = asyncio.Condition()
        self._in_flight = 0
        self.changes = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[int]:
        """Wait for a place, and hold it; the ticket goes into `record`."""
        async with self._free:
            await self._free.wait_for(lambda: self._in_flight < self.limit)
            self._in_flight += 1
        try:
            yield self.changes
        finally:
            self._in_flight -= 1
            async with self._free:
                self._free.notify_all()

    def record(self, ticket: int, *, timed_out: bool) -> None:
        """Take note of how a call ended. One that was sent under an earlier limit says nothing."""
        if ticket != self.changes:
            return
        self._recent.append(timed_out)
        timeouts = sum(self._recent)
        if self.limit == 1 or timeouts < 2 or 2 * timeouts < len(self._recent):
            return
        self.limit = max(1, self.limit // 2)
        self.changes += 1
        self._say(
            f"{timeouts} of the last {len(self._recent)} queries timed out; sending "
            f"{self.limit} at once from now on"
        )
        self._recent = deque(maxlen=max(2, self.limit))


def every_query_is_asked(folder: RunFolder) -> bool:
    """Whether an earlier process came to the end of the plan: then nothing is asked once more."""
    if not folder.report_file.exists():
        return False
    try:
        return folder.read_report().state in (COMPLETE, NOT_JUDGED)
    except RunError:  # damaged: resuming is what writes it anew
        return False


def note_warm_up(folder: RunFolder, warm_up: WarmUpRecord | None, concurrency: int) -> None:
    """Keep what was done before the first query, if anything was, in `run.json`."""
    if warm_up is None:
        return
    pacing = _recorded(folder, concurrency).model_copy(update={"warm_up": warm_up})
    _write(folder, pacing)


def note_concurrency(folder: RunFolder, limit: ConcurrencyLimit) -> None:
    """Keep the lowest number of queries in flight in `run.json`, where it is not the usual one."""
    pacing = _recorded(folder, limit.asked_for)
    if limit.limit < pacing.lowest_concurrency:
        _write(folder, pacing.model_copy(update={"lowest_concurrency": limit.limit}))


def _recorded(folder: RunFolder, concurrency: int) -> PacingRecord:
    known = folder.read_header().pacing
    return known or PacingRecord(concurrency=concurrency, lowest_concurrency=concurrency)


def _write(folder: RunFolder, pacing: PacingRecord) -> None:
    folder.write_header(folder.read_header().model_copy(update={"pacing": pacing}))

"""Stops hammering a target that is gone.

    closed ──(N times out of reach in a row)──▶ open ──(a pause, then one probe)──▶ closed
                                                  └──(every probe failed)──▶ lost

While it is open, callers wait and only the probe goes out. Errors that a living agent answers
with do not count: they are findings, not outages.
"""

import asyncio
from collections.abc import Callable

from assay.agents.protocol import FailureKind

OUTAGES = frozenset({FailureKind.CONNECTION, FailureKind.TIMEOUT})
PROBE_PAUSES = (1.0, 2.0, 4.0, 8.0)


class TargetLost(Exception):
    """The target stayed out of reach through every probe."""


class Circuit:
    def __init__(
        self,
        *,
        threshold: int = 10,
        pauses: tuple[float, ...] = PROBE_PAUSES,
        say: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._threshold = threshold
        self._pauses = pauses
        self._say = say
        self._failures = 0
        self._probes = 0
        self._probing = False
        self._generation = 0
        self._changed = asyncio.Event()
        self.lost = False

    async def enter(self) -> int:
        """Wait for leave to call. The ticket that is returned goes back into `record`."""
        while True:
            if self.lost:
                raise TargetLost
            if not self._probes:
                return self._generation
            if not self._probing:
                self._probing = True
                await asyncio.sleep(self._pauses[self._probes - 1])
                return self._generation
            await self._changed.wait()

    def record(self, ticket: int, failure: FailureKind | None) -> None:
        if failure not in OUTAGES:
            self._recover()
        elif ticket == self._generation:  # else it was sent before the circuit opened
            self._failures += 1
            if self._probes or self._failures >= self._threshold:
                self._trip()

    def _recover(self) -> None:
        if self._probes:
            self._say("the target answers again; going on")
        self._failures = self._probes = 0
        self._announce()

    def _trip(self) -> None:
        self._generation += 1
        if self._probes == len(self._pauses):
            self.lost = True
            self._say("the target stays out of reach; giving up")
        else:
            pause = self._pauses[self._probes]
            self._probes += 1
            self._say(f"{self._failures} calls in a row got no answer; waiting {pause:g} s")
        self._announce()

    def _announce(self) -> None:
        self._probing = False
        self._changed.set()
        self._changed = asyncio.Event()

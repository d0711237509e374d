"""The circuit breaker: stops calling a service that fails, until it has had time to recover.

    closed ──(threshold outages in a row)──▶ open ──(a pause, then one probe)──▶ closed
                                              └──(the probe failed: the next pause)──▶ open … lost

While it is open only one probe goes out at a time. Evaluations wait for it (`enter`), clients fail
fast (`call`). Error responses of a running service are not outages.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

PROBE_PAUSES = (1.0, 2.0, 4.0, 8.0)


class CircuitLost(Exception):
    """The service stayed unreachable through every probe."""


class CircuitOpen(Exception):
    """Not called: the service failed `failures` times in a row. `retry_after` is in seconds."""

    def __init__(self, failures: int, retry_after: float) -> None:
        super().__init__(f"{failures} failures in a row; next probe in {retry_after:.0f} s")
        self.failures = failures
        self.retry_after = retry_after


class CircuitBreaker:
    """One breaker for one service; not thread-safe.

    Parameters:
        threshold: outages in a row that open it.
        pauses: seconds before each probe; after the last one failed the circuit is lost for good.
        repeat_last_pause: keep probing forever instead, with the last pause.
        on_change: called with a sentence when the breaker opens, closes or gives up.
        clock: replaced in tests.
    """

    def __init__(
        self,
        *,
        threshold: int = 10,
        pauses: Sequence[float] = PROBE_PAUSES,
        repeat_last_pause: bool = False,
        on_change: Callable[[str], None] = lambda _message: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold = threshold
        self._pauses = tuple(pauses)
        self._repeat = repeat_last_pause
        self._on_change = on_change
        self._clock = clock
        self._failures = 0
        self._probes = 0
        self._probing = False
        self._probe_at = 0.0
        self._generation = 0
        self._changed = asyncio.Event()
        self.lost = False

    @property
    def is_open(self) -> bool:
        """Whether callers are held back."""
        return self._probes > 0

    async def enter(self) -> int:
        """Wait until a call may be made; the ticket goes back into `record`.

        Raises `CircuitLost` when every probe failed.
        """
        while True:
            if self.lost:
                raise CircuitLost
            if not self.is_open:
                return self._generation
            if not self._probing:
                self._probing = True
                await asyncio.sleep(max(0.0, self._probe_at - self._clock()))
                return self._generation
            await self._changed.wait()

    @contextmanager
    def call(self, is_outage: Callable[[Exception], bool | None]) -> Iterator[None]:
        """Around one call; raises `CircuitOpen` at once while the breaker is open.

        `is_outage` classifies an exception: True counts against the service, False shows that it
        is alive, None says nothing about it. A canceled call says nothing either.
        """
        ticket = self._admit()
        try:
            yield
        except Exception as error:
            verdict = is_outage(error)
            if verdict is None:
                self._probing = False
            else:
                self.record(ticket, outage=verdict)
            raise
        except BaseException:
            self._probing = False
            raise
        else:
            self.record(ticket, outage=False)

    def record(self, ticket: int, *, outage: bool) -> None:
        """Record how a call ended. A call sent before the breaker opened is not a probe."""
        if not outage:
            self._close()
        elif ticket == self._generation:
            self._failures += 1
            if self.is_open or self._failures >= self._threshold:
                self._trip()

    def _admit(self) -> int:
        if self.is_open:
            wait = max(0.0, self._probe_at - self._clock())
            if self._probing or wait > 0:
                raise CircuitOpen(self._failures, wait)
            self._probing = True
        return self._generation

    def _close(self) -> None:
        if self.is_open:
            self._on_change("the target responds again; continuing")
        self._failures = self._probes = 0
        self._notify()

    def _trip(self) -> None:
        self._generation += 1
        if self._probes == len(self._pauses) and not self._repeat:
            self.lost = True
            self._on_change("the target is still unreachable; giving up")
        else:
            pause = self._pauses[min(self._probes, len(self._pauses) - 1)]
            self._probes = min(self._probes + 1, len(self._pauses))
            self._probe_at = self._clock() + pause
            self._on_change(
                f"{self._failures} calls in a row got no response; retrying in {pause:g} s"
            )
        self._notify()

    def _notify(self) -> None:
        self._probing = False
        self._changed.set()
        self._changed = asyncio.Event()

"""Not asking an agent that keeps failing, until it had time to recover."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from assay.contract.responses import AgentCallError, Fault


class CircuitBreaker:
    """Opens after `threshold` failures in a row. After `recovery_s` one call is let through: its
    success closes the circuit, its failure opens it again."""

    def __init__(
        self,
        threshold: int = 5,
        recovery_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._threshold = threshold
        self._recovery_s = recovery_s
        self._clock = clock
        self._failures = 0
        self._opened_at = 0.0
        self._trial_running = False

    @property
    def is_open(self) -> bool:
        return self._failures >= self._threshold

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around one call. A call that is cancelled, or refused by the agent for its own content,
        says nothing about the agent's health."""
        trial = self._admit()
        try:
            yield
        except AgentCallError as error:
            self._record(failed=error.fault is not Fault.REFUSED)
            raise
        else:
            self._record(failed=False)
        finally:
            if trial:
                self._trial_running = False

    def _admit(self) -> bool:
        if not self.is_open:
            return False
        wait = self._opened_at + self._recovery_s - self._clock()
        if wait > 0 or self._trial_running:
            raise AgentCallError(
                Fault.CIRCUIT_OPEN,
                f"not asked: the agent failed {self._failures} times in a row; "
                f"it is tried again in {max(wait, 0):.0f} s",
                retry_after_s=max(wait, 0.0),
            )
        self._trial_running = True
        return True

    def _record(self, *, failed: bool) -> None:
        if not failed:
            self._failures = 0
            return
        self._failures += 1
        if self.is_open:
            self._opened_at = self._clock()

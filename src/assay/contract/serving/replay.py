"""The same request id with the same body is the same run: joined while it runs, repeated after.

Only good results are kept. A run that failed may go better the next time.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from assay.contract.serving.execution import Execution, Outcome


@dataclass(frozen=True, slots=True)
class ReplayLimits:
    max_results: int = 1000
    max_bytes: int = 64_000_000
    ttl_s: float = 600.0


@dataclass(frozen=True, slots=True)
class _Stored:
    fingerprint: bytes
    outcome: Outcome
    expires: float


class Conflict(Exception):
    """The request id already belongs to another body."""


class RunStore:
    """Runs by request id. Bodies are kept as fingerprints only; results leave by age, by number
    and by size, the least recently used first."""

    def __init__(
        self, limits: ReplayLimits | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits or ReplayLimits()
        self._clock = clock
        self._running: dict[str, tuple[bytes, Execution]] = {}
        self._finished: OrderedDict[str, _Stored] = OrderedDict()
        self._bytes = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def stored(self) -> int:
        return len(self._finished)

    def find(self, request_id: str, fingerprint: bytes) -> Execution | Outcome | None:
        self._drop_old()
        if request_id in self._running:
            expected, execution = self._running[request_id]
            if not execution.abandoned:
                _require_same(expected, fingerprint)
                return execution
        stored = self._finished.get(request_id)
        if stored is not None and stored.expires > self._clock():
            _require_same(stored.fingerprint, fingerprint)
            self._finished.move_to_end(request_id)
            return stored.outcome
        return None

    def add(self, execution: Execution, fingerprint: bytes) -> None:
        request_id = execution.request.request_id
        self._running[request_id] = (fingerprint, execution)
        execution.task.add_done_callback(lambda _: self._finish(execution, fingerprint))

    def _finish(self, execution: Execution, fingerprint: bytes) -> None:
        request_id = execution.request.request_id
        _, current = self._running.get(request_id, (b"", None))
        if current is execution:  # an abandoned run may have been followed by a new one
            del self._running[request_id]
        if not execution.task.cancelled() and execution.task.result().ok:
            self._keep(request_id, fingerprint, execution.task.result())

    def _keep(self, request_id: str, fingerprint: bytes, outcome: Outcome) -> None:
        self._drop(request_id)
        expires = self._clock() + self._limits.ttl_s
        self._finished[request_id] = _Stored(fingerprint, outcome, expires)
        self._bytes += len(outcome.body)
        while (
            len(self._finished) > self._limits.max_results or self._bytes > self._limits.max_bytes
        ):
            self._drop(next(iter(self._finished)))

    def _drop_old(self) -> None:
        """Looks only at the front: a result that was used since is found out when it is asked
        for again, or when it gets there."""
        now = self._clock()
        while self._finished:
            request_id, stored = next(iter(self._finished.items()))
            if stored.expires > now:
                return
            self._drop(request_id)

    def _drop(self, request_id: str) -> None:
        stored = self._finished.pop(request_id, None)
        if stored is not None:
            self._bytes -= len(stored.outcome.body)


def _require_same(expected: bytes, got: bytes) -> None:
    if expected != got:
        raise Conflict

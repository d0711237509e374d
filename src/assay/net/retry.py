"""Retries with exponential backoff, the one reader of Retry-After, and the circuit breaker."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from assay.errors import RATE_LIMITED, AgentFailure, FailureKind

Result = TypeVar("Result")

# Seconds before each probe of a service whose circuit is open.
PROBE_PAUSES = (1.0, 2.0, 4.0, 8.0)
OUTAGES = frozenset({FailureKind.CONNECTION, FailureKind.TIMEOUT})


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait from a Retry-After header, a number or an HTTP date; None if malformed."""
    text = (value or "").strip()
    if not text or not text.isascii():
        return None
    if text.replace(".", "", 1).isdigit():
        seconds = float(text)
        return seconds if seconds < float("inf") else None
    try:
        when = parsedate_to_datetime(text)
        if when.tzinfo is None:  # some services send no zone, or -0000, which are UTC
            when = when.replace(tzinfo=UTC)
        return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to call again, and how long to wait in between.

    await RetryPolicy(attempts=5, timeout=60.0).run(call)
    """

    # Calls in all, the first included.
    attempts: int = 4
    # Seconds for one attempt as a whole, however slowly its bytes arrive.
    timeout: float | None = None
    # The upper bound of the first wait; it doubles with each attempt.
    first_delay: float = 0.5
    max_delay: float = 8.0
    # The longest wait that a service may ask for. If it asks for more, the call fails at once,
    # because calling earlier does not help, or with `cap_retry_after` waits no longer than this.
    max_retry_after: float = 60.0
    cap_retry_after: bool = False
    # How long one call waits in all for a service that says it is called too often (429), however
    # many attempts that takes; None to count them as any other.
    rate_limit_seconds: float | None = None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after failed attempt number `attempt` (1 for the first).

        What the service asked for, else exponential backoff with full jitter, which spreads the
        retries of concurrent callers best (Brooker, "Exponential Backoff And Jitter", 2015).
        """
        if retry_after is not None:
            return min(retry_after, self.max_retry_after)
        return random.uniform(0, min(self.max_delay, self.first_delay * 2.0 ** (attempt - 1)))

    async def run(
        self,
        call: Callable[[], Awaitable[Result]],
        *,
        should_retry: Callable[[Exception], bool] = lambda e: bool(getattr(e, "retryable", False)),
        on_timeout: Callable[[float], Exception] | None = None,
    ) -> Result:
        """Call until it succeeds, fails for good, or the attempts are used up.

        The last exception is raised unchanged, with the number of attempts as its `attempts`.
        `on_timeout` makes the exception for an attempt of more than `timeout` seconds.
        """
        attempt, waited = 0, 0.0
        while True:
            attempt += 1
            deadline = asyncio.timeout(self.timeout)
            try:
                async with deadline:
                    return await call()
            except Exception as raised:
                error = raised
                if on_timeout and self.timeout is not None and deadline.expired():
                    error = on_timeout(self.timeout)
                error.attempts = attempt  # type: ignore[attr-defined]
                delay = self._next_delay(error, attempt, waited) if should_retry(error) else None
                if delay is None:
                    raise error from error.__cause__
            waited += delay
            await self.sleep(delay)

    def _next_delay(self, error: Exception, attempt: int, waited: float) -> float | None:
        """Seconds until the next attempt; None if there is none."""
        after = getattr(error, "retry_after", None)
        if self.rate_limit_seconds and getattr(error, "status", None) == RATE_LIMITED:
            # Many limits are those of a minute: the pauses grow faster than after an error.
            delay = replace(self, first_delay=2.0, max_delay=32.0).delay(attempt, after)
            return delay if waited + delay <= self.rate_limit_seconds else None
        is_too_long = after is not None and after > self.max_retry_after
        if attempt >= self.attempts or (is_too_long and not self.cap_retry_after):
            return None
        return self.delay(attempt, after)


class CircuitLost(Exception):
    """The service stayed unreachable through every probe."""


class CircuitBreaker:
    """One breaker for one service: `async with breaker.guard(): ...` around each call.

    `threshold` outages in a row open it. `pauses` are the seconds before each probe; after the last
    one failed, the circuit is lost for good. `on_change` is told when it opens, closes or gives up.
    """

    def __init__(
        self,
        *,
        threshold: int = 10,
        pauses: Sequence[float] = PROBE_PAUSES,
        on_change: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self._threshold = threshold
        self._pauses = tuple(pauses)
        self._on_change = on_change
        self._failures = 0
        self._probes = 0  # 0: closed
        self._probe_at = 0.0
        self._probing = asyncio.Lock()
        self.lost = False

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Wait until a call may be made, and record how it ends. `CircuitLost` if none may be."""
        is_probe = self._probes > 0
        if is_probe:
            await self._probing.acquire()
        try:
            if self.lost:
                raise CircuitLost
            if is_probe and not self._probes:  # closed by the probe that was waited for
                is_probe = False
                self._probing.release()  # at once, so that all who waited go on together
            elif is_probe:
                await asyncio.sleep(max(0.0, self._probe_at - time.monotonic()))
            yield
        except AgentFailure as failure:
            self._record(is_probe, outage=failure.kind in OUTAGES)
            raise
        else:
            self._record(is_probe, outage=False)
        finally:
            if is_probe:
                self._probing.release()

    def _record(self, is_probe: bool, *, outage: bool) -> None:
        if not outage:
            if self._probes:
                self._on_change("the target responds again; continuing")
            self._failures = self._probes = 0
        elif is_probe or not self._probes:  # calls sent before the breaker opened are not probes
            self._failures += 1
            if not is_probe and self._failures < self._threshold:
                return
            if self._probes == len(self._pauses):
                self.lost = True
                self._on_change("the target is still unreachable; giving up")
                return
            pause = self._pauses[self._probes]
            self._probes += 1
            self._probe_at = time.monotonic() + pause
            self._on_change(
                f"{self._failures} calls in a row got no response; retrying in {pause:g} s"
            )

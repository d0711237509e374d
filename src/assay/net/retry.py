"""Retries with exponential backoff, and the one reader of Retry-After."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

Result = TypeVar("Result")


def parse_retry_after(value: str | None, now: datetime | None = None) -> float | None:
    """Seconds to wait from a Retry-After header: a number or an HTTP date (RFC 9110, 10.2.3).

    Fractions of a second are accepted, because some services send them. A date is always UTC: one
    without a zone, or with `-0000`, is not local time. None if the header is absent or
    malformed, 0 where the date has passed.
    """
    text = (value or "").strip()
    if not text or not text.isascii():
        return None
    if text.replace(".", "", 1).isdigit():
        seconds = float(text)
        return seconds if seconds < float("inf") else None
    try:
        when = parsedate_to_datetime(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def is_retryable(error: Exception) -> bool:
    """Whether the exception says of itself that another attempt can help."""
    return bool(getattr(error, "retryable", False))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often to call again, and how long to wait in between.

    Parameters:
        attempts: calls in all, the first included.
        timeout: seconds for one attempt as a whole, however slowly its bytes arrive.
        first_delay: upper bound of the first wait; it doubles with each attempt.
        max_delay: the longest wait of our own choice.
        max_retry_after: the longest wait that a service may ask for.
        cap_retry_after: whether a longer request is shortened to `max_retry_after`; otherwise the
            call fails at once, because calling earlier than asked does not help.
        sleep: replaced in tests.
    """

    attempts: int = 4
    timeout: float | None = None
    first_delay: float = 0.5
    max_delay: float = 8.0
    max_retry_after: float = 60.0
    cap_retry_after: bool = False
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def delay(self, attempt: int, retry_after: float | None = None) -> float:
        """Seconds to wait after failed attempt number `attempt` (1 for the first).

        What the service asked for, else exponential backoff with full jitter, which spreads the
        retries of concurrent callers best (Brooker, "Exponential Backoff And Jitter", 2015).
        """
        if retry_after is not None:
            return min(retry_after, self.max_retry_after)
        return random.uniform(0, min(self.max_delay, self.first_delay * 2.0 ** (attempt - 1)))

    def gives_up(self, attempt: int, retry_after: float | None = None) -> bool:
        """Whether no further attempt follows the failed attempt number `attempt`."""
        too_long = retry_after is not None and retry_after > self.max_retry_after
        return attempt >= self.attempts or (too_long and not self.cap_retry_after)

    async def run(
        self,
        call: Callable[[], Awaitable[Result]],
        *,
        should_retry: Callable[[Exception], bool] = is_retryable,
        on_timeout: Callable[[float], Exception] | None = None,
    ) -> Result:
        """Call until it succeeds, fails for good, or the attempts are used up.

        The last exception is raised unchanged, with the number of attempts as its `attempts`
        attribute. `retry_after`, where an exception has it, is honored. `on_timeout` makes the
        exception for an attempt that exceeded `timeout` seconds; `TimeoutError` otherwise.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._attempt(call, on_timeout)
            except Exception as error:
                error.attempts = attempt  # type: ignore[attr-defined]
                after = getattr(error, "retry_after", None)
                if not should_retry(error) or self.gives_up(attempt, after):
                    raise
                await self.sleep(self.delay(attempt, after))

    async def _attempt(
        self,
        call: Callable[[], Awaitable[Result]],
        on_timeout: Callable[[float], Exception] | None,
    ) -> Result:
        if self.timeout is None:
            return await call()
        deadline = asyncio.timeout(self.timeout)
        try:
            async with deadline:
                return await call()
        except TimeoutError:
            if on_timeout is None or not deadline.expired():
                raise
            raise on_timeout(self.timeout) from None

"""Retries, backoff and the Retry-After header."""

import asyncio
from datetime import UTC, datetime

import pytest

from assay.net.retry import RetryPolicy, parse_retry_after

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


class Failing(Exception):
    def __init__(self, *, retryable: bool = True, retry_after: float | None = None) -> None:
        super().__init__("on purpose")
        self.retryable = retryable
        self.retry_after = retry_after


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("1.5.5", None),
        ("Sun, 15 Nov 2026 12:01:30 GMT", 90.0),
        ("Sun, 15 Nov 2026 12:01:30 -0000", 90.0),
        ("Sun, 15 Nov 2026 13:01:30 +0100", 90.0),
        ("Sun, 15 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("1e9", None),
        ("٣", None),
        ("9" * 400, None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, NOW) == seconds


async def test_retryable_errors_are_retried_and_counted() -> None:
    slept: list[float] = []
    policy = RetryPolicy(attempts=3, sleep=_recorded(slept))
    calls = 0

    async def call() -> str:
        nonlocal calls
        calls += 1
        raise Failing(retry_after=7)

    with pytest.raises(Failing) as caught:
        await policy.run(call)
    assert (calls, slept, getattr(caught.value, "attempts", 0)) == (3, [7, 7], 3)


@pytest.mark.parametrize("error", [Failing(retryable=False), ValueError()])
async def test_permanent_errors_are_raised_at_once(error: Exception) -> None:
    calls = 0

    async def call() -> None:
        nonlocal calls
        calls += 1
        raise error

    with pytest.raises(type(error)):
        await RetryPolicy(sleep=_recorded([])).run(call)
    assert calls == 1


@pytest.mark.parametrize(
    ("cap", "after", "slept"), [(True, 3600, [60.0]), (False, 60.5, []), (False, 60.0, [60.0])]
)
async def test_a_wait_that_is_too_long_is_capped_or_ends_it(
    cap: bool, after: float, slept: list[float]
) -> None:
    found: list[float] = []
    policy = RetryPolicy(attempts=2, cap_retry_after=cap, sleep=_recorded(found))

    async def call() -> None:
        raise Failing(retry_after=after)

    with pytest.raises(Failing):
        await policy.run(call)
    assert found == slept


async def test_the_timeout_bounds_an_attempt() -> None:
    async def call() -> None:
        await asyncio.sleep(30)

    policy = RetryPolicy(attempts=1, timeout=0.02)
    with pytest.raises(Failing):
        await policy.run(call, on_timeout=lambda _seconds: Failing())
    with pytest.raises(TimeoutError):
        await policy.run(call)


def _recorded(slept: list[float]):  # type: ignore[no-untyped-def]
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return sleep


def test_the_longest_wait_doubles_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    policy = RetryPolicy()
    assert [policy.delay(attempt) for attempt in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]

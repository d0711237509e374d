"""Retries, backoff, the Retry-After header, and the circuit breaker."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from assay.errors import AgentFailure, FailureKind
from assay.net.retry import CircuitBreaker, CircuitLost, RetryPolicy, parse_retry_after

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


@pytest.mark.parametrize(
    ("error", "cap", "slept"),
    [
        (Failing(retry_after=7), False, [7, 7]),
        (Failing(retry_after=60.0), False, [60.0, 60.0]),
        (Failing(retry_after=60.5), False, []),
        (Failing(retry_after=3600), True, [60.0, 60.0]),
        (Failing(retryable=False), False, []),
        (ValueError(), False, []),
    ],
)
async def test_retries_and_their_waits(error: Exception, cap: bool, slept: list[float]) -> None:
    found: list[float] = []
    calls = 0

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    async def call() -> None:
        nonlocal calls
        calls += 1
        raise error

    with pytest.raises(type(error)) as caught:
        await RetryPolicy(attempts=3, cap_retry_after=cap, sleep=sleep).run(call)
    assert (found, calls, getattr(caught.value, "attempts", 0)) == (slept, *[len(slept) + 1] * 2)


async def test_the_timeout_bounds_an_attempt() -> None:
    async def call() -> None:
        await asyncio.sleep(30)

    policy = RetryPolicy(attempts=1, timeout=0.02)
    with pytest.raises(Failing):
        await policy.run(call, on_timeout=lambda _seconds: Failing())
    with pytest.raises(TimeoutError):
        await policy.run(call)


def test_the_longest_wait_doubles_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    policy = RetryPolicy()
    assert [policy.delay(attempt) for attempt in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]


# --- circuit breaker ------------------------------------------------------------------------------


async def call(circuit: CircuitBreaker, *, fails: bool = False) -> None:
    with suppress(AgentFailure):
        async with circuit.guard():
            await asyncio.sleep(0)  # all who ask at once are let through before the first fails
            if fails:
                raise AgentFailure(FailureKind.CONNECTION, "refused")


async def test_a_success_starts_the_count_again() -> None:
    circuit = CircuitBreaker(threshold=3, pauses=(60,))
    for _ in range(5):
        await call(circuit, fails=True)
        await call(circuit, fails=True)
        await call(circuit)
    await asyncio.wait_for(call(circuit), 1)


async def test_one_probe_goes_out_while_the_others_wait() -> None:
    circuit = CircuitBreaker(threshold=2, pauses=(0.01, 60))
    await asyncio.gather(*(call(circuit, fails=True) for _ in range(8)))
    under_way = most = 0

    async def counted() -> None:
        nonlocal under_way, most
        async with circuit.guard():
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.05 if most == 1 else 0)
            under_way -= 1

    waiting = [asyncio.create_task(counted()) for _ in range(5)]
    await asyncio.sleep(0.04)
    assert (under_way, most) == (1, 1)
    await asyncio.wait_for(asyncio.gather(*waiting), 1)


async def test_the_target_is_lost_when_every_probe_failed() -> None:
    said: list[str] = []
    circuit = CircuitBreaker(threshold=2, pauses=(0.0, 0.0), on_change=said.append)
    for _ in range(4):
        await call(circuit, fails=True)
    with pytest.raises(CircuitLost):
        await call(circuit)
    assert circuit.lost
    assert "giving up" in said[-1]


async def test_a_probe_that_is_canceled_while_it_waits_makes_room_for_another() -> None:
    circuit = CircuitBreaker(threshold=1, pauses=(0.05, 60))
    await call(circuit, fails=True)
    probe, waiting = (asyncio.create_task(call(circuit)) for _ in range(2))
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(call(circuit), 1)

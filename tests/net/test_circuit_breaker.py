"""The circuit breaker: when it opens, who may try again, and when it gives up."""

import asyncio

import pytest

from assay.net.retry import CircuitBreaker, CircuitLost, CircuitOpen


async def fail(circuit: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        circuit.record(await circuit.enter(), outage=True)


async def test_failures_below_the_threshold_hold_nobody_up() -> None:
    circuit = CircuitBreaker(threshold=3, pauses=(60,))
    await fail(circuit, 2)
    await asyncio.wait_for(circuit.enter(), 1)


async def test_a_success_starts_the_count_again() -> None:
    circuit = CircuitBreaker(threshold=3, pauses=(60,))
    for _ in range(5):
        await fail(circuit, 2)
        circuit.record(await circuit.enter(), outage=False)
    await asyncio.wait_for(circuit.enter(), 1)


async def test_an_outage_holds_callers_back() -> None:
    circuit = CircuitBreaker(threshold=3, pauses=(60,))
    await fail(circuit, 3)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(circuit.enter(), 0.01)


async def test_one_probe_goes_out_while_the_others_wait() -> None:
    circuit = CircuitBreaker(threshold=2, pauses=(0.01, 60))
    await fail(circuit, 2)
    entering = [asyncio.create_task(circuit.enter()) for _ in range(5)]
    done, waiting = await asyncio.wait(entering, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0.05)
    assert len([task for task in entering if task.done()]) == 1
    circuit.record(done.pop().result(), outage=False)
    await asyncio.wait_for(asyncio.gather(*waiting), 1)


async def test_the_target_is_lost_when_every_probe_failed() -> None:
    said: list[str] = []
    circuit = CircuitBreaker(threshold=2, pauses=(0.0, 0.0), on_change=said.append)
    await fail(circuit, 2)
    waiting = asyncio.create_task(fail(circuit, 2))
    await waiting
    with pytest.raises(CircuitLost):
        await circuit.enter()
    assert circuit.lost
    assert said[-1] == "the target is still unreachable; giving up"


async def test_calls_sent_before_it_opened_do_not_count_as_probes() -> None:
    circuit = CircuitBreaker(threshold=2, pauses=(60, 60))
    tickets = [await circuit.enter() for _ in range(8)]
    for ticket in tickets:
        circuit.record(ticket, outage=True)
    assert not circuit.lost


async def test_a_probe_that_is_canceled_while_it_waits_makes_room_for_another() -> None:
    circuit = CircuitBreaker(threshold=2, pauses=(0.05, 60))
    await fail(circuit, 2)
    probe = asyncio.create_task(circuit.enter())
    waiting = asyncio.create_task(circuit.enter())
    await asyncio.sleep(0)
    probe.cancel()
    circuit.record(await asyncio.wait_for(waiting, 5), outage=False)
    assert not circuit.is_open


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Outage(Exception):
    pass


def call(breaker: CircuitBreaker, error: Exception | None = None) -> str:
    """How a call that ends in `error` looks to its caller."""
    try:
        with breaker.call(lambda error: True if isinstance(error, Outage) else None):
            if error is not None:
                raise error
    except CircuitOpen as refused:
        return f"open for {refused.retry_after:g} s"
    except (Outage, ValueError):
        return "failed"
    return "ok"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(clock: Clock) -> CircuitBreaker:
    breaker = CircuitBreaker(threshold=5, pauses=(30,), repeat_last_pause=True, clock=clock)
    for _ in range(5):
        call(breaker, Outage())
    return breaker


def test_a_client_fails_fast_while_it_is_open(opened: CircuitBreaker, clock: Clock) -> None:
    clock.now = 29
    assert call(opened) == "open for 1 s"


def test_after_the_pause_a_success_closes_it(opened: CircuitBreaker, clock: Clock) -> None:
    clock.now = 30
    assert [call(opened), opened.is_open, call(opened)] == ["ok", False, "ok"]


def test_after_the_pause_a_failure_opens_it_again(opened: CircuitBreaker, clock: Clock) -> None:
    for now in (30, 60, 90):
        clock.now = now
        assert call(opened, Outage()) == "failed"
        assert call(opened) == "open for 30 s"
    assert not opened.lost


def test_only_one_probe_at_a_time(opened: CircuitBreaker, clock: Clock) -> None:
    clock.now = 30
    with opened.call(lambda _error: True):
        assert call(opened) == "open for 0 s"
    assert call(opened) == "ok"


@pytest.mark.parametrize("unrelated", [ValueError(), asyncio.CancelledError()])
def test_a_probe_that_says_nothing_leaves_room_for_another(
    opened: CircuitBreaker, clock: Clock, unrelated: BaseException
) -> None:
    clock.now = 30
    with (
        pytest.raises(type(unrelated)),
        opened.call(lambda error: None),
    ):
        raise unrelated
    assert opened.is_open
    assert call(opened) == "ok"


@pytest.mark.parametrize("unrelated", [ValueError(), asyncio.CancelledError()])
def test_a_call_from_before_the_outage_lets_no_second_probe_out(
    clock: Clock, unrelated: BaseException
) -> None:
    breaker = CircuitBreaker(threshold=5, pauses=(30,), repeat_last_pause=True, clock=clock)
    early, probe = breaker.call(lambda error: None), breaker.call(lambda error: None)
    early.__enter__()
    for _ in range(5):
        call(breaker, Outage())
    clock.now = 30
    probe.__enter__()
    early.__exit__(type(unrelated), unrelated, None)
    assert call(breaker) == "open for 0 s"

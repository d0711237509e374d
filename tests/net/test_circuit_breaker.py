"""The circuit breaker: when it opens, who may try again, and when it gives up."""

import asyncio

import pytest

from assay.net.retry import CircuitBreaker, CircuitLost


async def fail(circuit: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        circuit.record(await circuit.enter(), outage=True)


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
    await circuit.enter()

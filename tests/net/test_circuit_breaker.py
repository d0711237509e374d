"""The circuit breaker: when it opens, which call is the probe, and when it gives up."""

import asyncio
from contextlib import suppress

import pytest

from assay.errors import AgentFailure, FailureKind
from assay.net.retry import CircuitBreaker, CircuitLost


async def call(circuit: CircuitBreaker, *, fails: bool = False, seconds: float = 0.0) -> None:
    with suppress(AgentFailure):
        async with circuit.guard():
            await asyncio.sleep(seconds)
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
    assert said[-1] == "the target is still unreachable; giving up"


async def test_a_probe_that_is_canceled_while_it_waits_makes_room_for_another() -> None:
    circuit = CircuitBreaker(threshold=1, pauses=(0.05, 60))
    await call(circuit, fails=True)
    probe = asyncio.create_task(call(circuit))
    waiting = asyncio.create_task(call(circuit))
    await asyncio.sleep(0)
    probe.cancel()
    await asyncio.wait_for(waiting, 5)
    await asyncio.wait_for(call(circuit), 1)

import asyncio

import pytest

from assay.agents import FailureKind
from assay.evaluate.circuit import Circuit, TargetLost


async def fail(circuit: Circuit, times: int, kind: FailureKind = FailureKind.CONNECTION) -> None:
    for _ in range(times):
        circuit.record(await circuit.enter(), kind)


async def test_failures_below_the_threshold_hold_nobody_up() -> None:
    circuit = Circuit(threshold=3, pauses=(60,))
    await fail(circuit, 2)
    await asyncio.wait_for(circuit.enter(), 1)


async def test_a_success_starts_the_count_again() -> None:
    circuit = Circuit(threshold=3, pauses=(60,))
    for _ in range(5):
        await fail(circuit, 2)
        circuit.record(await circuit.enter(), None)
    await asyncio.wait_for(circuit.enter(), 1)


async def test_answers_that_are_wrong_are_no_outage() -> None:
    circuit = Circuit(threshold=3, pauses=(60,))
    await fail(circuit, 20, FailureKind.AGENT_ERROR)
    await fail(circuit, 20, FailureKind.INVALID_ANSWER)
    await asyncio.wait_for(circuit.enter(), 1)


@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.CONNECTION])
async def test_no_answer_of_either_kind_is_an_outage(kind: FailureKind) -> None:
    circuit = Circuit(threshold=3, pauses=(60,))
    await fail(circuit, 3, kind)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(circuit.enter(), 0.01)


async def test_one_probe_goes_out_while_the_others_wait() -> None:
    circuit = Circuit(threshold=2, pauses=(0.01, 60))
    await fail(circuit, 2)
    entering = [asyncio.create_task(circuit.enter()) for _ in range(5)]
    done, waiting = await asyncio.wait(entering, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0.05)
    assert len([task for task in entering if task.done()]) == 1
    circuit.record(done.pop().result(), None)
    await asyncio.wait_for(asyncio.gather(*waiting), 1)


async def test_the_target_is_lost_when_every_probe_failed() -> None:
    said: list[str] = []
    circuit = Circuit(threshold=2, pauses=(0.0, 0.0), say=said.append)
    await fail(circuit, 2)
    waiting = asyncio.create_task(fail(circuit, 2))
    await waiting
    with pytest.raises(TargetLost):
        await circuit.enter()
    assert circuit.lost
    assert said[-1] == "the target stays out of reach; giving up"


async def test_calls_sent_before_it_opened_do_not_count_as_probes() -> None:
    circuit = Circuit(threshold=2, pauses=(60, 60))
    tickets = [await circuit.enter() for _ in range(8)]
    for ticket in tickets:
        circuit.record(ticket, FailureKind.TIMEOUT)
    assert not circuit.lost

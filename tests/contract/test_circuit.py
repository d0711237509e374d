"""The circuit breaker, by a clock of the test's own."""

import asyncio

import pytest

from assay.contract.circuit import CircuitBreaker
from assay.contract.responses import AgentCallError, Fault


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def call(circuit: CircuitBreaker, fault: Fault | None = None) -> Fault | None:
    """What the caller sees of a call that ends in `fault`."""
    try:
        with circuit.call():
            if fault is not None:
                raise AgentCallError(fault, "on purpose")
    except AgentCallError as error:
        return error.fault
    return None


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(clock: Clock) -> CircuitBreaker:
    circuit = CircuitBreaker(5, 30, clock)
    for _ in range(5):
        call(circuit, Fault.TIMEOUT)
    return circuit


def test_four_failures_leave_it_closed(clock: Clock) -> None:
    circuit = CircuitBreaker(5, 30, clock)
    for _ in range(4):
        call(circuit, Fault.TIMEOUT)
    assert call(circuit) is None


def test_a_success_forgets_the_failures_before_it(clock: Clock) -> None:
    circuit = CircuitBreaker(5, 30, clock)
    for fault in [Fault.TIMEOUT] * 4 + [None] + [Fault.TIMEOUT] * 4:
        call(circuit, fault)
    assert not circuit.is_open


def test_a_refusal_is_the_request_s_fault(clock: Clock) -> None:
    circuit = CircuitBreaker(5, 30, clock)
    for _ in range(9):
        assert call(circuit, Fault.REFUSED) is Fault.REFUSED
    assert not circuit.is_open


def test_while_open_nobody_is_asked(opened: CircuitBreaker, clock: Clock) -> None:
    clock.now = 29.9
    assert call(opened) is Fault.CIRCUIT_OPEN


def test_after_a_while_a_success_closes_it(opened: CircuitBreaker, clock: Clock) -> None:
    clock.now = 30
    assert call(opened) is None
    assert not opened.is_open


def test_after_a_while_a_failure_opens_it_again(opened: CircuitBreaker, clock: Clock) -> None:
    clock.now = 30
    assert call(opened, Fault.TIMEOUT) is Fault.TIMEOUT
    clock.now = 59
    assert call(opened) is Fault.CIRCUIT_OPEN


def test_only_one_call_tries_whether_it_is_well_again(opened: CircuitBreaker, clock: Clock) -> None:
    clock.now = 30
    with opened.call():
        assert call(opened) is Fault.CIRCUIT_OPEN
    assert call(opened) is None


def test_a_trial_that_is_cancelled_leaves_room_for_another(
    opened: CircuitBreaker, clock: Clock
) -> None:
    clock.now = 30
    with pytest.raises(asyncio.CancelledError), opened.call():
        raise asyncio.CancelledError
    assert opened.is_open
    assert call(opened) is None

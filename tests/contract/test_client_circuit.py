"""The circuit of the client: what opens it, what does not, and how it recovers."""

import asyncio
from dataclasses import replace

import pytest
from tests.contract.client_calls import REQUEST, tampered
from tests.contract.running import running
from tests.contract.tampering import Reply

from assay.contract.client import AgentClient
from assay.contract.responses import AgentCallError, Fault


async def test_rejected_requests_do_not_open_the_circuit() -> None:
    app = tampered(lambda reply: replace(reply, status=422))
    async with running(app) as url, AgentClient(failures_to_open=2) as client:
        for _ in range(4):
            with pytest.raises(AgentCallError) as caught:
                await client.run_sync(url, REQUEST)
            assert caught.value.fault is Fault.REFUSED


async def test_the_circuit_opens_after_five_failures_and_recovers() -> None:
    broken = True
    asked = 0

    def sometimes(reply: Reply) -> Reply:
        nonlocal asked
        asked += 1
        return replace(reply, status=500) if broken else reply

    async with running(tampered(sometimes)) as url, AgentClient(recovery_s=0.2) as client:

        async def fault() -> Fault | None:
            try:
                await client.run_sync(url, REQUEST)
            except AgentCallError as error:
                return error.fault
            return None

        assert [await fault() for _ in range(5)] == [Fault.SERVER_ERROR] * 5
        assert await fault() is Fault.CIRCUIT_OPEN
        assert asked == 5
        broken = False
        while (found := await fault()) is Fault.CIRCUIT_OPEN:
            await asyncio.sleep(0.02)
        assert found is None
        assert asked == 6


async def test_answers_that_cannot_be_used_open_the_circuit_too() -> None:
    app = tampered(lambda reply: reply.with_json({"status": "ok"}))
    async with running(app) as url, AgentClient(failures_to_open=2) as client:
        faults = []
        for _ in range(3):
            with pytest.raises(AgentCallError) as caught:
                await client.run_sync(url, REQUEST)
            faults.append(caught.value.fault)
    assert faults == [Fault.NOT_CONTRACT, Fault.NOT_CONTRACT, Fault.CIRCUIT_OPEN]

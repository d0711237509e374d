"""DNS rebinding: a name that answers with an allowed address when it is checked and with another
when it is connected to. In every protocol the connection goes to the address that was checked.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.hostile.driver import NOTHING, PROTOCOLS, QUERY
from tests.hostile.server import HostileServer

from assay.errors import AgentFailure, TargetError
from assay.net.outbound import OutboundPolicy
from assay.serve.listening import bind
from assay.targets import target_kinds
from assay.targets.target_kinds import OpenContext, open_target

CHECKED, ELSEWHERE = "127.0.0.1", "127.0.0.2"
NAME = "agent.example"


class Rebinding:
    """In the place of the system's resolver: every second answer is another address."""

    def __init__(self) -> None:
        self.answers = 0
        self._system = socket.getaddrinfo

    def __call__(self, host: Any, port: Any, *rest: Any, **options: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return self._system(host, port, *rest, **options)
        self.answers += 1
        address = CHECKED if self.answers % 2 else ELSEWHERE
        return self._system(address, port, *rest, **options)


@contextlib.asynccontextmanager
async def internal_service(port: int) -> AsyncIterator[list[int]]:
    visits: list[int] = []

    async def note(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(1)
        writer.close()

    server = await asyncio.start_server(note, ELSEWHERE, port)
    async with server:
        yield visits


@contextlib.asynccontextmanager
async def agent() -> AsyncIterator[int]:
    with bind(CHECKED, 0) as listener:
        port = int(listener.getsockname()[1])
        serving = asyncio.create_task(HostileServer(f"http://{NAME}:{port}").serve(listener))
        try:
            yield port
        finally:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await serving


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_the_connection_goes_to_the_address_that_was_checked(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = OutboundPolicy((CHECKED,), public_only=True)
    rebinding = Rebinding()
    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    # It would refuse the name before anything is resolved: this is about what stands behind it.
    monkeypatch.setattr(target_kinds, "check_permitted", lambda *_: None)
    async with agent() as port, internal_service(port) as visits:
        target = PROTOCOLS[protocol].format(url=f"http://{NAME}:{port}/gzip")
        client = open_target(target, OpenContext(NOTHING, policy=policy))
        with contextlib.suppress(AgentFailure, TargetError):  # each second check refuses
            await client.open()
            await client.ask(QUERY, 5)
        await client.close()
    assert rebinding.answers >= 2
    assert not visits

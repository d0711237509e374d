"""An agent under the test's control, behind a real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from tests.contract.running import running

from assay.contract.envelope import AgentRunRequest, AgentRunResponse, succeeded
from assay.contract.server import AgentService, ReportProgress, ServingLimits, Work, agent_app
from assay.serve.request_log import RequestLog

StartAgent = Callable[..., Awaitable[httpx.AsyncClient]]


@dataclass
class Gate:
    """Work that waits: `entered` when it has begun, on until `release` is set."""

    entered: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0

    async def work(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        report("waiting", percent=1)
        self.entered.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            self.left.set()
            raise
        return succeeded(request, {})


@pytest.fixture
async def start_agent() -> AsyncIterator[StartAgent]:
    """Serves a piece of work as a TEST agent and gives a client of it."""
    async with AsyncExitStack() as stack:

        async def start(work: Work, **limits: Any) -> httpx.AsyncClient:
            service = AgentService("test", "TEST", work, limits=ServingLimits(**limits))
            url = await stack.enter_async_context(running(RequestLog(agent_app(service))))
            client = httpx.AsyncClient(base_url=url, timeout=30)
            return await stack.enter_async_context(client)

        yield start


@pytest.fixture
def gate() -> Gate:
    return Gate()

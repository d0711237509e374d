"""A request, and the ways to send it with the client of the contract."""

from contextlib import aclosing
from typing import Any

from starlette.types import ASGIApp
from tests.contract.demo_agent import demo_service
from tests.contract.running import running
from tests.contract.tampering import Tamper, Tampered

from assay.contract.client import AgentClient, AgentEvent, ClientLimits
from assay.contract.envelope import AgentRunRequest, AgentRunResponse
from assay.contract.server.app import agent_app

REQUEST = AgentRunRequest(
    request_id="r1", task_type="RAG_RETRIEVE", inputs={"query": "blood pressure"}
)


async def follow(client: AgentClient, agent: str) -> list[AgentEvent]:
    async with aclosing(client.run_stream(agent, REQUEST)) as events:
        return [event async for event in events]


async def ask(app: ASGIApp, way: str, **limits: Any) -> AgentRunResponse:
    async with running(app) as url, AgentClient(limits=ClientLimits(**limits)) as client:
        if way == "sync":
            return await client.run_sync(url, REQUEST)
        response = (await follow(client, url))[-1].response
        assert response is not None
        return response


def tampered(tamper: Tamper) -> ASGIApp:
    return Tampered(agent_app(demo_service()), tamper)


def events_changed(change: Any) -> ASGIApp:
    return tampered(lambda reply: reply.with_events(change(reply.events)))

"""A bare address is enough: what speaks there is found out."""

import pytest
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from tests.contract.plain_agent import PlainAgent
from tests.contract.running import running
from tests.interop.server10 import agent_app

from assay.data import Dataset
from assay.errors import TargetError
from assay.targets import AgentAnswer, AgentInfo
from assay.targets.health_check import ProbedAgent, probe
from assay.targets.target_kinds import OpenContext, open_target

NOTHING = Dataset(name="none", documents={}, queries={}, judgments={})


async def test_an_a2a_agent_is_found() -> None:
    async with running(agent_app()) as url:
        assert await probe(url) == f"a2a:{url}"


@pytest.mark.parametrize("path", ["", "/", "/mcp"])
async def test_an_mcp_server_is_found(path: str) -> None:
    mcp = MCPServer("searcher")
    app = mcp.streamable_http_app()
    async with running(app) as url, mcp.session_manager.run():
        found = await probe(url + path)
    assert found == f"mcp:{url}/mcp"


@pytest.mark.parametrize("task", ["RAG_RETRIEVE", "LIT_RETRIEVAL", "POLICY_REVIEW"])
async def test_an_agent_of_the_http_contract_is_found_if_its_task_retrieves(task: str) -> None:
    agent = PlainAgent()
    agent.task = task
    async with running(agent) as url:
        if task == "POLICY_REVIEW":
            with pytest.raises(TargetError, match="does neither RAG_RETRIEVE nor LIT_RETRIEVAL"):
                await probe(url)
        else:
            assert await probe(url) == f"http:{url}={task}"


async def test_what_was_tried_is_told_without_a_key_where_nothing_is_recognised() -> None:
    asked: list[str] = []

    async def nothing(request: Request) -> JSONResponse:
        asked.append(str(request.url))
        return JSONResponse({}, 404)

    app = Starlette(routes=[Route("/{path:path}", nothing, methods=["GET", "POST"])])
    async with running(app) as url:
        with pytest.raises(TargetError, match="cannot detect the protocol") as caught:
            await probe(f"{url}?key=secret")
    message = str(caught.value)
    assert "A2A: no agent card at /.well-known/agent-card.json" in message
    assert "secret" not in message
    assert any(each.endswith("/mcp?key=secret") for each in asked)
    assert not any("secret/" in each for each in asked)


async def test_a_bare_target_becomes_the_agent_that_was_found() -> None:
    async with running(agent_app()) as url:
        agent = open_target(url, OpenContext(NOTHING, track="trained"))
        assert isinstance(agent, ProbedAgent)
        assert agent.info == AgentInfo(url, "unknown")
        try:
            await agent.open()
            answer = await agent.ask("data x", 2)
        finally:
            await agent.close()
    assert answer == AgentAnswer(("d1", "d2"), answer="int")
    assert (agent.info.name, agent.info.track) == (f"a2a:{url}", "trained")

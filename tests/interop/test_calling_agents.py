"""Our client against real agents: those of the library's old and of its new generation."""

from collections.abc import Iterator

import pytest
from tests.contract.running import running
from tests.interop.old_library import old_agent_running
from tests.interop.server10 import agent_app
from tests.targets.every_kind import opened_target
from tests.tiny_dataset import tiny_dataset

from assay.errors import AgentFailure, FailureKind
from assay.targets.a2a import A2AAgent
from assay.targets.protocol import AgentAnswer
from assay.targets.target_kinds import OpenContext, Target

CONTEXT = OpenContext(tiny_dataset(1))
both_ways = pytest.mark.parametrize("way", ["", "#stream"])


async def ask(url: str, query: str, way: str) -> AgentAnswer:
    async with opened_target(f"a2a:{url}{way}", CONTEXT) as agent:
        return await agent.ask(query, 2)


async def failure(url: str, query: str, way: str) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        await ask(url, query, way)
    assert "secret" not in str(caught.value)
    return caught.value


@pytest.fixture(scope="module")
def old_agent() -> Iterator[str]:
    with old_agent_running("server03.py") as url:
        yield url


# What type top_k had when it arrived is the text of the answer.
UNDERSTOOD = AgentAnswer(("d1", "d2"), answer="int")


@both_ways
@pytest.mark.parametrize("query", ["data x", "text x", "message x"])
async def test_an_old_agent_is_understood(old_agent: str, query: str, way: str) -> None:
    assert await ask(old_agent, query, way) == UNDERSTOOD


@both_ways
async def test_failures_of_an_old_agent_are_findings(old_agent: str, way: str) -> None:
    error = await failure(old_agent, "raise x", way)
    cut_off = (FailureKind.PROTOCOL, False)
    assert (error.kind, error.retryable) == (cut_off if way else (FailureKind.AGENT_ERROR, False))
    refusal = await failure(old_agent, "reject x", way)
    assert (refusal.kind, str(refusal)) == (FailureKind.AGENT_ERROR, "the task ended 'rejected'")


@both_ways
@pytest.mark.parametrize("query", ["data x", "text x", "message x"])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_new_agent_is_understood(version: str, query: str, way: str) -> None:
    async with running(agent_app((version,))) as url:
        assert await ask(url, query, way) == UNDERSTOOD


@both_ways
async def test_a_new_agents_failures_are_told_without_its_words(way: str) -> None:
    async with running(agent_app()) as url:
        error = await failure(url, "raise x", way)
        refusal = await failure(url, "reject x", way)
    assert (error.kind, str(error)) == (FailureKind.AGENT_ERROR, "error -32603")
    assert str(refusal) == "the task ended 'rejected'"


@pytest.mark.parametrize("version", ["", "0.2.5", "0.3"])
async def test_a_new_agent_that_declares_an_old_version(version: str) -> None:
    async with running(agent_app((version,), compatible=False)) as url:
        agent = A2AAgent(Target("a2a", url), CONTEXT)
        await agent.open()
        assert agent.interface.version == "0.3"
        answers = [await agent.ask("data x", 1) for _ in range(2)]
        await agent.close()
    assert [answer.doc_ids for answer in answers] == [("d1",), ("d1",)]
    assert agent.interface.version == "1.0"
    assert [remedy for _, remedy in agent.findings if "1.0" in remedy]

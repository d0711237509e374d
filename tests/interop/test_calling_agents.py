"""Our client against real agents: those of the library's old and of its new generation."""

from collections.abc import Iterator

import pytest
from tests.contract.running import running
from tests.interop.old_library import old_agent_running
from tests.interop.server10 import agent_app
from tests.tiny_dataset import tiny_dataset

from assay.errors import AgentFailure, FailureKind
from assay.targets import open_target
from assay.targets.a2a import A2AAgent
from assay.targets.protocol import AgentAnswer
from assay.targets.target_kinds import OpenContext, Target

CONTEXT = OpenContext(tiny_dataset(1))
WAYS = [False, True]
"""Blocking and streaming."""


async def ask(url: str, query: str, *, streaming: bool) -> AgentAnswer:
    agent = open_target(f"a2a:{url}{'#stream' * streaming}", CONTEXT)
    try:
        await agent.open()
        return await agent.ask(query, 2)
    finally:
        await agent.close()


async def failure(url: str, query: str, *, streaming: bool) -> AgentFailure:
    with pytest.raises(AgentFailure) as caught:
        await ask(url, query, streaming=streaming)
    assert "secret" not in str(caught.value)
    return caught.value


@pytest.fixture(scope="module")
def old_agent() -> Iterator[str]:
    with old_agent_running("server03.py") as url:
        yield url


@pytest.mark.parametrize("streaming", WAYS)
@pytest.mark.parametrize("query", ["data", "text", "message"])
async def test_an_old_agent_is_understood(old_agent: str, query: str, streaming: bool) -> None:
    answer = await ask(old_agent, f"{query} x", streaming=streaming)
    assert answer.doc_ids == ("d1", "d2")
    assert answer.answer == "int"  # what type top_k had when it arrived


async def test_an_old_agent_that_breaks_mid_stream_is_a_finding(old_agent: str) -> None:
    cut = await failure(old_agent, "raise x", streaming=True)
    assert (cut.kind, cut.retryable) == (FailureKind.PROTOCOL, False)
    error = await failure(old_agent, "raise x", streaming=False)
    assert error.kind is FailureKind.AGENT_ERROR


@pytest.mark.parametrize("streaming", WAYS)
async def test_an_old_agents_refusal_names_the_state(old_agent: str, streaming: bool) -> None:
    refusal = await failure(old_agent, "reject x", streaming=streaming)
    assert refusal.kind is FailureKind.AGENT_ERROR
    assert str(refusal) == "the task ended 'rejected'"


@pytest.mark.parametrize("streaming", WAYS)
@pytest.mark.parametrize("query", ["data", "text", "message"])
@pytest.mark.parametrize("version", ["1.0", "0.3"])
async def test_a_new_agent_is_understood(version: str, query: str, streaming: bool) -> None:
    async with running(agent_app((version,))) as url:
        answer = await ask(url, f"{query} x", streaming=streaming)
    assert answer.doc_ids == ("d1", "d2")
    assert answer.answer == "int"


@pytest.mark.parametrize("streaming", WAYS)
async def test_a_new_agents_failures_are_told_without_its_words(streaming: bool) -> None:
    async with running(agent_app()) as url:
        error = await failure(url, "raise x", streaming=streaming)
        refusal = await failure(url, "reject x", streaming=streaming)
    assert (error.kind, str(error)) == (FailureKind.AGENT_ERROR, "error -32603")
    assert str(refusal) == "the task ended 'rejected'"


@pytest.mark.parametrize("version", ["", "0.2.5", "0.3"])
async def test_a_new_agent_that_declares_an_old_version_is_asked_in_the_new_one(
    version: str,
) -> None:
    async with running(agent_app((version,), compatible=False)) as url:
        agent = A2AAgent(Target("a2a", url), CONTEXT)
        await agent.open()
        assert agent.interface.version == "0.3"
        answers = [await agent.ask("data x", 1) for _ in range(2)]
        await agent.close()
    assert [answer.doc_ids for answer in answers] == [("d1",), ("d1",)]
    assert agent.interface.version == "1.0"
    assert [remedy for _, remedy in agent.findings if "1.0" in remedy]

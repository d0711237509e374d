"""What both halves of the evaluation share: the archive, and each question asked only once.

The fixtures are the plugin's (`assay.pytest_plugin`). To evaluate something else than the reference
retriever: pytest tests/rag_evaluation --assay-target mcp:http://localhost:8000
"""

import os
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from assay.pytest_plugin import RagCase, Settings
from assay.pytest_plugin.sampling_client import SamplingClient
from assay.targets import Agent

DEPTH = 10
SOURCES = 5

Retrieve = Callable[[RagCase], Awaitable[tuple[str, ...]]]
AskForAnswer = Callable[[RagCase], Awaitable[dict[str, Any]]]


@pytest.fixture(scope="session", autouse=True)
def official_archive(assay_settings: Settings) -> None:
    """No test of this repository downloads anything."""
    if assay_settings.dataset == "nfcorpus" and not os.environ.get("NFCORPUS_ARCHIVE"):
        pytest.skip("set NFCORPUS_ARCHIVE to the official nfcorpus.zip")


@pytest.fixture(scope="session")
def retrieve(rag_agent: Agent) -> Retrieve:
    """The first ten documents that the target finds for a case."""
    known: dict[str, tuple[str, ...]] = {}

    async def found(case: RagCase) -> tuple[str, ...]:
        if case.query_id not in known:
            known[case.query_id] = (await rag_agent.ask(case.query, DEPTH)).doc_ids[:DEPTH]
        return known[case.query_id]

    return found


@pytest.fixture(scope="session")
def ask_for_answer(mcp_sampling_client: SamplingClient) -> AskForAnswer:
    """What `nc_semantic_search_answer` returns for a case: search and answer, the whole way."""
    known: dict[str, dict[str, Any]] = {}

    async def answered(case: RagCase) -> dict[str, Any]:
        if case.query_id not in known:
            known[case.query_id] = await mcp_sampling_client.call_tool(
                "nc_semantic_search_answer", arguments={"query": case.query, "limit": SOURCES}
            )
        return known[case.query_id]

    return answered

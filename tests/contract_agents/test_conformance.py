"""Every agent conforms to the contract: the checker finds nothing to say about any of them."""

from pathlib import Path
from typing import Any

import pytest
from tests.contract_agents.sample_agents import Agents, make_knowledge, running_agents

from assay.contract.check import CheckVerdict, check_agent
from assay.errors import UsageError
from assay.serve.contract_agents.apps import TASKS, known_tasks, path_of

READY = "/health/ready"


@pytest.mark.parametrize("task", TASKS)
async def test_the_checker_reports_nothing(agents: Agents, task: str) -> None:
    await agents.ready()
    report = await check_agent(agents.url + path_of(task), task)
    assert report.unreachable is None
    assert report.with_verdict(CheckVerdict.FAIL, CheckVerdict.WARN) == []
    assert report.counts()["n/a"] <= 2


async def test_the_process_names_its_agents_and_says_when_all_are_ready(agents: Agents) -> None:
    health = (await agents.http.get(f"{agents.url}/health")).json()
    assert health["agents"]["RAG_INGEST"] == "/rag-ingest"
    await agents.ready()
    ready = await agents.http.get(agents.url + READY)
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")


async def test_an_index_that_cannot_be_loaded_is_no_readiness(tmp_path: Path) -> None:
    """And what went wrong, which names files of the server, is not told to callers."""
    blocked = tmp_path / "secret-place"
    blocked.write_text("a file where a folder should be")
    async with running_agents(make_knowledge(blocked)) as found:
        failed = await found.run("RAG_RETRIEVE", {"query": "tea"})
        ready = await found.http.get(f"{found.url}/rag-retrieve{READY}")
        policy = await found.http.get(f"{found.url}/policy-review{READY}")
    assert failed["error"]["code"] == "TASK_FAILED"
    assert (ready.status_code, ready.json()["index"]) == (503, "failed")
    assert policy.status_code == 200
    assert "secret-place" not in ready.text + str(failed)


TEA = {"docId": "tea", "text": "Tea is steeped."}
PACK = {"chunks": [{"chunk_id": "c1", "text": "Tea is steeped."}]}
LAB: dict[str, Any] = {"documents": [TEA], "knowledgeBase": "lab"}


def test_tasks_are_named_in_any_case_and_all_are_all() -> None:
    asked = ["rag-retrieve", "RAG_RETRIEVE", "Claim_Verify"]
    assert known_tasks(asked) == ["RAG_RETRIEVE", "CLAIM_VERIFY"]
    assert known_tasks(["all"]) == list(TASKS)
    with pytest.raises(UsageError, match="no agent for 'SUMMARISE'; choose from: RAG_RETRIEVE"):
        known_tasks(["SUMMARISE"])


@pytest.mark.parametrize(
    ("task", "inputs", "message"),
    [
        ("RAG_RETRIEVE", {}, "inputs.query is missing"),
        ("RAG_RETRIEVE", {"query": " \x1c "}, "inputs.query is too short"),
        ("RAG_RETRIEVE", {"query": "x", "top_k": 101}, "inputs.top_k should be less than"),
        ("RAG_RETRIEVE", {"query": "x", "where": "secret"}, "inputs.where should be an object"),
        ("RAG_RETRIEVE", {"query": "x", "where": {"a": [None, "secret"]}}, "inputs.metadata"),
        ("RAG_INGEST", {**LAB, "documents": [{}]}, "inputs.documents.0.docId is missing"),
        ("RAG_INGEST", {**LAB, "knowledgeBase": "../up"}, "inputs.knowledgeBase contains"),
        ("RAG_INGEST", {**LAB, "knowledgeBase": "tiny"}, "knowledgeBase names a data set"),
        ("RAG_INGEST", {**LAB, "chunkConfig": {"chunkSize": 1}}, "chunkConfig.chunkSize should"),
        ("RAG_INGEST", {**LAB, "chunkConfig": {"chunkOverlap": 900}}, "chunkOverlap should be"),
        ("LIT_RETRIEVAL", {"query": "x", "databases": "secret"}, "databases should be a list"),
        ("CLAIM_VERIFY", {"groundingPack": PACK}, "inputs.claims is missing"),
        ("CLAIM_VERIFY", {"claims": [{"x": "secret"}], "groundingPack": PACK}, "inputs.claims.0"),
    ],
)
async def test_wrong_inputs_are_named_and_not_quoted(
    agents: Agents, task: str, inputs: dict[str, Any], message: str
) -> None:
    await agents.run("RAG_RETRIEVE", {"query": "tea"})  # so that the data set's name is known
    answer = await agents.run(task, inputs)
    assert answer["error"]["code"] == "VALIDATION_ERROR"
    assert message in answer["error"]["message"]
    assert "secret" not in str(answer)

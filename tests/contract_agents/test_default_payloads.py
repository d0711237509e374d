"""What the contract's public checker sends when nothing is configured, judged by its rules."""

from typing import Any

import pytest
from tests.contract_agents.sample_agents import Agents

DEFAULT_PLACE = {"domainId": "default", "projectId": "default"}
QUERY = "contract-check query"
INPUTS: dict[str, dict[str, Any]] = {
    "LIT_RETRIEVAL": {"query": QUERY},
    "RAG_RETRIEVE": {"query": QUERY, "knowledgeBase": "default", "topK": 5, **DEFAULT_PLACE},
    "RAG_INGEST": {"documents": [], "knowledgeBase": "contract-check", **DEFAULT_PLACE},
    "CLAIM_VERIFY": {
        "claims": ["Contract check claim."],
        "groundingPack": {"sources": [{"id": "c1", "text": "Sample grounding text."}]},
        "governanceMode": "DEMO",
        "strictness": "normal",
    },
    "POLICY_REVIEW": {},
}


@pytest.mark.parametrize("task", INPUTS)
async def test_the_public_checkers_default_payload_succeeds(agents: Agents, task: str) -> None:
    answer = await agents.run(task, INPUTS[task], request_id="contract-check-1")
    assert answer["request_id"] == "contract-check-1"
    assert answer["status"] in ("ok", "success"), answer
    assert isinstance(answer["outputs"], dict)
    told = await agents.stream(task, INPUTS[task], request_id="contract-check-2")
    terminal = told[-1]
    assert (terminal["type"], terminal["status"]) == ("final", "ok")
    assert (terminal["request_id"], terminal["task_type"]) == ("contract-check-2", task)
    assert isinstance(terminal["outputs"], dict)


async def test_default_means_the_served_data_set_until_it_is_ingested(agents: Agents) -> None:
    asked = {"query": "green tea", "knowledgeBase": "default"}
    served = await agents.run("RAG_RETRIEVE", asked)
    assert served["provenance"] == {"knowledge_base": "tiny", "search_mode": "hybrid"}
    document = {"docId": "mine", "text": "Green tea is brewed at 80 degrees."}
    await agents.outputs("RAG_INGEST", {"documents": [document], "knowledgeBase": "default"})
    ingested = await agents.run("RAG_RETRIEVE", asked)
    assert ingested["provenance"]["knowledge_base"] == "default"
    assert [chunk["doc_id"] for chunk in ingested["outputs"]["chunks"]] == ["mine"]


@pytest.mark.parametrize(("mode", "passed"), [("DEMO", True), ("LIVE", False)])
async def test_without_claims_live_fails_closed(agents: Agents, mode: str, passed: bool) -> None:
    inputs = {"claims": [], "groundingPack": {"sources": []}}
    answer = await agents.run("CLAIM_VERIFY", inputs, mode=mode)
    assert answer["status"] == "ok"
    assert answer["outputs"] == {"claim_verdicts": [], "overallPass": passed}
    assert answer["warnings"] == ["inputs.claims is empty: nothing was verified"]

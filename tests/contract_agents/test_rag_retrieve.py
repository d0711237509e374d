"""RAG_RETRIEVE: both dialects, the union of outputs, and no pretending."""

import pytest
from tests.contract_agents.sample_agents import Agents

QUERY = "blood pressure and green tea"


async def test_outputs_have_every_name_that_callers_look_for(agents: Agents) -> None:
    answer = await agents.run("RAG_RETRIEVE", {"query": QUERY, "topK": 2})
    outputs = answer["outputs"]
    assert outputs["count"] == 2
    assert outputs["groundingPack"] == answer["grounding"]
    assert outputs["chunks"] == answer["grounding"]["chunks"]
    assert outputs["retrieval_trace"]["stages"] == ["bm25", "dense", "fusion", "feedback"]
    assert answer["artifacts"] == ["MED-2__chunk_0", "MED-1__chunk_0"]
    assert answer["grounding"]["citations"] == answer["artifacts"]


async def test_a_knowledge_base_that_does_not_exist_is_a_failure(agents: Agents) -> None:
    for name in ("nowhere", "../tiny", "a/b", "", "x" * 200):
        answer = await agents.run("RAG_RETRIEVE", {"query": QUERY, "knowledgeBase": name})
        assert (answer["error"]["code"], answer["outputs"]) == ("TASK_FAILED", {})
        assert "no knowledge base" in answer["error"]["message"]


@pytest.mark.parametrize("name", ["metadataFilters", "where", "filter"])
async def test_filters_narrow_the_search(agents: Agents, name: str) -> None:
    inputs = {"query": QUERY, name: {"year": {"gte": 2020}}}
    outputs = await agents.outputs("RAG_RETRIEVE", inputs)
    assert {chunk["doc_id"] for chunk in outputs["chunks"]} == {"MED-2", "MED-3"}


async def test_what_is_not_heeded_is_said(agents: Agents) -> None:
    unheeded = {"semantic_weight": 0.3, "semantic_k": 7, "rerankMode": "x", "projectId": "p1"}
    answer = await agents.run("RAG_RETRIEVE", {"query": QUERY, **unheeded})
    assert answer["status"] == "ok"
    named = [warning.split()[0].removeprefix("inputs.") for warning in answer["warnings"]]
    assert named == list(unheeded)


async def test_a_context_budget_leaves_out_what_does_not_fit(agents: Agents) -> None:
    budgets = {"max_context_tokens": 20}
    answer = await agents.run("RAG_RETRIEVE", {"query": QUERY}, budgets=budgets)
    assert answer["status"] == "degraded"
    assert answer["ok"] is True
    assert answer["outputs"]["count"] == 1
    assert answer["warnings"] == ["budgets.max_context_tokens: 2 chunks were left out"]

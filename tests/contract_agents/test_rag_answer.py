"""RAG_ANSWER: an answer from what was found, with citations that exist, or an honest none."""

from tests.contract_agents.sample_agents import Agents

QUESTION = "Did vitamin D change blood pressure?"


async def test_an_answer_cites_the_chunks_it_is_made_of(agents: Agents) -> None:
    answer = await agents.run("RAG_ANSWER", {"query": QUESTION, "topK": 2})
    outputs = answer["outputs"]
    assert "Blood pressure did not change." in outputs["answer"]
    assert outputs["abstained"] is False
    assert "MED-1__chunk_0" in outputs["citations"]
    assert "MED-1" in outputs["cited_doc_ids"]
    assert answer["grounding"]["citations"] == outputs["citations"] == answer["artifacts"]
    assert outputs["citation_count"] == len(outputs["citations"])
    assert answer["usage"]["output_tokens"] > 0


async def test_what_the_documents_do_not_say_is_not_answered(agents: Agents) -> None:
    outputs = await agents.outputs("RAG_ANSWER", {"query": "Who won the football championship?"})
    assert outputs["abstained"] is True
    assert outputs["answer"] == "The documents do not answer this question."
    assert outputs["citations"] == []
    assert outputs["chunks"] != []


async def test_a_budget_of_output_cuts_the_answer_and_says_so(agents: Agents) -> None:
    answer = await agents.run("RAG_ANSWER", {"query": QUESTION}, budgets={"max_output_tokens": 9})
    assert answer["status"] == "degraded"
    assert answer["warnings"] == ["budgets.max_output_tokens: the answer was truncated"]
    assert len(answer["outputs"]["answer"]) <= 9 * 4 + len(" [1]")


async def test_a_budget_of_context_is_all_that_is_read(agents: Agents) -> None:
    answer = await agents.run("RAG_ANSWER", {"query": QUESTION}, budgets={"max_context_tokens": 16})
    assert answer["status"] == "degraded"
    assert answer["outputs"]["chunk_count"] == 1
    assert answer["usage"]["input_tokens"] <= 16 + 9


async def test_a_grounding_that_the_caller_brings_is_answered_from_and_nothing_searched(
    agents: Agents,
) -> None:
    chunk = {"chunk_id": "mine-1", "text": "Blood pressure fell by 99 mmHg in the moon study."}
    inputs = {"query": "By how much fell blood pressure?", "groundingPack": {"chunks": [chunk]}}
    answer = await agents.run("RAG_ANSWER", inputs)
    assert "99 mmHg" in answer["outputs"]["answer"]
    assert answer["outputs"]["citations"] == ["mine-1"]
    assert answer["provenance"]["search_mode"] == "given"
    nothing = {**inputs, "groundingPack": {"chunks": []}}
    assert (await agents.outputs("RAG_ANSWER", nothing))["abstained"]

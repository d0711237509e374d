"""RAG_INGEST: what was ingested is found, the same again changes nothing, and never half of it."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.contract_agents.sample_agents import Agents

from assay.contract.envelope import chunk_id, split_chunk_id
from assay.serve.contract_agents.rag_agents import cut_text


def document(doc_id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"docId": doc_id, "title": f"About {doc_id}", "text": text, **more}


TEA = document("tea", "Tea is steeped.", source="a book", metadata={"year": 2020, "page": None})
BEER = document("beer", "Beer is brewed.")


def inputs(*documents: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"documents": list(documents), "knowledgeBase": "lab", **more}


async def found(agents: Agents, query: str) -> list[str]:
    outputs = await agents.outputs("RAG_RETRIEVE", {"query": query, "knowledgeBase": "lab"})
    return [chunk["chunk_id"] for chunk in outputs["chunks"]]


async def test_what_was_ingested_is_found(agents: Agents) -> None:
    await agents.outputs("RAG_INGEST", inputs(TEA, BEER))
    answer = await agents.outputs("RAG_RETRIEVE", {"query": "steeped", "knowledgeBase": "lab"})
    first = answer["chunks"][0]
    assert (first["chunk_id"], first["doc_id"]) == ("tea__chunk_0", "tea")
    assert first["metadata"] == {"title": "About tea", "source": "a book", "year": 2020}


async def test_the_same_again_changes_nothing(agents: Agents, tmp_path: Path) -> None:
    await agents.outputs("RAG_INGEST", inputs(TEA, BEER))
    file = tmp_path / "bases" / "knowledge" / "lab.jsonl"
    before = file.stat()
    again = await agents.run("RAG_INGEST", inputs(TEA))
    assert again["outputs"]["ingestedCount"] == 1
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(await found(agents, "steeped brewed")) == ["beer__chunk_0", "tea__chunk_0"]


async def test_a_changed_document_replaces_its_chunks_and_leaves_others(agents: Agents) -> None:
    long = document("tea", "Tea is steeped slowly. " * 40)
    config = {"chunkSize": 100, "chunkOverlap": 0}
    first = await agents.outputs("RAG_INGEST", inputs(long, BEER, chunkConfig=config))
    assert first["chunkCount"] > 5
    await agents.outputs("RAG_INGEST", inputs(TEA))
    assert sorted(await found(agents, "steeped brewed")) == ["beer__chunk_0", "tea__chunk_0"]


async def test_documents_that_cannot_be_taken_are_named(agents: Agents) -> None:
    given = inputs(TEA, document("void", " \n "), document("tea", "Another tea."))
    answer = await agents.run("RAG_INGEST", given)
    assert answer["status"] == "degraded"
    assert answer["outputs"]["docIds"] == ["tea"]
    assert answer["outputs"]["errors"] == [
        {"index": 1, "docId": "void", "problem": "the text is empty"},
        {"index": 2, "docId": "tea", "problem": "another document has the same docId"},
    ]


@given(
    text=st.text(alphabet=st.sampled_from("ab. \n!?。x"), max_size=400),
    size=st.integers(50, 120),
    share=st.integers(0, 50),
)
def test_pieces_hold_all_words_and_are_never_too_long(text: str, size: int, share: int) -> None:
    pieces = cut_text(text, size=size, overlap=size * share // 100)
    assert sum(map(len, pieces)) >= len("".join(text.split()))
    assert all(len(piece) <= size for piece in pieces)


@given(doc_id=st.text(min_size=1), index=st.integers(0, 10**6))
def test_a_chunk_id_tells_its_document(doc_id: str, index: int) -> None:
    assert split_chunk_id(chunk_id(doc_id, index)) == (doc_id, index)
    assert split_chunk_id("plain") == ("plain", 0)
    assert split_chunk_id("a__chunk_x") == ("a__chunk_x", 0)

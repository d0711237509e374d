"""RAG_INGEST: what was ingested is found, the same again changes nothing, and never half of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contract_agents.ingesting import BEER, TEA, document, found, inputs
from tests.contract_agents.sample_agents import Agents, make_resources, running_agents, words
from tests.search.conftest import running_server
from tests.search.samples import WordEmbedder

from assay.contract.envelope import chunk_id, split_chunk_id
from assay.search.folder_store import FolderStore
from assay.serve.contract_agents.apps import open_resources
from assay.serve.contract_agents.rag_ingest import cut_document


def nested(depth: int) -> Any:
    found: Any = "x"
    for _ in range(depth):
        found = [found]
    return found


async def test_what_was_ingested_is_found(agents: Agents) -> None:
    outputs = await agents.outputs("RAG_INGEST", inputs(TEA, BEER))
    assert outputs == {
        "ingestedCount": 2,
        "chunkCount": 2,
        "collection": "lab",
        "docIds": ["tea", "beer"],
        "chunkIds": ["tea__chunk_0", "beer__chunk_0"],
        "errors": [],
    }
    answer = await agents.outputs("RAG_RETRIEVE", {"query": "steeped", "knowledgeBase": "lab"})
    first = answer["chunks"][0]
    assert (first["chunk_id"], first["doc_id"]) == ("tea__chunk_0", "tea")
    assert first["metadata"] == {"title": "About tea", "source": "a book", "year": 2020}


async def test_the_same_again_changes_nothing(agents: Agents, tmp_path: Path) -> None:
    await agents.outputs("RAG_INGEST", inputs(TEA, BEER))
    current = tmp_path / "bases" / "kb-lab" / "current"
    before = current.read_text()
    again = await agents.run("RAG_INGEST", inputs(TEA))
    assert again["outputs"]["ingestedCount"] == 1
    assert again["provenance"] == {"chunks_added": 0, "chunks_changed": 0, "chunks_removed": 0}
    assert current.read_text() == before
    assert sorted(await found(agents, "steeped brewed")) == ["beer__chunk_0", "tea__chunk_0"]


async def test_a_changed_document_replaces_its_chunks_and_leaves_others(agents: Agents) -> None:
    long = document("tea", "Tea is steeped slowly. " * 40)
    config = {"chunkSize": 100, "chunkOverlap": 0}
    first = await agents.outputs("RAG_INGEST", inputs(long, BEER, chunkConfig=config))
    assert first["chunkCount"] > 5
    changed = await agents.run("RAG_INGEST", inputs(TEA))
    assert changed["provenance"]["chunks_removed"] == first["chunkCount"] - 2
    assert sorted(await found(agents, "steeped brewed")) == ["beer__chunk_0", "tea__chunk_0"]


async def test_two_requests_at_once_do_not_undo_each_other(agents: Agents) -> None:
    documents = [document(f"d{number}", f"text number {number}") for number in range(3)]
    await asyncio.gather(*(agents.outputs("RAG_INGEST", inputs(each)) for each in documents))
    assert len(await found(agents, "text")) == 3


async def test_another_process_sees_what_was_written_since_it_looked(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    async with (
        running_agents(make_resources(folder)) as writer,
        running_agents(make_resources(folder)) as reader,
    ):
        await writer.outputs("RAG_INGEST", inputs(TEA))
        assert await found(reader, "steeped") == ["tea__chunk_0"]
        await writer.outputs("RAG_INGEST", inputs(BEER))
        assert len(await found(reader, "steeped brewed")) == 2


async def test_documents_that_cannot_be_taken_are_named_and_the_others_taken(
    agents: Agents,
) -> None:
    given = inputs(TEA, document("void", " \n "), document("tea", "Another tea."))
    answer = await agents.run("RAG_INGEST", given)
    assert answer["status"] == "degraded"
    assert answer["outputs"]["docIds"] == ["tea"]
    assert answer["outputs"]["errors"] == [
        {"index": 1, "docId": "void", "problem": "the text is empty"},
        {"index": 2, "docId": "tea", "problem": "another document has the same docId"},
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "inputs.documents is missing"),
        (inputs({"text": "x"}), "inputs.documents.0.docId is missing"),
        (inputs(TEA, base="../up"), "inputs.knowledgeBase contains characters"),
        (inputs(TEA, base=""), "inputs.knowledgeBase"),
        (inputs(TEA, base="tiny"), "inputs.knowledgeBase names a data set"),
        (inputs(document("a", " ")), "inputs.documents: none has any text"),
        (inputs(TEA, chunkConfig={"chunkSize": 60, "chunkOverlap": 40}), "chunkOverlap should be"),
        (
            inputs(document("a", "b", metadata={"a": nested(40)})),
            "inputs.documents.0.metadata is invalid",
        ),
        (inputs(TEA, chunkConfig={"chunkSize": 1}), "inputs.chunkConfig.chunkSize should be"),
    ],
)
async def test_wrong_inputs_are_named(agents: Agents, given: dict[str, Any], message: str) -> None:
    await agents.run("RAG_RETRIEVE", {"query": "tea"})  # so that the data set's name is known
    answer = await agents.run("RAG_INGEST", given)
    assert answer["error"]["code"] == "VALIDATION_ERROR"
    assert message in answer["error"]["message"]


async def test_the_stream_tells_what_was_done(agents: Agents) -> None:
    told = await agents.stream("RAG_INGEST", inputs(TEA, BEER))
    steps = [event["step"] for event in told if event["type"] == "progress"]
    assert steps[:2] == ["model ready", "cut"]
    assert "embedded" in steps
    assert steps[-1] == "written"


@given(
    text=st.text(alphabet=st.sampled_from("ab. \n!?。x"), max_size=400),
    size=st.integers(50, 120),
    share=st.integers(0, 50),
)
def test_chunks_hold_all_words_and_never_more_than_the_model_reads(
    text: str, size: int, share: int
) -> None:
    embedder = WordEmbedder(max_tokens=12)
    chunks = cut_document(
        "d", "A title", text, {}, embedder, size=size, overlap=size * share // 100
    )
    assert [chunk.id for chunk in chunks] == [chunk_id("d", n) for n in range(len(chunks))]
    assert sum(map(len, (chunk.text for chunk in chunks))) >= len("".join(text.split()))
    for chunk in chunks:
        assert len(chunk.text) <= size
        assert embedder.count_tokens([chunk.full_text])[0] + 2 <= 12


def test_without_overlap_chunks_are_the_text() -> None:
    text = "One sentence is here. Another one follows it. " * 20
    chunks = cut_document("d", "", text, {}, words(), size=100, overlap=0)
    assert " ".join(chunk.text for chunk in chunks).split() == text.split()
    assert all(chunk.text.endswith(".") for chunk in chunks)
    again = cut_document("d", "", text, {}, words(), size=100, overlap=30)
    assert sum(len(chunk.text) for chunk in again) > sum(len(chunk.text) for chunk in chunks)


@given(doc_id=st.text(min_size=1), index=st.integers(0, 10**6))
def test_a_chunk_id_tells_its_document(doc_id: str, index: int) -> None:
    assert split_chunk_id(chunk_id(doc_id, index)) == (doc_id, index)
    assert split_chunk_id("plain") == ("plain", 0)
    assert split_chunk_id("a__chunk_x") == ("a__chunk_x", 0)


async def test_a_folder_of_a_data_set_is_not_a_knowledge_base(
    agents: Agents, tmp_path: Path
) -> None:
    """`data-set` is the collection of the data set, beside those of knowledge bases."""
    await agents.run("RAG_RETRIEVE", {"query": "tea"})
    assert FolderStore(tmp_path / "bases", "data-set").manifest() is not None
    answer = await agents.run("RAG_RETRIEVE", {"query": "tea", "knowledgeBase": "data-set"})
    assert answer["error"]["code"] == "TASK_FAILED"


async def test_a_qdrant_server_keeps_them_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_server(tmp_path) as server:
        monkeypatch.setenv("QDRANT_URL", server.url)
        resources = open_resources("notes", "bm25", embedder=words)
        async with running_agents(resources) as agents:
            await agents.outputs("RAG_INGEST", inputs(TEA))
            await agents.outputs("RAG_INGEST", inputs(BEER))
            again = await agents.run("RAG_INGEST", inputs(TEA))
            assert again["provenance"]["chunks_changed"] == 0
            assert sorted(await found(agents, "steeped brewed")) == [
                "beer__chunk_0",
                "tea__chunk_0",
            ]


async def test_documents_are_removed_and_counted(agents: Agents, tmp_path: Path) -> None:
    nothing = await agents.outputs("RAG_INGEST", inputs(base="new", remove=["tea"]))
    assert nothing["removedChunkCount"] == 0
    assert not (tmp_path / "bases" / "kb-new").exists()
    await agents.outputs("RAG_INGEST", inputs(TEA, BEER))
    removed = await agents.outputs("RAG_INGEST", inputs(remove=["tea", "unknown"]))
    assert (removed["removedChunkCount"], removed["ingestedCount"]) == (1, 0)
    assert await found(agents, "steeped brewed") == ["beer__chunk_0"]
    both = await agents.outputs("RAG_INGEST", inputs(TEA, remove=["beer", "tea"]))
    assert (both["removedChunkCount"], both["ingestedCount"]) == (1, 1)
    assert await found(agents, "steeped brewed") == ["tea__chunk_0"]

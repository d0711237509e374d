"""RAG_INGEST: what was ingested is found, the same again changes nothing, and never half of it."""

import asyncio
import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.contract_agents.sample_agents import Agents, make_resources, running_agents, words
from tests.search.conftest import running_server
from tests.search.samples import WordEmbedder

from assay.contract.envelope import chunk_id, split_chunk_id
from assay.data import Document
from assay.progress import Progress, silent
from assay.search.edge_store import EdgeSearcher, EdgeStore
from assay.search.embedding import Vectors
from assay.search.index import build_index, open_index
from assay.search.store import Stored
from assay.serve.contract_agents.apps import open_resources
from assay.serve.contract_agents.knowledge_bases import OpenIndexes
from assay.serve.contract_agents.knowledge_store import replace_documents
from assay.serve.contract_agents.rag_ingest import cut_document


def document(doc_id: str, text: str, **more: Any) -> dict[str, Any]:
    return {"docId": doc_id, "title": f"About {doc_id}", "text": text, **more}


def inputs(*documents: dict[str, Any], base: str = "lab", **more: Any) -> dict[str, Any]:
    return {"documents": list(documents), "knowledgeBase": base, **more}


async def found(agents: Agents, query: str, base: str = "lab") -> list[str]:
    outputs = await agents.outputs("RAG_RETRIEVE", {"query": query, "knowledgeBase": base})
    return [chunk["chunk_id"] for chunk in outputs["chunks"]]


def nested(depth: int) -> Any:
    found: Any = "x"
    for _ in range(depth):
        found = [found]
    return found


TEA = document("tea", "Tea is steeped.", source="a book", metadata={"year": 2020, "page": None})
BEER = document("beer", "Beer is brewed.")


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


class _OwnChunksOnly(EdgeStore):
    """Notes which points are read, and refuses to list them all."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "kb-lab")
        self.listed = 0
        self.read: list[str] = []

    def contents(self) -> dict[str, tuple[str, int]]:
        self.listed += 1
        return super().contents()

    def open(self) -> EdgeSearcher:
        searcher, fetch = super().open(), EdgeSearcher.fetch

        def noted(ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
            found = fetch(searcher, ids, vectors=vectors)
            self.read += [str(one.payload["doc_id"]) for one in found]
            return found

        searcher.fetch = noted  # type: ignore[method-assign]
        return searcher


def chunks(doc_id: str, *texts: str) -> list[Document]:
    return [Document(chunk_id(doc_id, n), "", text) for n, text in enumerate(texts)]


def test_a_write_reads_the_chunks_of_its_own_documents_alone(tmp_path: Path) -> None:
    store = _OwnChunksOnly(tmp_path)
    many = [chunk for n in range(50) for chunk in chunks(f"d{n}", f"text {n}", "more text")]
    replace_documents("lab", {f"d{n}" for n in range(50)}, many, words(), store)
    store.read.clear()
    changed = chunks("d7", "text 7", "other text", "and more")
    report = replace_documents("lab", {"d7"}, changed, words(), store)
    assert (report.added, report.changed, report.removed, report.unchanged) == (1, 1, 0, 99)
    assert sorted(store.read) == ["d7__chunk_0", "d7__chunk_1"]
    assert store.listed == 0


def test_a_document_of_many_chunks_is_replaced_whole(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path, "kb-lab")
    replace_documents("lab", {"a"}, chunks("a", *map(str, range(100))), words(), store)
    report = replace_documents("lab", {"a"}, chunks("a", "0", "x"), words(), store)
    assert (report.added, report.changed, report.removed) == (0, 1, 98)
    assert sorted(store.contents()) == ["a__chunk_0", "a__chunk_1"]


_writes = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from(["x", "y z"]), min_size=1)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.generate))
@example(writes=[{"a": ["x"]}, {"a": ["x", "y z"]}])
@given(writes=_writes)
def test_the_same_chunks_are_the_same_index_however_they_got_there(
    writes: list[dict[str, list[str]]],
) -> None:
    last: dict[str, list[str]] = {}
    with TemporaryDirectory() as folder:
        stepwise, at_once = (EdgeStore(Path(folder), name) for name in ("kb-one", "kb-two"))
        for write in filter(None, writes):
            last |= write
            new = [chunk for name, texts in write.items() for chunk in chunks(name, *texts)]
            replace_documents("one", set(write), new, words(), stepwise)
        everything = [chunk for name, texts in last.items() for chunk in chunks(name, *texts)]
        if everything:
            replace_documents("two", set(last), everything, words(), at_once)
            assert stepwise.contents() == at_once.contents()
        assert stepwise.manifest() == at_once.manifest()


def test_what_an_earlier_version_wrote_is_taken_over(tmp_path: Path) -> None:
    """Its manifest has no sums; and so much longer texts change how BM25 weighs all of them."""
    store = EdgeStore(tmp_path, "kb-lab")
    build_index(chunks("old", "brewed") + chunks("gone", "stale"), words(), store)
    for text in ("steeped", "steeped " * 200):
        replace_documents("lab", {"new", "gone"}, chunks("new", text), words(), store)
        manifest = store.manifest()
        assert manifest is not None
        assert manifest.documents == 2
        assert sorted(store.contents()) == ["new__chunk_0", "old__chunk_0"]
        with open_index(store, words()) as retriever:
            found = retriever.search("brewed", 1, mode="bm25")
        assert [hit.doc_id for hit in found] == ["old__chunk_0"]


def test_what_a_version_with_another_bm25_wrote_is_upgraded_when_it_is_searched(
    tmp_path: Path,
) -> None:
    store = EdgeStore(tmp_path, "kb-lab")
    replace_documents("lab", {"a", "b"}, chunks("a", "one") + chunks("b", "two"), words(), store)
    (path,) = tmp_path.glob("kb-lab/*/manifest.json")
    content = json.loads(path.read_text())
    old = content["manifest"] | {"format": 1}
    del old["bm25"]
    sizes = {name: one["size"] for name, one in content["files"].items()}
    path.write_text(json.dumps({"manifest": old, "sizes": sizes}))  # as it wrote them
    indexes = OpenIndexes()
    for _ in range(2):
        with indexes.reading("lab", store, words()) as retriever:
            assert [hit.doc_id for hit in retriever.search("two", 9, mode="bm25")] == ["b__chunk_0"]
    indexes.close()
    assert len(store.contents()) == 2


def test_the_same_again_with_another_model_makes_all_chunks_anew(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path, "kb-lab")
    replace_documents("lab", {"a", "b"}, chunks("a", "one") + chunks("b", "two"), words(), store)
    other = WordEmbedder(name="other words", max_tokens=256)
    report = replace_documents("lab", {"a"}, chunks("a", "one"), other, store)
    assert (report.added, report.changed, report.removed) == (0, 0, 0)
    with open_index(store, other) as retriever:
        assert {hit.doc_id for hit in retriever.search("one two", 9)} == set(store.contents())


def test_a_write_that_is_called_off_at_the_last_moment_leaves_nothing(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path, "kb-lab")
    replace_documents("lab", {"a"}, chunks("a", "one"), words(), store)
    before = store.manifest()

    def call_off(what: str, _done: int, _total: int | None) -> None:
        if what == "writing":
            raise InterruptedError

    with pytest.raises(InterruptedError):
        replace_documents("lab", {"b"}, chunks("b", "two"), words(), store, call_off)
    assert store.manifest() == before


async def test_writes_that_wait_take_no_thread_from_a_search(tmp_path: Path) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    embedder = _Waiting()
    async with running_agents(make_resources(tmp_path, embedder=embedder)) as agents:
        await agents.outputs("RAG_RETRIEVE", {"query": "tea"})
        writes = [
            asyncio.create_task(agents.run("RAG_INGEST", inputs(BEER, base=name)))
            for name in ("lab", "lab", "other", "third")
        ]
        assert await asyncio.to_thread(embedder.entered.wait, 30)
        await agents.outputs("RAG_RETRIEVE", {"query": "tea"})
        embedder.release.set()
        assert {answer["status"] for answer in await asyncio.gather(*writes)} == {"ok"}


class _Breaking(WordEmbedder):
    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        if any("poison" in text for text in texts):
            raise RuntimeError("cannot embed")
        return super().embed(texts, progress)


async def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    resources = make_resources(tmp_path, embedder=_Breaking(max_tokens=256))
    async with running_agents(resources) as agents:
        await agents.outputs("RAG_INGEST", inputs(TEA))
        broken = await agents.run("RAG_INGEST", inputs(BEER, document("bad", "poison")))
        assert broken["error"]["code"] == "TASK_FAILED"
        assert await found(agents, "steeped brewed") == ["tea__chunk_0"]


class _Waiting(WordEmbedder):
    """Stops in the middle of embedding until it is let go."""

    def __init__(self) -> None:
        super().__init__(max_tokens=256)
        self.entered, self.release = threading.Event(), threading.Event()
        self.left = threading.Event()

    def embed(self, texts: Sequence[str], progress: Progress = silent) -> Vectors:
        if any("brewed" in text for text in texts):
            self.entered.set()
            assert self.release.wait(30)
            try:
                return super().embed(texts, progress)
            finally:
                self.left.set()
        return super().embed(texts, progress)


async def test_a_client_that_leaves_in_the_middle_leaves_nothing_behind(tmp_path: Path) -> None:
    embedder = _Waiting()
    async with running_agents(make_resources(tmp_path, embedder=embedder)) as agents:
        await agents.outputs("RAG_INGEST", inputs(TEA))
        leaving = asyncio.create_task(agents.run("RAG_INGEST", inputs(BEER)))
        assert await asyncio.to_thread(embedder.entered.wait, 30)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        await agents.run("POLICY_REVIEW", {"resource_id": "r"})  # the server has seen it leave
        embedder.release.set()
        assert await asyncio.to_thread(embedder.left.wait, 30)
        # The next writer gets the lock only when the one before has given up.
        await agents.outputs("RAG_INGEST", inputs(document("milk", "Milk is milked.")))
        assert sorted(await found(agents, "steeped brewed milked")) == [
            "milk__chunk_0",
            "tea__chunk_0",
        ]


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
    assert EdgeStore(tmp_path / "bases", "data-set").manifest() is not None
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

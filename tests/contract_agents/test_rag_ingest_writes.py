"""Writes to a knowledge base: what they read, keep and leave behind when they fail."""

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from tests.contract_agents.ingesting import BEER, TEA, chunks, document, found, inputs
from tests.contract_agents.sample_agents import make_resources, running_agents, words
from tests.search.samples import WordEmbedder, contents

from assay.progress import Progress, silent
from assay.search.embedding import Vectors
from assay.search.flat_index import FlatIndex
from assay.search.folder_store import FolderStore
from assay.search.index import build_index, open_index
from assay.search.store import Stored
from assay.serve.contract_agents.knowledge_bases import OpenIndexes
from assay.serve.contract_agents.knowledge_store import replace_documents

_writes = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.lists(st.sampled_from(["x", "y z"]), min_size=1)),
    min_size=1,
    max_size=4,
)


class _OwnChunksOnly(FolderStore):
    """Notes which points are read, and refuses to list them all."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "kb-lab")
        self.listed = 0
        self.read: list[str] = []

    def entries(self) -> Iterator[tuple[str, str, int]]:
        self.listed += 1
        return super().entries()

    def open(self) -> FlatIndex:
        searcher, fetch = super().open(), FlatIndex.fetch
        assert isinstance(searcher, FlatIndex)

        def noted(ids: Sequence[str], *, vectors: bool = False) -> list[Stored]:
            found = fetch(searcher, ids, vectors=vectors)
            self.read += [str(one.payload["doc_id"]) for one in found]
            return found

        searcher.fetch = noted  # type: ignore[method-assign]
        return searcher


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
    store = FolderStore(tmp_path, "kb-lab")
    replace_documents("lab", {"a"}, chunks("a", *map(str, range(100))), words(), store)
    report = replace_documents("lab", {"a"}, chunks("a", "0", "x"), words(), store)
    assert (report.added, report.changed, report.removed) == (0, 1, 98)
    assert sorted(contents(store)) == ["a__chunk_0", "a__chunk_1"]


@settings(max_examples=15, deadline=None, phases=(Phase.explicit, Phase.generate))
@example(writes=[{"a": ["x"]}, {"a": ["x", "y z"]}])
@given(writes=_writes)
def test_the_same_chunks_are_the_same_index_however_they_got_there(
    writes: list[dict[str, list[str]]],
) -> None:
    last: dict[str, list[str]] = {}
    with TemporaryDirectory() as folder:
        stepwise, at_once = (FolderStore(Path(folder), name) for name in ("kb-one", "kb-two"))
        for write in filter(None, writes):
            last |= write
            new = [chunk for name, texts in write.items() for chunk in chunks(name, *texts)]
            replace_documents("one", set(write), new, words(), stepwise)
        everything = [chunk for name, texts in last.items() for chunk in chunks(name, *texts)]
        if everything:
            replace_documents("two", set(last), everything, words(), at_once)
            assert contents(stepwise) == contents(at_once)
        assert stepwise.manifest() == at_once.manifest()


def test_what_an_earlier_version_wrote_is_taken_over(tmp_path: Path) -> None:
    """Its manifest has no sums; and so much longer texts change how BM25 weighs all of them."""
    store = FolderStore(tmp_path, "kb-lab")
    build_index(chunks("old", "brewed") + chunks("gone", "stale"), words(), store)
    for text in ("steeped", "steeped " * 200):
        replace_documents("lab", {"new", "gone"}, chunks("new", text), words(), store)
        manifest = store.manifest()
        assert manifest is not None
        assert manifest.documents == 2
        assert sorted(contents(store)) == ["new__chunk_0", "old__chunk_0"]
        with open_index(store, words()) as retriever:
            found = retriever.search("brewed", 1, mode="bm25")
        assert [hit.doc_id for hit in found] == ["old__chunk_0"]


def test_what_a_version_with_another_bm25_wrote_is_upgraded_when_it_is_searched(
    tmp_path: Path,
) -> None:
    store = FolderStore(tmp_path, "kb-lab")
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
    assert len(contents(store)) == 2


def test_the_same_again_with_another_model_makes_all_chunks_anew(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "kb-lab")
    replace_documents("lab", {"a", "b"}, chunks("a", "one") + chunks("b", "two"), words(), store)
    other = WordEmbedder(name="other words", max_tokens=256)
    report = replace_documents("lab", {"a"}, chunks("a", "one"), other, store)
    assert (report.added, report.changed, report.removed) == (0, 0, 0)
    with open_index(store, other) as retriever:
        assert {hit.doc_id for hit in retriever.search("one two", 9)} == set(contents(store))


def test_a_write_that_is_called_off_at_the_last_moment_leaves_nothing(tmp_path: Path) -> None:
    store = FolderStore(tmp_path, "kb-lab")
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

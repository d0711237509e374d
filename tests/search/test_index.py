"""Building an index, by the same rules in the embedded engine and on a server."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.search.samples import DOCUMENTS, WordEmbedder, contents

from assay.data import Document
from assay.errors import DataError, SearchError
from assay.search import distributed_index, embedding, vector_metric
from assay.search import index as index_module
from assay.search.bm25 import Bm25Settings
from assay.search.chunks import document_vectors
from assay.search.embedding import EmbedderSettings, VectorCache
from assay.search.index import IndexReport, build_index, describe_index, open_index, points_of
from assay.search.store import Store, point_id


def counts(report: IndexReport) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.removed, report.unchanged


def found(store: Store, query: str, embedder: WordEmbedder) -> list[str]:
    with open_index(store, WordEmbedder(embedder.name)) as retriever:
        return [hit.doc_id for hit in retriever.search(query, 10, mode="bm25")]


def test_an_index_says_what_it_was_made_of(store: Store, embedder: WordEmbedder) -> None:
    assert store.manifest() is None
    assert counts(build_index(DOCUMENTS, embedder, store)) == (5, 0, 0, 0)
    manifest = store.manifest()
    assert manifest is not None
    assert (manifest.embedder, manifest.dimension, manifest.documents) == ("words", 512, 5)
    assert len(contents(store)) == 5


def test_the_same_documents_again_embed_and_write_nothing(
    store: Store, embedder: WordEmbedder
) -> None:
    build_index(DOCUMENTS, embedder, store)
    embedder.seen.clear()
    assert counts(build_index(DOCUMENTS, embedder, store)) == (0, 0, 0, 5)
    assert embedder.seen == []


def test_only_what_changed_is_embedded(store: Store, embedder: WordEmbedder) -> None:
    build_index(DOCUMENTS, embedder, store)
    embedder.seen.clear()
    changed = replace(DOCUMENTS[1], text="Coffee grows in Ethiopia.")
    wine = Document("wine", "Red wine", "Wine is pressed from grapes.")
    report = build_index([*DOCUMENTS[2:], changed, wine], embedder, store)
    assert counts(report) == (1, 1, 1, 3)
    assert sorted(embedder.seen) == [
        "Coffee Coffee grows in Ethiopia.",
        "Red wine Wine is pressed from grapes.",
    ]
    assert found(store, "Ethiopia", embedder) == ["coffee"]
    assert found(store, "roasted", embedder) == []
    assert found(store, "steeped", embedder) == []
    assert found(store, "grapes", embedder) == ["wine"]
    assert found(store, "hops", embedder) == ["beer"]


def test_a_document_that_got_shorter_leaves_no_chunks_behind(
    store: Store, embedder: WordEmbedder
) -> None:
    build_index(DOCUMENTS, embedder, store)
    assert contents(store)["soup"][1] > 2
    build_index([replace(DOCUMENTS[4], text="Soup.")], embedder, store)
    assert contents(store).keys() == {"soup"}
    assert contents(store)["soup"][1] == 1
    searcher = store.open()
    assert [one.id for one in searcher.fetch([point_id("soup", i) for i in range(5)])] == [
        point_id("soup", 0)
    ]
    searcher.close()


def test_metadata_alone_is_a_change_that_needs_no_embedding(
    store: Store, embedder: WordEmbedder
) -> None:
    build_index(DOCUMENTS, embedder, store)
    embedder.seen.clear()
    newer = replace(DOCUMENTS[0], metadata={"year": 2030})
    assert counts(build_index([newer, *DOCUMENTS[1:]], embedder, store)) == (0, 1, 0, 4)
    assert embedder.seen == []
    with open_index(store, embedder) as retriever:
        (hit,) = retriever.search("tea", 1, filters={"year": 2030})
    assert hit.doc_id == "tea"


def test_another_embedder_makes_all_vectors_anew(store: Store, embedder: WordEmbedder) -> None:
    build_index(DOCUMENTS, embedder, store)
    other = WordEmbedder("other words")
    assert counts(build_index(DOCUMENTS, other, store)) == (0, 5, 0, 0)
    assert len(other.seen) >= 5
    with pytest.raises(SearchError, match=r"'other words'.*'words'.*assay index"):
        open_index(store, embedder)


def test_an_index_that_was_never_built_says_so(store: Store, embedder: WordEmbedder) -> None:
    with pytest.raises(SearchError, match=r"there is no index at .* build it: assay index"):
        open_index(store, embedder)


def test_an_empty_corpus_can_be_indexed_and_finds_nothing(
    store: Store, embedder: WordEmbedder
) -> None:
    build_index([], embedder, store)
    with open_index(store, embedder) as retriever:
        assert retriever.search("tea") == []
        assert retriever.search("tea", mode="bm25") == []
    assert counts(build_index(DOCUMENTS, embedder, store)) == (5, 0, 0, 0)


def test_documents_that_no_engine_would_take_as_they_are(
    store: Store, embedder: WordEmbedder
) -> None:
    strange = [
        Document(
            "half a pair", "A \x00 title", "Half a pair \ud83d of tea", {"a.b": "\u0001 \udc00"}
        ),
        Document("", "", ""),
        Document("中文", "茶", "绿茶 tea", {"list": [1, 2], "nested": {"deep": None}}),
    ]
    assert counts(build_index(strange, embedder, store)) == (3, 0, 0, 0)
    assert counts(build_index(strange, embedder, store)) == (0, 0, 0, 3)


def test_an_id_that_no_engine_can_keep_is_refused(store: Store, embedder: WordEmbedder) -> None:
    with pytest.raises(DataError, match="half a surrogate pair"):
        build_index([Document("\ud83d", "", "tea")], embedder, store)


def test_a_search_never_sees_half_an_index(store: Store, embedder: WordEmbedder) -> None:
    """While a new index is being embedded, searches find all of the old one and none of the new."""
    build_index(DOCUMENTS, embedder, store)
    halfway, go_on = threading.Event(), threading.Event()

    class Slow(WordEmbedder):
        def embed(self, texts, progress=lambda *_: None):  # type: ignore[no-untyped-def]
            halfway.set()
            assert go_on.wait(30)
            return super().embed(texts, progress)

    newer = [replace(one, text=f"{one.text} Newer.") for one in DOCUMENTS[:3]]
    building = threading.Thread(target=build_index, args=(newer, Slow(), store))
    building.start()
    try:
        assert halfway.wait(30)
        assert sorted(found(store, "water", embedder)) == ["beer", "bread", "tea"]
        assert found(store, "newer", embedder) == []
    finally:
        go_on.set()
        building.join()
    assert sorted(found(store, "newer", embedder)) == ["bread", "coffee", "tea"]
    assert found(store, "hops", embedder) == []


def test_a_build_that_fails_leaves_the_old_index_and_a_later_one_succeeds(
    store: Store, embedder: WordEmbedder
) -> None:
    build_index(DOCUMENTS, embedder, store)

    class Failing(WordEmbedder):
        def embed(self, texts, progress=lambda *_: None):  # type: ignore[no-untyped-def]
            raise SearchError("out of reach")

    newer = [replace(one, text=f"{one.text} Newer.") for one in DOCUMENTS]
    with pytest.raises(SearchError, match="out of reach"):
        build_index(newer, Failing(), store)
    assert found(store, "hops", embedder) == ["beer"]
    assert found(store, "newer", embedder) == []
    assert counts(build_index(newer, embedder, store)) == (0, 5, 0, 0)
    assert len(found(store, "newer", embedder)) == 5


def test_points_hold_what_a_reader_needs(store: Store, embedder: WordEmbedder) -> None:
    build_index(DOCUMENTS, embedder, store)
    searcher = store.open()
    (one,) = searcher.fetch([point_id("tea", 0)], vectors=True)
    searcher.close()
    assert {**one.payload, "content_hash": ""} == {
        "doc_id": "tea",
        "title": "Green tea",
        "text": "Green tea is steeped in hot water.",
        "chunk_index": 0,
        "total_chunks": 1,
        "metadata": {"year": 2019, "kind": "x"},
        "content_hash": "",
    }
    assert list(one.dense) == pytest.approx(
        embedder.embed(["Green tea Green tea is steeped in hot water."])[0].tolist(), abs=1e-6
    )


def test_a_document_counts_once_in_bm25_however_many_chunks_it_has(
    store: Store, embedder: WordEmbedder
) -> None:
    """An IDF over chunks would rank by how documents were split."""
    build_index(DOCUMENTS, embedder, store)
    searcher = store.open()
    model = searcher.manifest.bm25
    assert model is not None
    found = searcher.candidates().lexical(model.query("saffron"))
    searcher.close()
    assert list(found) == ["soup"]
    weight = model.document(DOCUMENTS[4])
    term = dict(zip(weight.indices, weight.values, strict=True))
    (index,) = model.query("saffron").indices
    # ln(1 + (5 - 1 + 0.5) / (1 + 0.5)), with the 5 documents, not their chunks
    assert found["soup"] == pytest.approx(term[index] * 1.3862943, rel=1e-3)


def test_document_vectors_are_those_of_the_index(embedder: WordEmbedder, tmp_path: Path) -> None:
    from assay.search.folder_store import FolderStore

    store = FolderStore(tmp_path, "test")
    build_index(DOCUMENTS, embedder, store)
    embedder.seen.clear()
    vectors = document_vectors(DOCUMENTS, embedder)
    assert embedder.seen == []
    assert vectors.shape == (5, 512)
    (first,) = store.open().fetch([point_id("soup", 0)], vectors=True)
    assert list(first.dense) == pytest.approx(vectors[4].tolist(), abs=1e-6)


class _Tracked(Document):
    """Counts how many of its kind are in memory at once."""

    __slots__ = ()
    alive = most = 0

    def __post_init__(self) -> None:
        _Tracked.alive += 1
        _Tracked.most = max(_Tracked.most, _Tracked.alive)

    def __del__(self) -> None:
        _Tracked.alive -= 1


class _OnDisk:
    """Documents that exist only while they are read, as those of a large corpus do."""

    def __init__(self, size: int, version: str = "") -> None:
        self.size, self.version = size, version

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Document]:
        for number in range(self.size):
            text = f"Text {number} {self.version if number % 50 == 0 else ''}"
            yield _Tracked(f"d{number}", f"Title {number}", text)


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 10 documents, which is what may be in memory together."""
    monkeypatch.setattr(index_module, "_DOCUMENTS_AT_ONCE", 10)
    monkeypatch.setattr(distributed_index, "_DOCUMENTS_IN_A_PART", 10)
    monkeypatch.setattr(embedding, "TEXTS_UNTIL_SAVED", 10)
    sample = vector_metric._titled_sample
    monkeypatch.setattr(vector_metric, "_titled_sample", lambda corpus, *_: sample(corpus, 20, 10))
    monkeypatch.setattr(_Tracked, "most", 0)


@pytest.mark.usefixtures("few_at_once")
def test_a_corpus_on_the_disk_is_never_in_memory_as_a_whole(
    store: Store, embedder: WordEmbedder
) -> None:
    assert counts(build_index(_OnDisk(300), embedder, store)) == (300, 0, 0, 0)
    assert counts(build_index(_OnDisk(300), embedder, store)) == (0, 0, 0, 300)
    assert counts(build_index(_OnDisk(280, "newer"), embedder, store)) == (0, 6, 20, 274)
    manifest = store.manifest()
    assert manifest is not None
    assert manifest.metric
    assert found(store, "newer", embedder)[:2] == ["d0", "d100"]
    assert _Tracked.most < 30


@pytest.mark.usefixtures("few_at_once")
def test_a_part_of_a_corpus_on_the_disk_is_embedded_a_few_documents_at_a_time(
    tmp_path: Path, embedder: WordEmbedder
) -> None:
    planned = distributed_index.IndexPart(1, 3, "d", "", "", EmbedderSettings(), Bm25Settings(), 0)
    part = distributed_index.write_part(_OnDisk(100), planned, embedder, tmp_path / "part")
    assert part.documents == 33
    assert embedder.seen[0].startswith("Title 1 ")
    assert _Tracked.most < 30


def test_two_builders_of_one_index_lose_nothing(store: Store, embedder: WordEmbedder) -> None:
    together = threading.Barrier(2)

    def build(_: int) -> IndexReport:
        together.wait(30)
        return build_index(DOCUMENTS, WordEmbedder(), store)

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(build, range(2)))
    assert {one.added + one.unchanged for one in reports} == {5}
    assert contents(store).keys() == {one.id for one in DOCUMENTS}
    assert sorted(found(store, "water", embedder)) == ["beer", "bread", "tea"]


def test_vectors_from_the_cache_are_not_said_to_be_embedded(
    tmp_path: Path, embedder: WordEmbedder
) -> None:
    manifest = describe_index(DOCUMENTS, embedder, Bm25Settings())
    said: list[set[str]] = []

    def note(what: str, _done: int, _total: int | None) -> None:
        said[-1].add(what)

    cache = VectorCache(tmp_path / "vectors.sqlite3")
    for _ in range(2):
        said.append(set())
        list(points_of(DOCUMENTS, embedder, manifest, cache, note, len(DOCUMENTS)))
    assert said == [{"embedding documents"}, {"indexing documents"}]

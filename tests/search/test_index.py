"""Building an index, by the same rules in a folder and on a server."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.search.samples import DOCUMENTS, WordEmbedder, corpus, indexed

from assay.data import Document, load_dataset
from assay.data.beir import write_beir
from assay.data.stored_documents import StoredDocuments
from assay.errors import SearchError
from assay.search import MODES
from assay.search import index as index_module
from assay.search.array_store import ArrayStore
from assay.search.embedding import VectorCache
from assay.search.index import IndexReport, build_index, open_retriever
from assay.search.store import Store

Documents = Sequence[Document]


def found(store: Store, query: str, documents: Documents = DOCUMENTS) -> list[str]:
    with indexed(store, WordEmbedder(), documents) as retriever:
        return [hit.doc_id for hit in retriever.search(query, 10, mode="bm25")]


def built(store: Store, documents: Documents, embedder: WordEmbedder) -> tuple[bool, int]:
    report = build_index(corpus(documents), embedder, store)
    return report.rebuilt, report.embedded


def test_only_what_changed_is_embedded(store: Store, embedder: WordEmbedder) -> None:
    built(store, DOCUMENTS, embedder)
    embedder.seen.clear()
    changed = replace(DOCUMENTS[1], text="Coffee grows in Ethiopia.")
    wine = Document("wine", "Red wine", "Wine is pressed from grapes.")
    now = [*DOCUMENTS[2:], changed, wine]
    assert built(store, now, embedder) == (True, 2)
    assert sorted(embedder.seen) == [
        "Coffee Coffee grows in Ethiopia.",
        "Red wine Wine is pressed from grapes.",
    ]
    words = {"Ethiopia": ["coffee"], "roasted": [], "steeped": [], "hops": ["beer"]}
    assert {word: found(store, word, now) for word in words} == words


def test_a_search_never_sees_half_an_index(store: Store, embedder: WordEmbedder) -> None:
    halfway, go_on = threading.Event(), threading.Event()

    class Slow(WordEmbedder):
        def embed(self, texts, progress=lambda *_: None):  # type: ignore[no-untyped-def]
            halfway.set()
            assert go_on.wait(30)
            return super().embed(texts, progress)

    newer = [replace(one, text=f"{one.text} Newer.") for one in DOCUMENTS[:3]]
    with indexed(store, embedder) as retriever:
        building = threading.Thread(target=build_index, args=(corpus(newer), Slow(), store))
        building.start()
        try:
            assert halfway.wait(30)
            hits = retriever.search("water", mode="bm25")
            assert sorted(hit.doc_id for hit in hits) == ["beer", "bread", "tea"]
            assert retriever.search("newer", mode="bm25") == []
        finally:
            go_on.set()
            building.join()
    assert sorted(found(store, "newer", newer)) == ["bread", "coffee", "tea"]
    assert found(store, "hops", newer) == []


def test_a_build_that_fails_leaves_the_old_index(store: Store, embedder: WordEmbedder) -> None:
    built(store, DOCUMENTS, embedder)

    class Failing(WordEmbedder):
        def embed(self, texts, progress=lambda *_: None):  # type: ignore[no-untyped-def]
            raise SearchError("out of reach")

    newer = [replace(one, text=f"{one.text} Newer.") for one in DOCUMENTS]
    with pytest.raises(SearchError, match="out of reach"):
        built(store, newer, Failing())
    assert built(store, DOCUMENTS, embedder) == (False, 0)
    assert built(store, newer, embedder)[0]
    assert len(found(store, "newer", newer)) == 5


def test_a_corpus_on_the_disk_is_indexed_by_several_processes(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [replace(one, id=f"{one.id}{n}") for n in range(30) for one in DOCUMENTS]
    write_beir(corpus(documents, "large"), tmp_path / "large")
    (tmp_path / "large" / "queries.jsonl").write_text('{"_id": "q", "text": "water"}\n')
    monkeypatch.setenv("ASSAY_CORPUS_IN_MEMORY_MB", "0")
    stored = load_dataset(str(tmp_path / "large"))
    assert isinstance(stored.documents, StoredDocuments)
    assert stored.corpus_fingerprint == corpus(documents).corpus_fingerprint
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setattr(index_module, "_DOCUMENTS_AT_ONCE", 40)
    split: list[object] = []
    monkeypatch.setattr(index_module, "split_documents", lambda *given: split.append(given))
    report = build_index(stored, WordEmbedder(texts_at_once=40), store)
    assert (report.documents, report.rebuilt, split) == (150, True, [])
    monkeypatch.undo()
    with open_retriever(stored, embedder=WordEmbedder(), store=store) as large:
        model = large.bm25
        hits = [large.search("water for saffron soup", 20, mode=mode) for mode in MODES[:-1]]
    elsewhere = ArrayStore(tmp_path / "other", "test")
    with indexed(elsewhere, WordEmbedder(), documents) as small:
        assert model == small.bm25
        for mode, found in zip(MODES, hits, strict=False):
            same = small.search("water for saffron soup", 20, mode=mode)
            assert [one.doc_id for one in found] == [one.doc_id for one in same]
            assert [one.text for one in found] == [one.text for one in same]
    VectorCache().embed([one.full_text for one in DOCUMENTS[:4]], other := WordEmbedder())
    assert other.seen == []


def test_two_builders_of_one_index_lose_nothing(store: Store, embedder: WordEmbedder) -> None:
    together = threading.Barrier(2)

    def build(_: int) -> IndexReport:
        together.wait(30)
        return build_index(corpus(), WordEmbedder(), store)

    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(build, range(2)))
    assert {one.documents for one in reports} == {5}
    assert built(store, DOCUMENTS, embedder) == (False, 0)
    assert sorted(found(store, "water")) == ["beer", "bread", "tea"]

"""The index in a folder: exact, complete or not there, and noticed when it is damaged."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.search.samples import WordEmbedder, corpus, indexed

from assay.data import Document
from assay.search import array_store, sealed_folder
from assay.search.array_store import ArrayStore
from assay.search.index import build_index, open_retriever
from assay.search.store import IndexKey


@pytest.fixture
def store(tmp_path: Path) -> ArrayStore:
    return ArrayStore(tmp_path / "index", "test")


def live(store: ArrayStore) -> Path:
    (folder,) = (one for one in Path(store.where).iterdir() if one.is_dir())
    return folder


def ranking(store: ArrayStore) -> list[tuple[str, float]]:
    with indexed(store, WordEmbedder()) as retriever:
        return [(hit.doc_id, hit.score) for hit in retriever.search("brewed water", 5)]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["vectors.f32", "chunks.npy", "spans.npy", "manifest.json"])
@pytest.mark.parametrize("damage", ["bit", "shorter", "gone"])
def test_damage_is_noticed_and_mended_with_vectors_from_the_cache(
    store: ArrayStore, name: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    right, path = ranking(store), live(store) / name
    if damage == "bit":
        flip(path)
    elif damage == "shorter":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    embedder = WordEmbedder()
    indexed(store, embedder).close()
    assert embedder.seen == []
    if path.name != "manifest.json" or damage != "gone":  # without one, there is no index
        assert caplog.text.count("it is rebuilt, with vectors from the cache") == 1
    assert ranking(store) == right


def test_an_index_of_another_version_is_replaced(store: ArrayStore) -> None:
    home = Path(store.where)
    (home / IndexKey("another", "words", format=1).digest()).mkdir(parents=True)
    assert ranking(store)
    assert len([one for one in home.iterdir() if one.is_dir()]) == 1


@pytest.mark.parametrize("shared_from", [1, 1 << 30], ids=["two threads", "one thread"])
def test_distances_are_exact(
    store: ArrayStore, monkeypatch: pytest.MonkeyPatch, shared_from: int
) -> None:
    monkeypatch.setattr(array_store, "_SHARED_FROM", shared_from)
    embedder = WordEmbedder()
    documents = [Document(f"d{n:03}", "", f"word{n} word{n % 13} tea") for n in range(200)]
    with indexed(store, embedder, documents) as retriever:
        hits = retriever.search("word7 tea", 100, mode="dense")
    query, *rows = embedder.embed(["word7 tea", *(one.text for one in documents)])
    scores = {one.id: float(row @ query) for one, row in zip(documents, rows, strict=True)}
    expected = sorted(scores, key=lambda one: (-np.float32(scores[one]), one))[:100]
    assert [hit.doc_id for hit in hits] == expected


@pytest.mark.parametrize("filters", [None, {"odd": 1}])
def test_a_large_index_compares_codes_first(
    store: ArrayStore, monkeypatch: pytest.MonkeyPatch, filters: dict[str, object] | None
) -> None:
    embedder, random = WordEmbedder(), np.random.default_rng(0)
    words = [f"word{rank}" for rank in range(300)]
    texts = [" ".join(random.choice(words, 12)) for _ in range(2000)]
    documents = [Document(f"d{n}", "", text, {"odd": n % 2}) for n, text in enumerate(texts)]

    def hits() -> list[list[str]]:
        with indexed(store, embedder, documents) as retriever:
            return [
                [hit.doc_id for hit in retriever.search(text, 10, mode="dense", filters=filters)]
                for text in texts[:50]
            ]

    exact = hits()
    shutil.rmtree(store.where)
    monkeypatch.setattr(array_store, "EXACT_UP_TO", 100)
    monkeypatch.setattr(array_store, "RESCORED", 400)
    coded = hits()
    assert (live(store) / "codes.npy").stat().st_size == 128 + 2000 * 512 // 8
    assert [one[0] for one in coded] == [one[0] for one in exact]
    found = sum(len(set(a) & set(b)) for a, b in zip(coded, exact, strict=True))
    assert found > 0.95 * sum(map(len, exact))


def test_assay_index_hashes_large_files_too(
    monkeypatch: pytest.MonkeyPatch, surroundings: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = ArrayStore(surroundings / "index", "test")
    build_index(corpus(), WordEmbedder(), store)
    monkeypatch.setattr(sealed_folder, "HASHED_WHEN_OPENED", 100)
    flip(live(store) / "vectors.f32")
    open_retriever(corpus(), embedder=WordEmbedder(), store=store).close()
    assert not caplog.text
    assert build_index(corpus(), WordEmbedder(), store).rebuilt
    assert "vectors.f32 does not match its checksum" in caplog.text

"""A small index in memory finds what the engine finds."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.search.samples import DOCUMENTS, WordEmbedder

from assay.data import Document
from assay.search import edge_store as engine
from assay.search.edge_store import EdgeSearcher, EdgeStore
from assay.search.flat_index import FOLDER, FlatIndex
from assay.search.index import build_index, open_index
from assay.search.postings import best_rows
from assay.search.retriever import Mode, Retriever
from assay.search.store import point_id

QUERIES = ("green tea", "brewed from water", "saffron", "onions and yeast", "nothing of it")
ZERO_SHOT: tuple[Mode, ...] = ("bm25", "dense", "hybrid")


@pytest.fixture
def retriever(tmp_path: Path) -> Iterator[Retriever]:
    build_index(DOCUMENTS, WordEmbedder(), EdgeStore(tmp_path, "test"))
    with open_index(EdgeStore(tmp_path, "test"), WordEmbedder()) as opened:
        yield opened


def searcher_of(retriever: Retriever) -> EdgeSearcher:
    searcher = retriever._searcher
    assert isinstance(searcher, EdgeSearcher)
    return searcher


def answers(retriever: Retriever) -> list[dict[str, tuple[float, int, str]]]:
    """By document: two cosines that are equal but for the last bit may stand either way."""
    found = [retriever.search(query, 5, mode=mode) for query in QUERIES for mode in ZERO_SHOT]
    return [
        {hit.doc_id: (round(hit.score, 5), hit.chunk_index, hit.text) for hit in hits}
        for hits in found
    ]


def test_every_mode_finds_what_the_engine_finds(retriever: Retriever) -> None:
    flat = answers(retriever)
    searcher = searcher_of(retriever)
    assert searcher._flat is not None
    searcher._flat = None
    assert answers(retriever) == flat
    assert any(flat)


def test_the_engine_is_asked_only_where_there_are_conditions(
    retriever: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    searcher, placed = searcher_of(retriever), EdgeSearcher._placed

    def counted(self: EdgeSearcher, points: list[object]) -> object:
        asked.append("engine")
        return placed(self, points)  # type: ignore[arg-type]

    monkeypatch.setattr(EdgeSearcher, "_placed", counted)
    retriever.search("water", 5)
    assert not asked
    found = retriever.search("water", 5, filters={"year": 2020})
    assert asked
    assert {hit.doc_id for hit in found} <= {"coffee", "beer"}
    assert searcher._flat is not None


def test_documents_that_another_signal_found_are_scored(retriever: Retriever) -> None:
    candidates, words = searcher_of(retriever).candidates(), retriever._bm25.query("water")
    named = ["tea", "gone", "coffee", "beer"]
    near = candidates.dense_of(named, WordEmbedder().embed(["beer"])[0])
    assert sorted(near, key=lambda one: -near[one])[0] == "beer"
    assert near.keys() == {"beer", "coffee", "tea"}
    assert candidates.best_chunks(named) == {"tea": 0, "coffee": 0, "beer": 0}
    # Coffee has not the word.
    assert candidates.lexical_of(named, words).keys() == {"beer", "tea"}
    assert candidates.dense_of([], WordEmbedder().embed(["beer"])[0]) == {}


def test_each_vector_and_each_query_has_scores_of_its_own(retriever: Retriever) -> None:
    candidates, model = searcher_of(retriever).candidates(), retriever._bm25
    for text in ("beer", "saffron", "beer"):
        (vector,) = WordEmbedder().embed([text])
        first = next(iter(candidates.dense(vector)))
        assert first == next(iter(candidates.lexical(model.query(text))))
        assert candidates.vectors([first])[first] == pytest.approx(
            searcher_of(retriever)
            .fetch([point_id(first, candidates.best_chunks([first])[first])], vectors=True)[0]
            .dense
        )
    assert candidates.chunks_of("soup") > candidates.best_chunks(["soup"])["soup"] > 0


def test_best_come_first_and_equals_in_the_order_of_documents(tmp_path: Path) -> None:
    same = [Document(f"d{number:02}", "", "tea") for number in range(30, 0, -1)]
    build_index(same, WordEmbedder(), EdgeStore(tmp_path, "test"))
    with open_index(EdgeStore(tmp_path, "test"), WordEmbedder()) as opened:
        found = searcher_of(opened).candidates().lexical(opened._bm25.query("tea"), 4)
    assert list(found) == ["d01", "d02", "d03", "d04"]


def test_a_changed_index_has_its_own(tmp_path: Path) -> None:
    store = EdgeStore(tmp_path, "test")
    build_index(DOCUMENTS, WordEmbedder(), store)
    new = Document("mate", "Mate", "Mate is drunk through a straw.")
    build_index([*DOCUMENTS[1:], new], WordEmbedder(), store)
    with open_index(store, WordEmbedder()) as opened:
        for mode in ZERO_SHOT:
            assert opened.search("mate straw", 5, mode=mode)[0].doc_id == "mate"
            assert "tea" not in {hit.doc_id for hit in opened.search("green tea", 5, mode=mode)}


def test_a_large_index_has_none_also_when_it_grew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EdgeStore(tmp_path, "test")
    build_index(DOCUMENTS[:2], WordEmbedder(), store)
    (generation,) = (tmp_path / "test").glob(f"*/{FOLDER}")
    assert FlatIndex.of(generation.parent) is not None
    monkeypatch.setattr(engine, "_INDEXING_THRESHOLD_KB", 6)  # three vectors of 2 KB
    build_index(DOCUMENTS, WordEmbedder(), store)
    assert not list((tmp_path / "test").glob(f"*/{FOLDER}"))
    with open_index(store, WordEmbedder()) as opened:
        assert opened.search("green tea", 1)[0].doc_id == "tea"


def test_the_engine_opens_a_small_index_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words are in a file, not counted again, and a search with conditions finds the same."""
    store = EdgeStore(tmp_path, "test")
    monkeypatch.setattr(engine, "_SMALL_THRESHOLD_KB", 1)
    build_index(DOCUMENTS, WordEmbedder(), store)
    assert ("Mmap", "cold") in _word_indexes(tmp_path)
    with open_index(store, WordEmbedder()) as opened:
        for mode in ZERO_SHOT:
            whole = opened.search("water", 5, mode=mode)
            within = opened.search("water", 5, mode=mode, filters={"year": {"gte": 0}})
            assert [hit.doc_id for hit in whole] == [hit.doc_id for hit in within], mode
    monkeypatch.setattr(engine, "_INDEXING_THRESHOLD_KB", 6)  # now it is a large one
    build_index([*DOCUMENTS, Document("mate", "Mate", "Mate.")], WordEmbedder(), store)
    assert {memory for _, memory in _word_indexes(tmp_path)} == {"cached"}


def _word_indexes(folder: Path) -> set[tuple[str, str]]:
    """Kind and memory of the engine's BM25 index in each segment."""
    configs = [json.loads(path.read_bytes()) for path in folder.glob("test/*/**/segment.json")]
    indexes = [one["config"]["sparse_vector_data"]["bm25"]["index"] for one in configs]
    return {(one["index_type"], one["memory"]) for one in indexes}


@pytest.mark.parametrize("count", [1, 3, 500, 1000])
def test_of_equal_scores_at_the_end_of_a_list_the_lower_rows_stay(count: int) -> None:
    scores = np.random.default_rng(1).integers(0, 3, 800).astype(np.float32)
    expected = sorted(range(800), key=lambda row: (-scores[row], row))[:count]
    assert best_rows(scores, count).tolist() == expected


def test_arrays_of_an_earlier_version_are_left_to_the_engine(tmp_path: Path) -> None:
    build_index(DOCUMENTS, WordEmbedder(), EdgeStore(tmp_path, "test"))
    (folder,) = (tmp_path / "test").glob(f"*/{FOLDER}")
    for path in sorted(folder.iterdir()):
        kept = path.read_bytes()
        path.unlink()
        assert FlatIndex.of(folder.parent) is None, path.name
        path.write_bytes(kept)
    assert FlatIndex.of(folder.parent) is not None

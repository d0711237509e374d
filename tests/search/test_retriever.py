"""Searching, by the same rules in the embedded engine and on a server."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import pytest
from tests.search.conftest import ENGINES, empty_store, isolate
from tests.search.samples import DOCUMENTS, WordEmbedder, corpus, indexed

from assay.data import Document
from assay.errors import SearchError, UsageError
from assay.search import MODES, Mode
from assay.search.bm25 import QUERY_CHARACTERS
from assay.search.index import open_retriever
from assay.search.retriever import LEXICAL_WEIGHT, Retriever, fuse, rocchio_feedback
from assay.search.store import Store

IDS = [document.id for document in DOCUMENTS]


class FixedRanker:
    """The last document first for every query; it knows nothing of tea, and little of soup."""

    def rank(self, query: str, vector: Any, top_k: int) -> tuple[dict[int, float], float]:
        assert query
        assert vector.shape == (512,)
        if query == "green tea":
            return {}, 0.0
        found = {place: place / 5 for place in list(reversed(range(len(IDS))))[:top_k]}
        return found, 0.25 if query == "onion soup" else 1.0


@pytest.fixture(scope="module", params=ENGINES)
def retriever(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Retriever]:
    """Of an index that no test changes, in both engines."""
    folder = tmp_path_factory.mktemp("retriever")
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, folder / "cache")
        store = empty_store(request, folder)
        with indexed(store, WordEmbedder()) as opened:
            opened.ranker = cast(Any, FixedRanker())
            yield opened


@pytest.mark.parametrize("mode", MODES)
def test_scores_are_from_0_to_1_best_first(retriever: Retriever, mode: Mode) -> None:
    hits = retriever.search("water and onions in the soup", 100, mode=mode)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len({hit.doc_id for hit in hits}) == len(hits) > 2
    if mode != "tuned":
        assert retriever.search("water", 2, mode=mode) == retriever.search("water", mode=mode)[:2]


@pytest.mark.parametrize("mode", MODES[:-1])
def test_the_best_chunk_stands_for_its_document(retriever: Retriever, mode: Mode) -> None:
    hit = retriever.search("saffron from Kashmir", 1, mode=mode)[0]
    assert hit.doc_id == "soup"
    assert "saffron" in hit.text
    assert hit.chunk_index == hit.total_chunks - 1 > 0


def test_equal_scores_are_in_the_order_of_ids(store: Store, embedder: WordEmbedder) -> None:
    twins = [Document(name, "Twin", "the same words exactly") for name in "dbeca"]
    with indexed(store, embedder, twins) as retriever:
        for mode in MODES[:-1]:
            hits = retriever.search("same words", 4, mode=mode)
            assert [hit.doc_id for hit in hits] == list("abcd"), mode


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("filters", "allowed"),
    [
        ({"year": 2020}, {"coffee", "beer"}),
        ({"year": [2019, 2021]}, {"tea", "bread"}),
        ({"tags": "wet"}, {"soup"}),
        ({"year": 2020, "kind": "x"}, set()),
    ],
)
def test_filters_keep_what_meets_all_of_them(
    retriever: Retriever, mode: Mode, filters: dict[str, Any], allowed: set[str]
) -> None:
    query = "tea coffee bread beer soup"
    hits = retriever.search(query, 10, mode=mode, filters=filters)
    assert {hit.doc_id for hit in hits} == allowed


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"top_k": 101}, "top_k must be from 1 to 100, got 101"),
        ({"query": "\x00\x01"}, "the query is empty"),
        ({"mode": "magic"}, "mode must be one of bm25, dense, hybrid, tuned"),
    ],
)
def test_wrong_calls_are_refused(retriever: Retriever, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        retriever.search(**{"query": "tea"} | asked)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "query",
    ["tea " + "x" * 100_000, "tea " * 25_000, "tea\x00\x1b[31m", "tea чай 绿茶 شاي", "\ud800 tea"],
    ids=["one long word", "many words", "control characters", "other scripts", "half a pair"],
)
def test_strange_queries_are_answered(retriever: Retriever, mode: Mode, query: str) -> None:
    assert "tea" in [hit.doc_id for hit in retriever.search(query, mode=mode)]


def test_a_query_is_read_up_to_a_bound(store: Store, embedder: WordEmbedder) -> None:
    with indexed(store, embedder) as retriever:
        retriever.search("tea\x00" * 25_000, mode="dense")
    assert len(embedder.seen[-1]) <= QUERY_CHARACTERS
    assert "\x00" not in embedder.seen[-1]


def test_words_that_no_document_has_find_nothing_by_words(retriever: Retriever) -> None:
    assert retriever.search("zeppelin", mode="bm25") == []
    assert retriever.search("!!!", mode="bm25") == []
    assert len(retriever.search("zeppelin", mode="hybrid")) == len(DOCUMENTS)


def test_eight_callers_at_once_get_what_one_gets(retriever: Retriever) -> None:
    queries = [f"{word} from {other}" for word in IDS for other in IDS]
    alone = [retriever.search(query, 5) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: retriever.search(query, 5), queries)) == alone


def test_hybrid_answers_what_the_tuned_ranking_does_not(retriever: Retriever) -> None:
    filters = {"year": {"gte": 2019}}
    tuned = retriever.search("green tea", 3, mode="tuned", filters=filters)
    assert tuned == retriever.search("green tea", 3, mode="hybrid", filters=filters)


def test_tuned_without_a_ranker_says_what_to_run(store: Store, embedder: WordEmbedder) -> None:
    with indexed(store, embedder) as retriever, pytest.raises(SearchError, match="assay tune"):
        retriever.search("tea", mode="tuned")


def test_many_chunks_do_not_crowd_out_other_documents(store: Store, embedder: WordEmbedder) -> None:
    """A book of 500 near chunks fills every list of nearest chunks; the others are found still."""
    book = Document("book", "Tea", "All about green tea today. " * 1500)
    shelf = [Document(f"note{i}", "", f"green tea note number {i}") for i in range(120)]
    with indexed(store, embedder, [book, *shelf]) as retriever:
        assert len(retriever.search("all about green tea today", 100, mode="dense")) == 100
        assert retriever.search("all about green tea today", 1)[0].doc_id == "book"


def test_where_little_was_learned_hybrid_has_the_rest_of_the_weight(retriever: Retriever) -> None:
    untuned = [hit.doc_id for hit in retriever.search("onion soup", 100)]
    blended = retriever.search("onion soup", 100, mode="tuned")
    learned = list(reversed(IDS))
    for hit in blended:
        own = 0.25 / (1 + learned.index(hit.doc_id))
        rest = 0.75 / (1 + untuned.index(hit.doc_id)) if hit.doc_id in untuned else 0
        assert hit.score == pytest.approx(own + rest)
    assert blended[0].doc_id == untuned[0]
    assert retriever.search("onion soup", 2, mode="tuned") == blended[:2]


@pytest.mark.parametrize("filters", [None, {"year": {"gte": 2020}}, {"tags": "hot"}, {"year": 1}])
def test_bm25_needs_no_vectors(filters: dict[str, object] | None) -> None:
    embedder, query = WordEmbedder(), "saffron and onions in hot water"
    with open_retriever(corpus(), "bm25") as alone:
        found = alone.search(query, 3, mode="bm25", filters=filters)
        with pytest.raises(UsageError, match="search it with mode bm25"):
            alone.search(query, mode="hybrid")
    with open_retriever(corpus(), embedder=embedder) as whole:
        same = whole.search(query, 3, mode="bm25", filters=filters)
    scores = [[(hit.doc_id, hit.score) for hit in one] for one in (found, same)]
    assert scores[0] == scores[1]
    assert all(hit.total_chunks == 1 for hit in found)  # the whole text, as nothing was split
    assert any(hit.doc_id == "soup" for hit in found) == (filters != {"year": 1})


def test_each_signal_counts_in_proportion_to_its_best() -> None:
    fused = fuse({"a": 20.0, "b": 10.0}, {"b": 0.8, "c": 0.4})
    words, vectors = LEXICAL_WEIGHT, 1 - LEXICAL_WEIGHT
    assert fused == pytest.approx({"a": words, "b": words / 2 + vectors, "c": vectors / 2})


def test_feedback_moves_the_query_towards_what_it_found() -> None:
    query = np.array([1.0, 0.0], np.float32)
    assert rocchio_feedback(query, [[0.0, 1.0]], [0.5]) == pytest.approx([0.5**0.5] * 2)
    assert rocchio_feedback(query, [[0.0, 0.0]], [1.0]) == pytest.approx(query)
    # One that scores half as much counts an eighth as much.
    both = rocchio_feedback(np.zeros(2, np.float32), [[1.0, 0.0], [0.0, 1.0]], [1.0, 0.5])
    assert both[1] / both[0] == pytest.approx(1 / 8)

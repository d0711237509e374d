"""BM25: the analyzer, the scoring, and the same ranking in this process and in Qdrant."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from tests.search.conftest import QdrantServer
from tests.search.samples import WordEmbedder, indexed

from assay.data import Dataset, Document, load_dataset
from assay.errors import UsageError
from assay.search.analyzer import open_analyzer
from assay.search.bm25 import (
    Bm25Index,
    Bm25Model,
    Bm25Settings,
    rounded_length,
)
from assay.search.store import IndexKey, Manifest, Store
from assay.search.vector_metric import CorpusMetric


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Statins lowered the risk", ["statin", "lower", "risk"]),
        ("Vitamin D and the Café's", ["vitamin", "d", "cafe"]),
        ("STRASSE Straße ﬁne", ["strass", "strass", "fine"]),
        ("snake_case x-ray", ["snake", "case", "x", "ray"]),
        ("зелёный чай", ["зелен", "ча"]),
        ("the of and", []),
        ("", []),
        ("!!! \x00 \ud800", []),
        ("x" * 150, ["x" * 64, "x" * 64, "x" * 22]),
    ],
)
def test_words_are_folded_stopped_and_stemmed(text: str, expected: list[str]) -> None:
    assert open_analyzer().terms(text) == expected


def test_a_score_is_the_textbooks() -> None:
    """tf / (tf + k1 (1 - b + b length / average)) times ln(1 + (N - n + 0.5) / (n + 0.5))."""
    model = model_of(["tea tea milk", "milk"], Bm25Settings(k1=1.5, b=0.5))
    assert model.average_length == 2.0
    score = model.score("tea tea milk", model.query("tea"))
    weight = 2 / (2 + 1.5 * (0.5 + 0.5 * 3 / 2.0))
    assert score == pytest.approx(weight * np.log(1 + 1.5 / 1.5), rel=2e-3)


def test_a_title_is_a_field_with_a_weight_and_a_length_of_its_own() -> None:
    """BM25F: the weighted sum of each field's normalized frequency is saturated once."""
    documents = [Document("a", "tea", "tea tea milk"), Document("b", "milk jug", "milk")]
    settings = Bm25Settings(k1=1.5, b=0.5, title_weight=2.0)
    model = Bm25Index(documents, settings).model
    assert (model.average_length, model.average_title) == (2.0, 1.4)
    frequency = 2 / (0.5 + 0.5 * 3 / 2.0) + 2.0 * 1 / (0.5 + 0.5 * 1 / 1.4)
    vector = model.document(documents[0])
    weight = vector.values[vector.indices.index(model.query("tea").indices[0])]
    assert weight == pytest.approx(frequency / (frequency + 1.5), abs=1e-3)


def test_delta_is_what_a_word_is_worth_at_least() -> None:
    """BM25+, divided by what a word can be worth at most, as all weights are."""
    long = ["tea " + "milk " * 400, "milk"]
    plain = model_of(long, Bm25Settings(delta=0.0))
    lifted = model_of(long, Bm25Settings(delta=1.0))
    tea = plain.query("tea")
    ratio = plain.score(long[0], tea) / sum(tea.values)
    least = 1.0 / (1 + plain.settings.k1)
    assert lifted.score(long[0], tea) / sum(tea.values) == pytest.approx(
        (ratio + least) / (1 + least)
    )


def test_a_word_of_the_title_counts_more_and_a_title_without_weight_not_at_all() -> None:
    documents = [
        Document("text", "Drinks", "green tea and something else"),
        Document("title", "Green tea", "and something else drinks"),
    ]
    assert Bm25Index(documents).search("tea", 2)[0][0] == "title"
    alone = Bm25Index(documents, Bm25Settings(title_weight=0)).search("tea", 2)
    assert [doc_id for doc_id, _ in alone] == ["text"]


def test_sums_are_exact_in_32_bits_whatever_their_order() -> None:
    words = [f"word{n}" for n in range(600)]
    texts = [" ".join(words[n:] * (1 + n % 3)) for n in range(0, 600, 7)]
    model = model_of(texts)
    query = model.query(" ".join(words))
    assert sum(query.values) / min(query.values) < 2**24
    for text in texts:
        document = dict(zip(*(vars_of(model, text)), strict=True))
        products = [
            np.float32(document.get(index, 0)) * np.float32(value)
            for index, value in zip(query.indices, query.values, strict=True)
        ]
        total = np.float32(0)
        for product in products:
            total += product
        back = np.float32(0)
        for product in reversed(products):
            back += product
        assert total == back
        assert total == pytest.approx(model.score(text, query), rel=0.01)


def model_of(texts: list[str], settings: Bm25Settings | None = None) -> Bm25Model:
    documents = [Document(f"d{n}", "", text) for n, text in enumerate(texts)]
    return Bm25Index(documents, settings).model


def untitled(text: str) -> Document:
    return Document("d", "", text)


def vars_of(model: Bm25Model, text: str) -> tuple[list[int], list[float]]:
    vector = model.document(untitled(text))
    return vector.indices, vector.values


def test_a_repeated_word_of_a_query_counts_once() -> None:
    model = model_of(["tea", "milk"])
    assert model.query("tea tea TEA") == model.query("tea")


def test_a_few_more_documents_leave_the_average_length_as_it_is() -> None:
    texts = ["word " * 200] * 100
    before = model_of(texts).average_length
    assert before == model_of([*texts, "short", "word " * 900]).average_length
    assert before != model_of(["word " * 400] * 100).average_length


def test_no_documents_have_an_average_length_all_the_same() -> None:
    assert model_of([]).average_length == model_of([""]).average_length == 1.0
    assert rounded_length(0.0) == 1.0


@pytest.mark.parametrize(
    ("k1", "b", "message"),
    [
        (-0.1, 0.5, "k1 of BM25 must be from 0 to 100, got -0.1"),
        (float("nan"), 0.5, "k1 of BM25"),
        (float("inf"), 0.5, "k1 of BM25"),
        (1.2, 1.1, "b of BM25 must be from 0 to 1, got 1.1"),
        (1.2, float("nan"), "b of BM25"),
    ],
)
def test_settings_out_of_range_are_refused(k1: float, b: float, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Bm25Settings(k1, b)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_BM25", "")
    assert Bm25Settings.from_environment() == Bm25Settings(1.2, 0.75)
    monkeypatch.setenv("ASSAY_BM25", "k1=0.9, b=0.4,title-weight=2,language=de")
    chosen = Bm25Settings.from_environment()
    assert chosen == Bm25Settings(0.9, 0.4, title_weight=2, language="german")
    assert str(chosen) == "k1=0.9, b=0.4, title weight=2, language=german"
    for name, value in chosen.as_environment().items():
        monkeypatch.setenv(name, value)
    assert Bm25Settings.from_environment() == chosen


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("b=half", "--bm25 'b=half' is not KEY=NUMBER"),
        ("lang=de", "--bm25 'lang=de' is not KEY=VALUE with one of .*Did you mean 'language'"),
        ("0.9", "is not KEY=VALUE"),
    ],
)
def test_wrong_parameters_are_named(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Bm25Settings.parse([text])


def test_the_page_lists_every_setting_with_its_variable_and_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "search.md").read_text()
    for name, default in asdict(Bm25Settings()).items():
        shown = default if isinstance(default, str) else f"{default:g}"
        assert f"| `{name}` | {shown} |" in page


def test_ties_are_in_the_order_of_ids_whatever_the_order_of_documents() -> None:
    documents = [Document(name, "", "same words") for name in ("c", "a", "b")]
    assert [doc_id for doc_id, _ in Bm25Index(documents).search("words", 2)] == ["a", "b"]


def _rankings_are_the_same(
    dataset: Dataset, store: Store, settings: Bm25Settings, depths: tuple[int, ...] = (5, 100)
) -> None:
    embedder = WordEmbedder(max_tokens=256)
    index = Bm25Index(dataset.documents.values(), settings)
    with indexed(store, embedder, dataset.documents.values(), settings) as retriever:
        assert retriever.manifest.bm25 == index.model
        for query in dataset.queries_in("test"):
            for top_k in depths:
                hits = retriever.search(query.text, top_k, mode="bm25")
                in_memory = index.search(query.text, top_k)
                assert [hit.doc_id for hit in hits] == [doc_id for doc_id, _ in in_memory]
                assert [hit.score for hit in hits] == [
                    score / (score + 4.5) for _, score in in_memory
                ]


@pytest.mark.parametrize(
    "settings",
    [
        Bm25Settings(),
        Bm25Settings(0, 0, title_weight=0),
        Bm25Settings(0.9, 0.4, 0.7, 2.5, "none"),
    ],
)
def test_every_query_of_notes_ranks_alike_in_memory_and_in_qdrant(
    store: Store, settings: Bm25Settings
) -> None:
    _rankings_are_the_same(load_dataset("notes"), store, settings)


def test_shards_of_a_server_rank_as_one_index_does(qdrant_server: QdrantServer) -> None:
    from assay.search.qdrant import ServerStore

    store = ServerStore(qdrant_server.url, "bm25-shards", shards=3)
    _rankings_are_the_same(load_dataset("notes"), store, Bm25Settings())


def test_ties_at_the_end_of_a_page_go_to_the_lower_id(store: Store, embedder: WordEmbedder) -> None:
    documents = [Document(f"d{n:03}", "", "the same words") for n in reversed(range(300))]
    with indexed(store, embedder, documents) as retriever:
        hits = retriever.search("words", 100, mode="bm25")
    assert [hit.doc_id for hit in hits] == [f"d{n:03}" for n in range(100)]


def test_other_settings_build_the_index_again(store: Store, embedder: WordEmbedder) -> None:
    indexed(store, embedder).close()
    embedder.seen.clear()
    with indexed(store, embedder, bm25=Bm25Settings(2.0, 0.5)) as retriever:
        assert retriever.manifest.bm25.settings == Bm25Settings(2.0, 0.5)
    assert embedder.seen == []  # vectors come from the cache


@pytest.mark.parametrize("frequencies", [True, False])
def test_a_manifest_reads_what_it_wrote(frequencies: bool) -> None:
    model = model_of(["tea", "milk"], Bm25Settings(1.0, 0.5))
    key = IndexKey("corpus", "words", "k1=1", "english")
    manifest = Manifest(key, 2, 3, "1.0", model, CorpusMetric())
    written = json.loads(json.dumps(manifest.as_json(frequencies=frequencies)))
    found = Manifest.from_json(written, "here")
    assert (found.key, found.bm25, found.documents) == (key, model, 2)
    assert dict(found.bm25.frequencies) == (dict(model.frequencies) if frequencies else {})

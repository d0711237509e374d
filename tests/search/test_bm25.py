"""BM25: the analyzer, the scoring, and the order of ties."""

import numpy as np
import pytest

from assay.data import Document, load_dataset
from assay.errors import UsageError
from assay.search.bm25 import Bm25Index, Bm25Settings


def test_a_score_is_the_textbooks() -> None:
    """tf / (tf + k1 (1 - b + b length / average)) times ln(1 + (N - n + 0.5) / (n + 0.5))."""
    index = indexed_texts(["tea tea milk", "milk"], Bm25Settings(k1=1.5, b=0.5))
    assert index.model.average_length == 2.0
    weight = 2 / (2 + 1.5 * (0.5 + 0.5 * 3 / 2.0))
    ((doc_id, score),) = index.search("tea", 1)
    assert doc_id == "d0"
    for found in (score, index.score_text("tea tea milk", index.query("tea"))):
        assert found == pytest.approx(weight * np.log(1 + 1.5 / 1.5), rel=2e-3)


def test_a_title_is_a_field_with_a_weight_and_a_length_of_its_own() -> None:
    """BM25F: the weighted sum of each field's normalized frequency is saturated once."""
    documents = [Document("a", "tea", "tea tea milk"), Document("b", "milk jug", "milk")]
    index = Bm25Index(documents, Bm25Settings(k1=1.5, b=0.5, title_weight=2.0))
    assert (index.model.average_length, index.model.average_title) == (2.0, 1.4)
    frequency = 2 / (0.5 + 0.5 * 3 / 2.0) + 2.0 * 1 / (0.5 + 0.5 * 1 / 1.4)
    ((_, score),) = index.search("tea", 1)
    (idf,) = index.query("tea").values()
    assert score / idf == pytest.approx(frequency / (frequency + 1.5), abs=1e-3)


def test_delta_is_what_a_word_is_worth_at_least() -> None:
    """BM25+, divided by what a word can be worth at most, as all weights are."""
    long = ["tea " + "milk " * 400, "milk"]
    plain = indexed_texts(long, Bm25Settings(delta=0.0))
    lifted = indexed_texts(long, Bm25Settings(delta=1.0))
    tea = plain.query("tea")
    (idf,) = tea.values()
    ratio, least = plain.score_text(long[0], tea) / idf, 1.0 / (1 + plain.model.settings.k1)
    assert lifted.score_text(long[0], tea) / idf == pytest.approx((ratio + least) / (1 + least))


def indexed_texts(texts: list[str], settings: Bm25Settings | None = None) -> Bm25Index:
    return Bm25Index((Document(f"d{n}", "", text) for n, text in enumerate(texts)), settings)


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
        ("lang=de", "--bm25 'lang=de' is not KEY=VALUE with one of "),
        ("0.9", "is not KEY=VALUE"),
        ("k1=-0.1", "k1 of BM25 must be from 0 to 100, got -0.1"),
        ("k1=nan", "k1 of BM25"),
        ("b=1.1", "b of BM25 must be from 0 to 1, got 1.1"),
    ],
)
def test_wrong_settings_are_named(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Bm25Settings.parse([text])


def test_ties_at_the_end_of_a_page_go_to_the_lower_id() -> None:
    documents = [Document(f"d{n:03}", "", "the same words") for n in reversed(range(300))]
    found = Bm25Index(documents).search("words", 100)
    assert [doc_id for doc_id, _ in found] == [f"d{n:03}" for n in range(100)]


def test_scores_of_some_documents_are_those_among_all() -> None:
    notes = load_dataset("notes")
    index = Bm25Index(notes.documents.values())
    for query in notes.queries_in("test"):
        terms = index.query(query.text)
        every = index.find(terms)
        some = set(list(every)[::3]) | {"note-001"}
        assert index.find(terms, among=some) == {one: every[one] for one in every if one in some}

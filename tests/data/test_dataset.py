"""The data set itself: which queries count, and what its fingerprint covers."""

from dataclasses import replace

import pytest

from assay.data import Dataset, Document, Query, load_dataset
from assay.data.dataset import Fact
from assay.errors import UsageError

SMALL = Dataset(
    "small",
    {"d": Document("d", "", "text")},
    {"b": Query("b", "?"), "a": Query("a", "?"), "c": Query("c", "?")},
    {"test": {"a": {"d": 1}, "b": {"d": 1}, "c": {"d": 0}}},
)


def test_queries_of_a_split_are_those_with_a_relevant_document_in_file_order() -> None:
    assert [query.id for query in SMALL.queries_in("test")] == ["b", "a"]


def test_an_unknown_split_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'small' has no split 'dev'; it has: test"):
        SMALL.queries_in("dev")


@pytest.mark.parametrize(
    "changed",
    [
        replace(SMALL, documents={"d": Document("d", "", "other text")}),
        replace(SMALL, documents={"d": Document("d", "text", "")}),
        replace(SMALL, queries={"b": Query("b", "!")}),
        replace(SMALL, judgments={"test": {"a": {"d": 2}}}),
        replace(SMALL, judgments={"dev": SMALL.judgments["test"]}),
    ],
)
def test_the_fingerprint_changes_with_whatever_a_score_depends_on(changed: Dataset) -> None:
    assert changed.fingerprint != SMALL.fingerprint


def test_the_fingerprint_ignores_the_name() -> None:
    assert replace(SMALL, name="other").fingerprint == SMALL.fingerprint


def test_the_repr_is_one_line_with_the_sizes() -> None:
    assert repr(SMALL) == "<Dataset small: 1 document, 3 queries, splits test (3)>"
    notes = load_dataset("notes")
    expected = "<Dataset notes: 230 documents, 120 queries, splits test (120), 120 answers>"
    assert repr(notes) == expected
    assert repr(replace(SMALL, judgments={})).endswith("splits none>")


def test_the_repr_of_a_document_is_short() -> None:
    assert repr(Document("d", "a title", "text")) == "Document('d', title='a title', text='text')"
    assert len(repr(Document("d", "t" * 10_000, "x" * 1_000_000))) < 200


def test_the_text_of_a_fact_is_a_wording_where_the_reference_has_it_and_it_is_no_label() -> None:
    def wordings(text: str, *accept: str) -> tuple[str, ...]:
        return Fact.read(text, accept, "No, the price is $19 for owners.").accept

    assert wordings("$19") == ("$19",)
    assert wordings("$19", "19 dollars") == ("19 dollars", "$19")
    assert wordings("the price", "$19") == ("$19",)  # a label
    assert wordings("owners", "renter") == ("renter", "owners")
    assert wordings("owner", "owners") == ("owners",)
    assert wordings("no", "$19") == ("$19", "no")
    assert wordings("$20", "20 dollars") == ("20 dollars",)
    assert wordings("wn", "renter") == ("renter",)  # a part of a word


@pytest.mark.parametrize(
    ("text", "accept", "reference"),
    [
        ("deadline", ("deadline is 3 May", "3 May"), "The deadline is 3 May."),
        ("price in euros", ("40 euros",), "The price in euros is 40."),
        ("number of seats", ("40 seats",), "The number of seats is forty: 40 seats."),
        ("no", ("without fee",), "It is not paid without fee, on no account."),
    ],
)
def test_the_label_of_a_fact_is_no_wording_although_it_has_words_of_one(
    text: str, accept: tuple[str, ...], reference: str
) -> None:
    assert Fact.read(text, accept, reference).accept == accept

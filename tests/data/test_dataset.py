"""The data set itself: which queries count, and what its fingerprint covers."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import assay.data
from assay.data import Dataset, Document, Query, load_dataset
from assay.data.beir import write_beir
from assay.data.dataset import UNANSWERABLE, Fact, sample_dataset
from assay.data.load import check_dataset
from assay.errors import DataError

SMALL = Dataset(
    "small",
    {"d": Document("d", "", "text")},
    {"b": Query("b", "?"), "a": Query("a", "?"), "c": Query("c", "?")},
    {"test": {"a": {"d": 1}, "b": {"d": 1}, "c": {"d": 0}}},
)


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


def test_the_text_of_a_fact_is_a_wording_where_the_reference_has_it_and_it_is_no_label() -> None:
    def wordings(text: str, *accept: str) -> tuple[str, ...]:
        fact = {"text": text, "accept": list(accept)}
        return Fact.read(fact, "No, the price is $19 for owners.").accept

    assert wordings("$19") == ("$19",)
    assert wordings("$19", "19 dollars") == ("19 dollars", "$19")
    assert wordings("the price", "$19") == ("$19",)  # a label
    assert wordings("owners", "renter") == ("renter", "owners")
    assert wordings("owner", "owners") == ("owners",)
    assert wordings("no", "$19") == ("$19", "no")
    assert wordings("$20", "20 dollars") == ("20 dollars",)
    assert wordings("wn", "renter") == ("renter",)  # a part of a word


NOTES = load_dataset("notes")


def test_a_sample_keeps_what_its_queries_need() -> None:
    small = sample_dataset(NOTES, 10, documents=60)
    judged = small.judgments_in("test")
    assert (len(small.queries), len(small.documents)) == (10, 60)
    assert all(judged[query_id] == NOTES.judgments_in("test")[query_id] for query_id in judged)
    assert {d for grades in judged.values() for d in grades} <= small.documents.keys()
    assert small.answers.keys() == small.queries.keys()
    assert list(small.queries) == [query for query in NOTES.queries if query in small.queries]
    least = sample_dataset(NOTES, 10, documents=0)
    needed = {d for grades in least.judgments_in("test").values() for d in grades}
    assert needed == least.documents.keys()


def test_a_sample_of_model_made_judgments_says_so(tmp_path: Path) -> None:
    made = replace(NOTES, judged_by="3 of 9 judgments are model-made (openai:m)")
    cut = sample_dataset(made, 3)
    assert cut.judged_by == "in notes, 3 of 9 judgments are model-made (openai:m)"
    write_beir(cut, tmp_path / "cut")
    assert load_dataset(tmp_path / "cut").judged_by == cut.judged_by
    (tmp_path / "cut" / "judged_by.jsonl").write_text("{}")
    with pytest.raises(DataError, match=r"judged_by\.jsonl: must be an object"):
        load_dataset(tmp_path / "cut")


FOLDER = Path(assay.data.__file__).parent / "notes"
ANSWERS: list[dict[str, Any]] = [
    json.loads(line) for line in (FOLDER / "answers.jsonl").read_text("utf-8").splitlines()
]


def states(text: str, fact: dict[str, Any]) -> bool:
    folded = re.sub(r"\s+", " ", text).casefold()
    return any(re.sub(r"\s+", " ", each).casefold() in folded for each in fact["accept"])


def test_every_id_resolves() -> None:
    found = check_dataset("notes")
    assert (found.errors, found.warnings) == ((), ())
    assert NOTES.queries.keys() == NOTES.answers.keys() == NOTES.judgments["test"].keys()


def test_unanswerable_queries_have_only_near_misses() -> None:
    for answer in ANSWERS:
        query = answer["query_id"]
        if UNANSWERABLE in NOTES.queries[query].tags:
            grades = NOTES.judgments["test"][query]
            assert set(grades.values()) == {0}, query
            assert 2 <= len(grades) <= 4, query
            assert (answer["answer"], answer["facts"], answer["documents"]) == (None, [], []), query
            assert answer["why"], query


def test_facts_are_in_the_documents_and_in_the_reference_answers() -> None:
    for answer in ANSWERS:
        texts = [NOTES.documents[each].full_text for each in answer["documents"]]
        for fact in answer["facts"]:
            where = (answer["query_id"], fact["text"])
            assert states(answer["answer"], fact), where
            assert fact.get("derived") or any(states(text, fact) for text in texts), where

"""The bundled `notes` data set must stay consistent with itself."""

import json
import re
from pathlib import Path
from typing import Any

import assay.data
from assay.data import UNANSWERABLE, load_dataset
from assay.data.load import check_dataset

FOLDER = Path(assay.data.__file__).parent / "notes"
NOTES = load_dataset("notes")
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

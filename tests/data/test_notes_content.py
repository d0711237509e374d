"""The bundled ``notes`` data set must stay consistent with itself."""

import csv
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "src" / "assay" / "data" / "notes"
Record = dict[str, Any]


def read_lines(name: str) -> list[Record]:
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def corpus() -> dict[str, Record]:
    return {record["_id"]: record for record in read_lines("corpus.jsonl")}


@cache
def queries() -> dict[str, Record]:
    return {record["_id"]: record for record in read_lines("queries.jsonl")}


@cache
def answers() -> dict[str, Record]:
    return {record["query_id"]: record for record in read_lines("answers.jsonl")}


@cache
def qrels() -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    with (FOLDER / "qrels" / "test.tsv").open(encoding="utf-8", newline="") as handle:
        for row in csv.DictReader(handle, delimiter="\t"):
            grades.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
    return grades


def tags(query_id: str) -> list[str]:
    found: list[str] = queries()[query_id]["metadata"]["tags"]
    return found


def is_unanswerable(query_id: str) -> bool:
    return "unanswerable" in tags(query_id)


def fold(text: str) -> str:
    return re.sub(r"\s+", " ", text).casefold()


def full_text(document_id: str) -> str:
    document = corpus()[document_id]
    return fold(f"{document['title']} {document['text']}")


def states(text: str, fact: Record) -> bool:
    return any(fold(accepted) in text for accepted in fact["accept"])


def supporters(fact: Record, documents: list[str]) -> set[str]:
    return {document for document in documents if states(full_text(document), fact)}


def test_every_id_resolves() -> None:
    assert set(qrels()) == set(queries()) == set(answers())
    for query, grades in qrels().items():
        assert set(grades) <= set(corpus()), query
        assert set(grades.values()) <= {0, 1, 2}, query
        assert set(answers()[query]["documents"]) <= set(corpus()), query


def test_unanswerable_queries_have_only_near_misses() -> None:
    for query, grades in qrels().items():
        if is_unanswerable(query):
            answer = answers()[query]
            assert set(grades.values()) == {0}, query
            assert 2 <= len(grades) <= 4, query
            assert answer["answer"] is None, query
            assert answer["facts"] == [], query
            assert answer["documents"] == [], query
            assert answer["why"], query


def test_facts_are_in_the_documents() -> None:
    for query, answer in answers().items():
        for fact in answer["facts"]:
            assert fact["accept"], (query, fact["text"])
            if not fact.get("derived", False):
                assert supporters(fact, answer["documents"]), (query, fact["text"])


def test_reference_answers_state_their_facts() -> None:
    for query, answer in answers().items():
        for fact in answer["facts"]:
            assert states(fold(answer["answer"]), fact), (query, fact["text"])

"""Logged answers: which columns are known, what a cell may hold, what is refused by line."""

import re
from typing import Any

import numpy
import pytest

from assay.data.dataset import Fact
from assay.data.logged_answers import (
    COLUMNS,
    LoggedAnswer,
    LoggedContext,
    looks_logged,
    read_logged,
)
from assay.data.table import parse_columns
from assay.data.text_file import Record
from assay.errors import DataError, UsageError


def read(columns: dict[str, str] | None = None, /, **fields: Any) -> LoggedAnswer:
    (row,) = read_logged([Record("log.jsonl", 7, fields, lined=True)], columns)
    if isinstance(row, DataError):
        raise row
    return row


@pytest.mark.parametrize(
    "fields",
    [
        {"question": "Q", "contexts": ["C"], "answer": "A", "ground_truth": "R"},
        {"user_input": "Q", "retrieved_contexts": ["C"], "response": "A", "reference": "R"},
        {"input": "Q", "retrieval_context": ["C"], "actual_output": "A", "expected_output": "R"},
        {"question": "Q", "contexts": "C", "answer": "A", "ground_truths": ["R"]},
    ],
)
def test_the_columns_of_other_evaluators_are_known(fields: dict[str, Any]) -> None:
    row = read(**fields)
    assert (row.question, row.answer, row.reference) == ("Q", "A", "R")
    assert row.contexts == (LoggedContext("", "C"),)


def test_columns_are_mapped_by_name_or_path() -> None:
    columns = parse_columns(["query=prompt,answer=out.text", "contexts=docs"], COLUMNS)
    row = read(columns, prompt="Q", out={"text": "A"}, docs=["C"], question="other")
    assert (row.question, row.answer, row.contexts) == ("Q", "A", (LoggedContext("", "C"),))
    with pytest.raises(DataError, match=r"has no 'out' of --columns 'out.text', only \['prompt'\]"):
        read(columns, prompt="Q")
    for given in ("question", "question=", "color=x", "=x"):
        with pytest.raises(UsageError, match=r"is not KEY=COLUMN; the keys are question"):
            parse_columns([given], COLUMNS)


@pytest.mark.parametrize(
    "cell",
    [
        ["one", "two"],
        ("one", "two"),
        '["one", "two"]',
        "['one', 'two']",
        numpy.array(["one", "two"], dtype=object),
        [{"text": "one"}, {"page_content": "two", "metadata": {}}],
    ],
)
def test_a_list_of_contexts_is_read_however_it_was_written(cell: Any) -> None:
    row = read(question="Q", answer="A", contexts=cell)
    assert [each.text for each in row.contexts] == ["one", "two"]


def test_contexts_keep_their_ids_and_facts_their_wordings() -> None:
    row = read(
        question="Q",
        answer=None,
        contexts=[{"id": "a#1", "text": "one"}, {"doc_id": 4, "content": "two"}],
        facts=["plain", {"text": "long", "accept": ["l", "ll"]}],
        citations=[2, "a#1"],
        id=12,
        answerable="False",
    )
    assert row.contexts == (LoggedContext("a#1", "one"), LoggedContext("4", "two"))
    assert row.facts == (Fact("plain", ("plain",)), Fact("long", ("l", "ll")))
    assert (row.citations, row.id, row.answer, row.answerable) == (("2", "a#1"), "12", None, False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"answer": "A"}, "has no column for the question (question, query, user_input"),
        ({"question": "Q"}, '--columns answer=NAME, in Python columns={"answer": "NAME"}'),
        ({"question": " ", "answer": "A"}, "has no question"),
        ({"question": 3, "answer": "A"}, "'question' must be a string or null, got 3"),
        ({"question": "Q", "answer": ["A"]}, "'answer' must be a string or null, got ['A']"),
        ({"question": "Q", "answer": "A", "contexts": [1]}, "'contexts' must be a list of texts"),
        ({"question": "Q", "answer": "A", "facts": [1]}, "'facts': a fact is"),
        ({"question": "Q", "answer": "A", "answerable": "so"}, "'answerable' must be true or fals"),
        ({"question": "Q", "answer": "A", "reference": {}}, "'reference' must be a string"),
    ],
)
def test_a_dirty_row_is_refused_with_its_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=r"^log\.jsonl:7: .*" + re.escape(message)):
        read(**fields)


def test_a_ranking_is_no_logged_answer() -> None:
    assert looks_logged({"question": "Q", "answer": None})
    assert not looks_logged({"question": ["d1"], "answer": ["d2"]})
    assert not looks_logged({"query_id": "q", "doc_ids": ["d"]})

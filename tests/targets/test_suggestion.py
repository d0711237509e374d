"""Which mapping is suggested for ids of the data set in an answer that was not understood."""

import json
import re
from typing import Any

import pytest

from assay.targets.mapping import AnswerReader, Received, parse_mapping
from assay.targets.suggestion import suggest_answer, suggest_mapping, suggest_pattern

IDS = ("note-7", "note-2")


@pytest.mark.parametrize(
    "text",
    [
        "1. **Coffee** (id: note-7)\n2. **Tea** (id: note-2)",
        "- note-7: coffee\n- note-2: tea",
        "See [note-7] and [note-2].",
        "ID: note-7\nTitle: x\n\nID: note-2\nTitle: y",
        "| note-7 | coffee |\n| note-2 | tea |",
        "* id=note-7 (Coffee)\n* id=note-2 (Tea)",
        "I recommend note-7 first, then note-2.",
        "<a href='/d/note-7.html'>x</a><a href='/d/note-2.html'>y</a>",
        "Steep it. Then wait.\n\nSources:\n1. note-7.md\n2. note-2.md",
    ],
)
def test_the_suggested_pattern_finds_the_ids(text: str) -> None:
    found = re.findall(suggest_pattern(text, IDS), text)
    assert tuple(dict.fromkeys(each for each in found if each in IDS)) == IDS


@pytest.mark.parametrize("text", ["", "nothing here", "note-1 is unknown", "x" * 300_000])
def test_there_is_no_pattern_without_ids(text: str) -> None:
    assert suggest_pattern(text, IDS) == ""


def test_there_is_no_pattern_for_ids_that_have_nothing_in_common() -> None:
    assert suggest_pattern("first apple then b-52 or so", ("apple", "b-52")) == ""


@pytest.mark.parametrize(
    ("value", "mapping"),
    [
        ({"a": {"b": [{"c": "note-7"}, {"c": "note-2"}]}}, "ids=a.b[].c"),
        ({"results": {"note-7": 0.9, "note-2": 0.8}}, "ids=results.keys(@)"),
        ([["note-7", "note-2"]], "ids=[][]"),
        ({"rows": [[1.5, "note-7", "Tea"], [1, "note-2", "Tea"]]}, "ids=rows[*][1]"),
        ({"data": [{"data": [["note-7", "x"], ["note-2", "y"]]}]}, "ids=data[].data[*][0][]"),
        ({"text": 'One is "note-7", one is "note-2".'}, r"ids=re:\b(note\-\d+)\b"),
    ],
)
def test_the_suggested_mapping_reads_the_ids(value: Any, mapping: str) -> None:
    text = json.dumps(value)
    assert suggest_mapping(value, text, IDS) == mapping
    reader = AnswerReader(parse_mapping([mapping]), IDS)
    assert reader.read(Received.from_text(text)).doc_ids == IDS


PROSE = "The pool opens at seven on weekdays."
PASSAGE = "Notice at the door: the pool opens at seven in the morning on weekdays."


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"data": {"output": PROSE}}, "data.output"),
        ({"choices": [{"message": {"content": PROSE}}]}, "choices[0].message.content"),
        ({"question": "When does it open, please?", "reply-text": PROSE}, '"reply-text"'),
        ({"result": PROSE, "source_documents": [{"page_content": PASSAGE}]}, "result"),
        ({"x": PROSE, "nodes": [{"id": "a", "body": PASSAGE}]}, "x"),
        ({"hits": [{"id": "note-7"}], "status": "all is well here"}, ""),
        ({str(number): number for number in range(50_000)}, ""),
        ("text", ""),
    ],
)
def test_the_text_of_an_answer_is_found_by_its_form(value: Any, path: str) -> None:
    assert suggest_answer(value, "When does it open, please?") == path
    if path:
        reader = AnswerReader(parse_mapping([f"answer={path}", "ids=`[]`"]))
        assert reader.read(Received(json.dumps(value), value)).answer == PROSE


def test_a_deep_value_is_looked_through_in_bounds() -> None:
    deep: Any = PROSE
    for _ in range(200):
        deep = {"a": deep}
    assert suggest_answer(deep) == ""

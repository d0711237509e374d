"""Which mapping is suggested for ids of the data set in an answer that was not understood."""

import json
from typing import Any

import pytest

from assay.targets.answer_reader import AnswerReader, Received, parse_mapping
from assay.targets.detection import suggest_answer, suggest_mapping

IDS = ("note-7", "note-2")


@pytest.mark.parametrize(
    ("value", "mapping"),
    [
        ({"a": {"b": [{"c": "note-7"}, {"c": "note-2"}]}}, "ids=a.b[].c"),
        ([["note-7", "note-2"]], "ids=[][]"),
        (
            {"text": "Coffee (id: note-7), tea (id: note-2)"},
            r"ids=re:(?i)\bid[:=]\s?([^\s,;)\]\"]+)",
        ),
        ({"text": "See [note-7] and [note-2]."}, r"ids=re:\[([^\]]+)\]"),
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

"""Which mapping is suggested for ids of the data set in an answer that was not understood."""

import json
import re
from typing import Any

import pytest

from assay.agents.mapping import AnswerReader, Received, parse_mapping
from assay.agents.suggestion import suggest_mapping, suggest_pattern

IDS = ("note-7", "note-2")


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("1. **Coffee** (id: note-7)\n2. **Tea** (id: note-2)", r"\(id: ([^\)]+)\)"),
        ("- note-7: coffee\n- note-2: tea", r"\- ([^:]+):"),
        ("See [note-7] and [note-2].", r"\[([^\]]+)\]"),
        ("ID: note-7\nTitle: x\n\nID: note-2\nTitle: y", r"ID: (\S+)"),
        ("| note-7 | coffee |\n| note-2 | tea |", r"(?m)^\| (\S+)"),
        ("* id=note-7 (Coffee)\n* id=note-2 (Tea)", r"id=(\S+)"),
        ("id:note-7 id:note-2", r"id:(\S+)"),
        ("I recommend note-7 first, then note-2.", r"\b(note\-\d+)\b"),
        ("see note-7 (ref: note-7) and (ref: note-2).", r"\(ref: ([^\)]+)\)"),
        ("<a href='/d/note-7.html'>x</a><a href='/d/note-2.html'>y</a>", r"=./d/([^\.]+)\."),
    ],
)
def test_a_pattern_is_made_of_what_surrounds_the_ids(text: str, pattern: str) -> None:
    assert suggest_pattern(text, IDS) == pattern
    assert tuple(dict.fromkeys(re.findall(pattern, text))) == IDS


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
        ({"text": 'One is "note-7", one is "note-2".'}, r'ids=re:is \\"([^\\]+)\\'),
    ],
)
def test_the_suggested_mapping_reads_the_ids(value: Any, mapping: str) -> None:
    text = json.dumps(value)
    assert suggest_mapping(value, text, IDS) == mapping
    reader = AnswerReader(parse_mapping([mapping]), IDS)
    assert reader.read(Received.from_text(text)).doc_ids == IDS

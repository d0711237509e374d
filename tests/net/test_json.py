"""JSON from outside: parsed once, within a depth that everything behind the parser can follow."""

from pathlib import Path

import orjson
import pytest

from assay.data.logged_answers import read_logged
from assay.data.table import read_table
from assay.errors import DataError
from assay.net.json import MAX_DEPTH, is_deep, parse_json, parse_object
from assay.targets.a2a import json_values
from assay.targets.http_agent import ReadyState, _not_ready


def nested(levels: int, opening: str = "[", inside: str = "", closing: str = "]") -> str:
    return opening * levels + inside + closing * levels


@pytest.mark.parametrize("kind", [("[", "", "]"), ('{"a":', "1", "}"), ('[{"a":', "1", "}]")])
@pytest.mark.parametrize("as_bytes", [False, True])
def test_a_document_is_read_up_to_a_depth(kind: tuple[str, str, str], as_bytes: bool) -> None:
    each = kind[0].count("[") + kind[0].count("{")
    most, more = (nested(levels, *kind) for levels in (MAX_DEPTH // each, MAX_DEPTH // each + 1))
    assert not is_deep(parse_json(most.encode() if as_bytes else most))
    with pytest.raises(orjson.JSONDecodeError, match="nested more than 128 deep"):
        parse_json(more.encode() if as_bytes else more)
    assert parse_object('{"x":' + more + "}") is None


def test_a_wide_document_and_brackets_in_texts_are_not_deep() -> None:
    assert len(parse_json("[" + ",".join(["[{}]"] * 1000) + "]")) == 1000
    assert parse_json(orjson.dumps(["[{" * 1000])) == ["[{" * 1000]


def test_json_in_prose_is_bounded_too() -> None:
    assert list(json_values("so: " + nested(300, '{"a":', "1", "}") + " end")) == []
    assert list(json_values('so: {"a": 1} end')) == [{"a": 1}]


def test_the_stage_of_a_loading_agent_may_be_nested_at_will() -> None:
    body = '{"stage": ' + nested(1000, '{"a":', "1", "}") + "}"
    assert _not_ready(503, parse_object(body) or {}).state is ReadyState.LOADING


@pytest.mark.parametrize(
    "field",
    [
        '"contexts": [{"id": %s, "text": "x"}]',
        '"facts": [{"text": "x", "accept": [%s]}]',
        '"answerable": %s',
    ],
)
def test_a_logged_row_that_is_nested_too_deeply_is_refused_alone(
    tmp_path: Path, field: str
) -> None:
    path = tmp_path / "log.jsonl"
    deep = '{"question": "q", "answer": "a", ' + field % nested(900) + "}\n"
    path.write_text(deep + '{"question": "q", "answer": "a"}\n')
    refused, read = read_logged(read_table(path))
    assert isinstance(refused, DataError)
    assert "is not valid JSON: nested more than 128 deep" in str(refused)
    assert not isinstance(read, DataError)

"""JSON from outside: parsed once, within a depth that everything behind the parser can follow."""

import orjson
import pytest

from assay.net.json import MAX_DEPTH, is_deep, parse_json, parse_object


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

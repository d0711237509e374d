"""Document ids from the shapes in which servers return what they found."""

import json
from typing import Any

import pytest
from mcp_types import CallToolResult, ContentBlock, ImageContent, TextContent

from assay.errors import AgentFailure, FailureKind
from assay.targets import AgentAnswer
from assay.targets.answer_reader import AnswerReader
from assay.targets.mcp import read_result

KNOWN = {"MED-1", "MED-2"}
HITS = [{"doc_id": "MED-1", "score": 1.0}, {"doc_id": "MED-2", "score": 0.5}]


def structured(value: Any) -> CallToolResult:
    return CallToolResult(content=[], structured_content=value)


def text(*values: str) -> CallToolResult:
    content: list[ContentBlock] = [TextContent(type="text", text=value) for value in values]
    return CallToolResult(content=content)


def read(result: CallToolResult, **mapping: str) -> AgentAnswer:
    return read_result(result, AnswerReader(mapping, KNOWN))


def test_a_text_of_more_than_a_megabyte_is_refused() -> None:
    ids = '["MED-1", "MED-2"]'
    assert read(text(ids.ljust(1_000_000))).doc_ids == ("MED-1", "MED-2")
    for over in (text(ids.ljust(1_000_001)), text(ids.ljust(500_000), " " * 500_001)):
        with pytest.raises(AgentFailure, match="larger than 1,000,000 bytes"):
            read(over)


@pytest.mark.parametrize(
    "value",
    [
        {"results": HITS},
        {"result": HITS},
        {"result": {"documents": HITS, "total": 2}},
        {"doc_ids": ["MED-1", "MED-2"]},
        {"hits": [{"id": "MED-1"}, {"id": "MED-2"}]},
        {"hits": [{"_id": "MED-1", "id": 7}, {"_id": "MED-2", "id": 8}]},
        {"items": [{"uri": "doc://MED-1"}, {"uri": "doc://MED-2"}]},
        {"items": [{"path": "/data/MED-1.txt"}, {"path": "/data/MED-2.txt"}]},
        {"matches": [{"document": {"id": "MED-1"}}, {"document": {"id": "MED-2"}}]},
        {"chunks": [{"id": "c1", "metadata": {"source": "MED-1"}}, {"source": "MED-2"}]},
        {"entities": [{"name": "MED-1"}, {"name": "MED-2"}], "relations": []},
        {"ids": [["MED-1", "MED-2"]], "documents": [["a text", "another"]], "distances": [[1, 2]]},
        {"data": [{"url": "https://x.example/MED-1.html"}, {"url": "https://h/MED-2"}]},
    ],
)
def test_the_field_with_the_ids_is_found(value: dict[str, Any]) -> None:
    assert read(structured(value)).doc_ids == ("MED-1", "MED-2")
    assert read(text(json.dumps(value))).doc_ids == ("MED-1", "MED-2")


def test_what_was_settled_holds_for_the_whole_run() -> None:
    reader = AnswerReader({}, KNOWN)
    first = read_result(structured({"results": [{"id": "9", "source": "kb/MED-1.md"}]}), reader)
    second = read_result(
        structured({"results": [{"id": "MED-2", "source": "kb/MED-77.md"}]}), reader
    )
    assert (first.doc_ids, second.doc_ids) == (("MED-1",), ("MED-77",))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (structured({"total": 3}), "no list of documents"),
        (structured({"a": [1], "b": [2]}), "no list of documents"),
        (structured({"results": [{"id": "MED-1"}, {"no": 1}]}), "result 2 has no id in 'id'"),
        (structured({"results": [None]}), "no ids were found"),
        (structured({"results": [{"id": 1.5, "title": "Tea"}]}), "no ids were found"),
        (text("I found MED-1 for you."), "not JSON"),
        (text("x" * 1_000_001), "larger than 1,000,000 bytes"),
        (
            CallToolResult(
                content=[ImageContent(type="image", data="AAAA", mime_type="image/png")]
            ),
            "neither text",
        ),
    ],
)
def test_other_shapes_are_invalid_answers(result: CallToolResult, message: str) -> None:
    with pytest.raises(AgentFailure, match=message) as caught:
        read(result)
    assert caught.value.kind is FailureKind.INVALID_ANSWER

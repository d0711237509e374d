"""What a search tool returned, as text and as a JSON value, for `AnswerReader`.

Results are looked for in structured content, in JSON text, and in linked resources.
"""

import json
from collections.abc import Container, Mapping, Sequence
from typing import Any

import orjson
from mcp_types import CallToolResult, EmbeddedResource, ResourceLink, TextContent

from assay.agents.detection import detect_list
from assay.agents.json_text import json_values
from assay.agents.mapping import AnswerReader, Received
from assay.agents.protocol import AgentAnswer
from assay.errors import AgentFailure, FailureKind
from assay.net.http import MAX_BYTES, too_large
from assay.net.json import parse_json
from assay.net.redact import quote

_NOT_JSON = "the result is neither structured content nor JSON text"
_EMPTY = "the result has neither text nor structured content"


class ResultReader:
    """Reads document ids, answer and citations from the result of a search tool.

    Parameters:
        mapping: what `--map` says, parsed.
        known: the ids of the data set; the field that has held one of them is the id's field.
    """

    def __init__(self, mapping: Mapping[str, str], known: Container[str]) -> None:
        self.reader = AnswerReader(mapping, known)

    def read(self, result: CallToolResult) -> AgentAnswer:
        """The answer in a tool's result. Raises `AgentFailure` if there is none."""
        if result.is_error:
            texts = [part.text for part in result.content if isinstance(part, TextContent)]
            message = "the tool answered with an error"
            raise AgentFailure(FailureKind.AGENT_ERROR, message, said=quote(" ".join(texts)))
        return self.reader.read(received_from(result))


def received_from(result: CallToolResult) -> Received:
    """The text and the value of a result. Raises `AgentFailure` for one that is too large."""
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if sum(map(len, texts)) > MAX_BYTES:
        raise too_large(MAX_BYTES)
    structured = result.structured_content
    if structured is not None:
        # A tool that returns a string: the SDK puts it, JSON or not, into {"result": ...}, and
        # others into an object with another name.
        inner = next(iter(structured.values())) if len(structured) == 1 else structured
        if isinstance(inner, str):
            return received_text([inner])
        if inner is None:
            return Received("", [])  # a tool that returns nothing has found nothing
        if isinstance(inner, list) and inner and all(isinstance(each, str) for each in inner):
            return received_text(inner)
        return Received("\n".join(texts) or json.dumps(structured), structured)
    links = [
        {"uri": str(part.uri if isinstance(part, ResourceLink) else part.resource.uri)}
        for part in result.content
        if isinstance(part, ResourceLink | EmbeddedResource)
    ]
    if links:
        return Received("\n".join([*texts, *(link["uri"] for link in links)]), links)
    if result.content and not texts:
        return Received("", problem=_EMPTY)
    return received_text(texts)


def received_text(texts: Sequence[str]) -> Received:
    """What blocks of text hold: JSON in one or in each of them, one result in each, or prose."""
    text = "\n".join(texts)
    values: list[Any] = []
    others: list[str] = []
    for each in texts:
        try:
            values.append(parse_json(each))
        except orjson.JSONDecodeError:
            others.append(each)
    if not others:
        return Received(text, values[0] if len(values) == 1 else values)
    found = [value for value in values if isinstance(value, dict | list)]
    if found:  # "Found 2 documents:", and then a block of JSON for each
        return Received(text, found[0] if len(found) == 1 else found)
    if len(texts) > 1:
        return Received(text, list(texts))
    embedded = next((value for value in json_values(text) if detect_list(value)), None)
    return Received(text, problem=_NOT_JSON) if embedded is None else Received(text, embedded)

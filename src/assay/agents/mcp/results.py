"""What a search tool returned, as text and as a JSON value, for `AnswerReader`.

Results are looked for in structured content, in JSON text, and in linked resources.
"""

import json
from collections.abc import Container, Mapping
from typing import Any

import orjson
from mcp_types import CallToolResult, EmbeddedResource, ResourceLink, TextContent

from assay.agents.mapping import AnswerReader, Received
from assay.agents.protocol import AgentAnswer
from assay.errors import AgentFailure, FailureKind
from assay.net.http import MAX_BYTES, too_large

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
            raise AgentFailure(FailureKind.AGENT_ERROR, "the tool answered with an error")
        return self.reader.read(received_from(result))


def received_from(result: CallToolResult) -> Received:
    """The text and the value of a result. Raises `AgentFailure` for one that is too large."""
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if sum(map(len, texts)) > MAX_BYTES:
        raise too_large(MAX_BYTES)
    text = "\n".join(texts)
    if result.structured_content is not None:
        return Received(text or json.dumps(result.structured_content), result.structured_content)
    links = [
        {"uri": str(part.uri if isinstance(part, ResourceLink) else part.resource.uri)}
        for part in result.content
        if isinstance(part, ResourceLink | EmbeddedResource)
    ]
    if links:
        return Received("\n".join([*texts, *(link["uri"] for link in links)]), links)
    if result.content and not texts:
        return Received("", problem=_EMPTY)
    values: list[Any] = []
    for each in texts:
        try:
            values.append(orjson.loads(each))
        except orjson.JSONDecodeError:
            return Received(text, problem=_NOT_JSON)
    return Received(text, values[0] if len(values) == 1 else values)

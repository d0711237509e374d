"""Extracts document ids from the results of a search tool.

Results are looked for in structured content, in JSON text, and in linked resources. The field that
holds the id is the first one whose values are documents of the data set.
"""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any

import orjson
from mcp_types import CallToolResult, EmbeddedResource, ResourceLink, TextContent

from assay.agents.protocol import AgentAnswer
from assay.errors import AgentFailure, FailureKind
from assay.net.http import MAX_BYTES, too_large

_LISTS = (
    "results", "documents", "docs", "hits", "items", "matches", "sources", "entities", "notes",
    "records", "chunks", "passages", "doc_ids", "ids", "data", "result", "output", "response",
)  # fmt: skip
_IDS = (
    "doc_id", "document_id", "docid", "documentid", "id", "_id", "note_id", "uri", "url", "source",
    "path", "file", "filename", "name", "key", "title",
)  # fmt: skip
_INNER = ("document", "metadata", "payload", "_source", "entity", "node")
_ANSWERS = ("generated_answer", "answer")
_DEEPEST = 3

# [1], [1, 3], [Document 2], [Source 4]; a year or a footnote of a document is beyond the sources.
_MARKER = re.compile(
    r"\[\s{0,3}(?:(?:document|doc|source|note|citation)s?\s{0,3}#?)?"
    r"(\d{1,3}(?:\s{0,3}[,;]\s{0,3}\d{1,3})*)\s{0,3}\]",
    re.IGNORECASE,
)
_BRACKETED = re.compile(r"\s*\[([^\]]+)\]")
_SUFFIX = re.compile(r"\.\w{1,5}$")

Form = Callable[[str], str]


def _as_is(value: str) -> str:
    return value


def _after_scheme(value: str) -> str:
    return value.partition("://")[2]


def _last_step(value: str) -> str:
    return _SUFFIX.sub("", re.split(r"[/\\#]", value.rstrip("/"))[-1])


def _in_brackets(value: str) -> str:
    """`[MED-10] Statin use ...`, the way documents are named when they become notes."""
    match = _BRACKETED.match(value)
    return match[1] if match else ""


_FORMS: tuple[Form, ...] = (_as_is, _in_brackets, _after_scheme, _last_step)


class ResultReader:
    """Reads document ids, answer and citations from the result of a search tool.

    Parameters:
        mapping: `results`, `doc_id` and `answer`: the fields that hold them, if given.
        known: the ids of the data set; the field that has held one of them is the id's field.
    """

    def __init__(self, mapping: Mapping[str, str], known: Container[str]) -> None:
        self._list = mapping.get("results")
        self._field = mapping.get("doc_id")
        self._answer = mapping.get("answer")
        self._known = known
        self._settled: tuple[str, Form] | None = None

    def read(self, result: CallToolResult) -> AgentAnswer:
        """The answer in a tool's result. Raises `AgentFailure` if there is none."""
        if result.is_error:
            raise AgentFailure(FailureKind.AGENT_ERROR, "the tool answered with an error")
        value = _value_of(result)
        items = self._items(value)
        if items is None:
            raise AgentFailure(
                FailureKind.INVALID_ANSWER,
                "the result holds no list of documents; name its field: --map results=FIELD",
            )
        answer = _text_at(value, (self._answer,) if self._answer else _ANSWERS)
        doc_ids = self._doc_ids(items)
        return AgentAnswer(doc_ids, answer, _citations(value) or _marked_sources(answer, doc_ids))

    def _items(self, value: Any) -> list[Any] | None:
        if self._list is None:
            return _find_list(value, _DEEPEST)
        for step in self._list.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return value if isinstance(value, list) else None

    def _doc_ids(self, items: Sequence[Any]) -> tuple[str, ...]:
        rows = [_fields(item) for item in items]
        if not rows:
            return ()
        name, form = self._settled or self._settle(rows)
        missing = next((place for place, row in enumerate(rows) if name not in row), None)
        if missing is not None:
            found = ", ".join(list(rows[missing])[:8]) or "nothing"
            raise AgentFailure(
                FailureKind.INVALID_ANSWER,
                f"result {missing + 1} has no field {name!r}; it has: {found}. Name the one that "
                "is the id: --map doc_id=FIELD",
            )
        return tuple(form(row[name]) for row in rows)

    def _settle(self, rows: Sequence[Mapping[str, str]]) -> tuple[str, Form]:
        present = (self._field,) if self._field else [name for name in _IDS if name in rows[0]]
        for name in present:
            for form in _FORMS:
                if any(name in row and form(row[name]) in self._known for row in rows):
                    self._settled = (name, form)
                    return self._settled
        return (next(iter(present), "doc_id"), _as_is)  # no known id yet: wait for the next answer


def _value_of(result: CallToolResult) -> Any:
    if result.structured_content is not None:
        return result.structured_content
    texts = [part.text for part in result.content if isinstance(part, TextContent)]
    if sum(map(len, texts)) > MAX_BYTES:
        raise too_large(MAX_BYTES)
    links = [
        {"uri": str(part.uri if isinstance(part, ResourceLink) else part.resource.uri)}
        for part in result.content
        if isinstance(part, ResourceLink | EmbeddedResource)
    ]
    if links:
        return links
    if result.content and not texts:
        raise AgentFailure(
            FailureKind.INVALID_ANSWER, "the result has neither text nor structured content"
        )
    values = [_json(text) for text in texts]
    return values[0] if len(values) == 1 else values


def _json(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        raise AgentFailure(
            FailureKind.INVALID_ANSWER, "the result is neither structured content nor JSON text"
        ) from None


def _find_list(value: Any, depth: int) -> list[Any] | None:
    """The list that holds the results: by its name, else the only one there is."""
    if isinstance(value, list):
        return value
    if not isinstance(value, dict) or not depth:
        return None
    for name in _LISTS:
        if name in value and (found := _find_list(value[name], depth - 1)) is not None:
            return found
    lists = [each for each in value.values() if isinstance(each, list)]
    return lists[0] if len(lists) == 1 else None


def _fields(item: Any) -> dict[str, str]:
    """Texts and integers of a result, those of a nested document after its own."""
    if isinstance(item, str):
        return {"doc_id": item}
    return dict(_pairs(item)) if isinstance(item, dict) else {}


def _pairs(item: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in _INNER:
        if isinstance(item.get(name), dict):
            yield from _pairs(item[name])
    for name, value in item.items():
        if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
            yield name, str(value)


def _text_at(value: Any, names: Sequence[str]) -> str | None:
    texts = [value.get(name) for name in names] if isinstance(value, dict) else []
    return next((text for text in texts if isinstance(text, str)), None)


def _citations(value: Any) -> tuple[str, ...]:
    cited = value.get("citations") if isinstance(value, dict) else None
    return tuple(each for each in cited if isinstance(each, str)) if isinstance(cited, list) else ()


def _marked_sources(answer: str | None, sources: Sequence[str]) -> tuple[str, ...]:
    """Citations of servers that only number them: `[2]` in the answer is the second source."""
    numbers = [
        int(number)
        for match in _MARKER.finditer(answer or "")
        for number in re.findall(r"\d+", match[1])
    ]
    cited = [sources[number - 1] for number in numbers if 1 <= number <= len(sources)]
    return tuple(dict.fromkeys(cited))

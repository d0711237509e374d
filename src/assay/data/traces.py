"""OpenTelemetry traces as logged answers: OTLP's JSON, as file exporters and collectors write it.

The root span of a trace is the question and the answer, its retriever spans are the contexts. Read
are the attributes of OpenInference (`input.value`, `retrieval.documents.0.document.content`), which
the instrumentations of LangChain and LlamaIndex write, and those of OpenTelemetry's GenAI
conventions (`gen_ai.input.messages`, `gen_ai.retrieval.documents`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from assay.net.json import JsonObject, parse_json
from assay.text import parse_time

_DOCUMENT = re.compile(
    r"(retrieval\.documents|reranker\.output_documents)\.(\d{1,6})\.document\.(id|content|metadata)"
)
_MESSAGE = re.compile(r"llm\.output_messages\.(\d{1,6})\.message\.(role|content)")
_QUESTION_KEYS = ("question", "query", "query_str", "input", "user_input", "prompt", "text")
_ANSWER_KEYS = ("answer", "output", "response", "result", "text", "content")
_READ = (
    *("input.value", "output.value", "gen_ai.input.messages", "gen_ai.output.messages"),
    *("gen_ai.retrieval.documents", "gen_ai.reranker.output_documents"),
    *("retrieval.documents.", "reranker.output_documents.", "llm.output_messages."),
)
"""How the names of attributes begin that are read: the others, such as vectors, are not kept."""
_ERROR = (2, "STATUS_CODE_ERROR")
_DEEPEST = 20
_NONE: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Span:
    """One operation of a trace; `attributes` are plain values by name, those that are read."""

    trace_id: str
    id: str
    parent: str
    start: float
    failed: bool
    attributes: Mapping[str, Any]


def is_span_row(fields: Mapping[str, Any]) -> bool:
    """Whether an object is an export of spans, or a row of a data frame of spans (Phoenix)."""
    if "context.trace_id" in fields:
        return any(str(key).startswith("attributes.") for key in fields)
    return isinstance(fields.get("resourceSpans"), list)


def read_spans(fields: Mapping[str, Any]) -> Iterator[Span]:
    """The spans of an export, or the one of a row with `context.trace_id` and `parent_id`."""
    if "context.trace_id" not in fields:
        yield from _exported(fields)
        return
    named = {key.removeprefix("attributes."): value for key, value in fields.items()}
    yield Span(
        trace_id=str(fields["context.trace_id"]),
        id=str(fields.get("context.span_id", "")),
        parent=str(fields.get("parent_id") or ""),
        start=_seconds(fields.get("start_time")),
        failed=fields.get("status_code") == "ERROR",
        attributes={key: value for key, value in named.items() if f"{key}.".startswith(_READ)},
    )


def _seconds(value: object) -> float:
    try:
        return parse_time(str(value)).timestamp()
    except ValueError:  # the order of the rows decides
        return 0.0


def span_rows(spans: Iterable[Span]) -> Iterator[JsonObject]:
    """One row with `id`, `question`, `answer` and `contexts` for each trace that holds a question.

    Traces without one, such as those that build an index, are left out. `answer` is None if the
    root failed.
    """
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    for trace_id in list(traces):
        row = _row(trace_id, sorted(traces.pop(trace_id), key=lambda span: span.start))
        if row is not None:
            yield row


def _row(trace_id: str, spans: Sequence[Span]) -> JsonObject | None:
    known = {span.id for span in spans}
    root = next((span for span in spans if span.parent not in known), spans[0])
    question = _said(root, "input") or next(filter(None, (_asked(span) for span in spans)), None)
    if not question:
        return None
    answer = _said(root, "output") or next(
        filter(None, (_replied(span) for span in reversed(spans))), None
    )
    return {
        "id": trace_id,
        "question": question,
        "answer": None if root.failed else answer,
        "contexts": _contexts(spans),
    }


def _contexts(spans: Sequence[Span]) -> list[JsonObject]:
    """What retrievers found, in order and each once; a reranker's result replaces it."""
    for name in ("reranker.output_documents", "retrieval.documents"):
        found: dict[tuple[str, str], JsonObject] = {}
        for span in spans:
            for document in _documents(span, name):
                found.setdefault((document["id"], document["text"]), document)
        if found:
            return list(found.values())
    return []


def _documents(span: Span, name: str) -> Iterator[JsonObject]:
    listed = parsed_cell(span.attributes.get(f"gen_ai.{name}", span.attributes.get(name)))
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict):
            text = _first(each, ("content", "text", "document.content"))
            doc_id = str(_first(each, ("id", "document.id")) or "")
            if isinstance(text, str) or doc_id:  # ids alone are what was retrieved, too
                yield {"id": doc_id, "text": text if isinstance(text, str) else ""}
    numbered: dict[int, dict[str, Any]] = {}
    for key, value in span.attributes.items():
        match = _DOCUMENT.fullmatch(key)
        if match is not None and match[1] == name:
            numbered.setdefault(int(match[2]), {})[match[3]] = value
    for _, fields in sorted(numbered.items()):
        if isinstance(fields.get("content"), str):
            yield {"id": _document_id(fields), "text": fields["content"]}


def _document_id(fields: Mapping[str, Any]) -> str:
    metadata = parsed_cell(fields.get("metadata"))
    source = _first(metadata, ("doc_id", "id", "source")) if isinstance(metadata, dict) else None
    return str(fields.get("id") or source or "")


def _said(span: Span, side: str) -> str | None:
    """The text of a span's input or output."""
    value = span.attributes.get(f"{side}.value")
    if isinstance(value, str) and value.strip():
        parsed = parsed_cell(value)
        if not isinstance(parsed, dict | list):
            return value
        keys = _QUESTION_KEYS if side == "input" else _ANSWER_KEYS
        return _text_in(parsed, keys)
    messages = parsed_cell(span.attributes.get(f"gen_ai.{side}.messages"))
    role = "user" if side == "input" else "assistant"
    return _message(messages, role) if isinstance(messages, list) else None


def _asked(span: Span) -> str | None:
    """The last thing that a user says to a model in this span."""
    return _said(span, "input") if "gen_ai.input.messages" in span.attributes else None


def _replied(span: Span) -> str | None:
    """What a model says in this span."""
    found = [
        value
        for key, value in span.attributes.items()
        if (match := _MESSAGE.fullmatch(key)) and match[2] == "content"
    ]
    if found and isinstance(found[-1], str):
        return found[-1]
    return _said(span, "output") if "gen_ai.output.messages" in span.attributes else None


def _message(messages: Sequence[Any], role: str) -> str | None:
    """The text of the last message of a role, with parts or without."""
    for message in reversed(messages):
        if not isinstance(message, dict) or message.get("role") != role:
            continue
        parts = message.get("parts", message.get("content"))
        if isinstance(parts, str):
            return parts
        texts = [
            text
            for part in (parts if isinstance(parts, list) else ())
            if isinstance(part, dict) and isinstance(text := _first(part, ("content", "text")), str)
        ]
        if texts:
            return "\n".join(texts)
    return None


def _text_in(value: Any, keys: Sequence[str], depth: int = 0) -> str | None:
    """The first text under one of the keys, however deep; objects inside are searched too."""
    if depth > _DEEPEST or not isinstance(value, dict | list):
        return None
    if isinstance(value, dict):
        found = _first(value, keys)
        if isinstance(found, str) and found.strip():
            return found
        first = [value[key] for key in keys if key in value]
        inside = [*first, *(each for key, each in value.items() if key not in keys)]
    else:
        inside = value
    return next(filter(None, (_text_in(each, keys, depth + 1) for each in inside)), None)


def _first(value: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((value[key] for key in keys if value.get(key) is not None), None)


def parsed_cell(value: Any) -> Any:
    """The JSON in a text, else the value as it is."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return parse_json(value)
    except orjson.JSONDecodeError:
        return value


def _exported(export: Mapping[str, Any]) -> Iterator[Span]:
    for resource in _objects(export.get("resourceSpans")):
        for scope in _objects(resource.get("scopeSpans")):
            for span in _objects(scope.get("spans")):
                status = span.get("status")
                if not (trace_id := span.get("traceId")):
                    continue  # it belongs to no trace: others without an id are not the same one
                yield Span(
                    trace_id=str(trace_id),
                    id=str(span.get("spanId", "")),
                    parent=str(span.get("parentSpanId") or ""),
                    start=_integer(span.get("startTimeUnixNano")),
                    failed=isinstance(status, dict) and status.get("code") in _ERROR,
                    attributes={
                        str(each.get("key")): _plain(each.get("value"))
                        for each in _objects(span.get("attributes"))
                        if str(each.get("key")).startswith(_READ)
                    }
                    or _NONE,
                )


def _objects(value: Any) -> Iterator[JsonObject]:
    yield from (
        each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict)
    )


def _integer(value: Any) -> int:
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and len(value) < 24 and value.isdecimal() else 0


def _plain(value: Any, depth: int = 0) -> Any:
    """OTLP's `AnyValue` as a plain value."""
    if not isinstance(value, dict) or depth > _DEEPEST:
        return None
    for kind, inside in value.items():
        if kind == "arrayValue" and isinstance(inside, dict):
            items = inside.get("values")
            return [_plain(each, depth + 1) for each in items] if isinstance(items, list) else []
        if kind == "kvlistValue" and isinstance(inside, dict):
            return {
                str(each.get("key")): _plain(each.get("value"), depth + 1)
                for each in _objects(inside.get("values"))
            }
        return inside
    return None

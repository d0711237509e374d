"""OpenTelemetry traces (OTLP's JSON) as logged answers and as search steps.

The root span of a trace is the question and the answer, its retriever spans are the contexts. Read
are the attributes of OpenInference and those of OpenTelemetry's GenAI conventions.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import orjson

from assay.data.table import first_value, memory_rows, parsed_cell, read_table
from assay.data.text_file import Findings, Record
from assay.errors import DataError
from assay.net.json import JsonObject
from assay.steps import SearchStep

# OpenInference numbers the items of a list: `retrieval.documents.0.document.id`.
_NUMBERED = re.compile(r"(.+?)\.(\d{1,6})\.(.+)")
_QUESTION_KEYS = ("question", "query", "query_str", "input", "user_input", "prompt", "text")
_ANSWER_KEYS = ("answer", "output", "response", "result", "text", "content")
_ID_KEYS = ("doc_id", "document_id", "docid", "id", "_id", "chunk_id", "document.id")
_SCORE_KEYS = ("score", "relevance", "similarity", "document.score")
_LIST_KEYS = ("doc_ids", "document_ids", "ids")
# The rest of a trace, such as embeddings, would fill the memory.
_READ_PREFIXES = (
    *("input.", "output.", "openinference.", "tool.", "gen_ai.", "retrieval.documents."),
    *("reranker.output_documents.", "llm.output_messages."),
)
_ERROR = (2, "STATUS_CODE_ERROR")
_RETRIEVERS = ("retrieval", "RETRIEVER")
_TOOLS = ("execute_tool", "TOOL")
_MAX_DEPTH = 20
_MAX_PARENTS = 100
_MAX_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One operation of a trace; `attributes` are plain values by name, those that are read."""

    trace_id: str
    id: str
    parent: str
    name: str
    start_ns: int
    end_ns: int
    failed: bool
    attributes: JsonObject


def read_log(path: Path) -> Iterator[Record | DataError]:
    """The rows of a table; those of spans become one row for each trace that has a question."""
    rows = read_table(path)
    first = next(rows, None)
    rows = chain([] if first is None else [first], rows)
    if not _is_export(first):
        yield from rows
        return
    findings = Findings(collect=True)
    yield from memory_rows(span_rows(_bounded_spans(findings.sound(rows))), str(path))
    yield from findings.errors


def read_spans(path: Path) -> list[TraceSpan]:
    """Every span of a file: `trace_steps(read_spans(path))`. Raises `DataError`."""
    return list(_bounded_spans(Findings().sound(read_table(path))))


def holds_traces(path: Path) -> bool:
    """Whether a file begins with spans: the rest of it, which may be large, is not read."""
    return _is_export(next(read_table(path), None))


def _is_export(row: Record | DataError | None) -> bool:
    return isinstance(row, Record) and isinstance(row.fields.get("resourceSpans"), list)


def _bounded_spans(rows: Iterable[Record]) -> Iterator[TraceSpan]:
    kept = 0  # spans of one trace may be anywhere in the file, so all of them are held in memory
    for row in rows:
        for span in spans_of(row.fields):
            kept += 200 + len(orjson.dumps(span.attributes))  # 200: its ids, names and times
            yield span
        if kept > _MAX_BYTES:
            row.fail(f"has more than {_MAX_BYTES // 2**20} MB of traces; split the file")


def spans_of(fields: JsonObject) -> Iterator[TraceSpan]:
    """The spans of an OTLP export."""
    for resource in _objects(fields.get("resourceSpans")):
        for scope in _objects(resource.get("scopeSpans")):
            # Spans without a trace id belong to no trace, not all to the same one.
            for span in filter(lambda span: span.get("traceId"), _objects(scope.get("spans"))):
                status = span.get("status")
                yield TraceSpan(
                    trace_id=str(span["traceId"]),
                    id=str(span.get("spanId", "")),
                    parent=str(span.get("parentSpanId") or ""),
                    name=str(span.get("name", "")),
                    start_ns=_integer(span.get("startTimeUnixNano")),
                    end_ns=_integer(span.get("endTimeUnixNano")),
                    failed=isinstance(status, dict) and status.get("code") in _ERROR,
                    attributes=_attributes(span),
                )


def _attributes(span: JsonObject) -> JsonObject:
    """The attributes that are read, by name; numbered ones are a list: `retrieval.documents`."""
    attributes: JsonObject = {}
    numbered: defaultdict[str, dict[int, JsonObject]] = defaultdict(dict)
    for attribute in _objects(span.get("attributes")):
        key, value = str(attribute.get("key")), _plain(attribute.get("value"))
        if not key.startswith(_READ_PREFIXES):
            continue
        if match := _NUMBERED.fullmatch(key):
            numbered[match[1]].setdefault(int(match[2]), {})[match[3]] = value
        else:
            attributes[key] = value
    for name, items in numbered.items():
        attributes[name] = [items[place] for place in sorted(items)]
    return attributes


def _by_trace(spans: Iterable[TraceSpan]) -> Iterator[tuple[str, str, list[TraceSpan]]]:
    """Id, question and spans, in their order of time, of each trace that has a question."""
    traces: dict[str, list[TraceSpan]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    for trace_id in list(traces):
        members = sorted(traces.pop(trace_id), key=lambda span: span.start_ns)
        asked = chain([_said(_root(members), "input")], (_message_of(s, "input") for s in members))
        if question := next(filter(None, asked), None):
            yield trace_id, question, members


def _root(spans: Sequence[TraceSpan]) -> TraceSpan:
    known = {span.id for span in spans}
    return next((span for span in spans if span.parent not in known), spans[0])


def span_rows(spans: Iterable[TraceSpan]) -> Iterator[JsonObject]:
    """One row with `id`, `question`, `answer` and `contexts` for each trace that has a question.

    Traces without one, such as those that build an index, are left out. `answer` is None if the
    root failed.
    """
    for trace_id, question, members in _by_trace(spans):
        root = _root(members)
        replies = (_message_of(span, "output") for span in reversed(members))
        answer = _said(root, "output") or next(filter(None, replies), None)
        yield {
            "id": trace_id,
            "question": question,
            "answer": None if root.failed else answer,
            "contexts": _contexts(members),
        }


def trace_steps(spans: Iterable[TraceSpan]) -> Iterator[tuple[str, str, tuple[SearchStep, ...]]]:
    """Id, question and searches of each trace that has a question, in the order of time.

    A step is a span `retrieval` or `RETRIEVER`, or a span `execute_tool` or `TOOL` whose result
    has document ids; of nested ones, the outermost with ids, which is what the agent saw.
    """
    for trace_id, question, members in _by_trace(spans):
        by_id = {span.id: span for span in members}
        found = {span.id: step for span in members if (step := _step(span)) is not None}
        above = {key: _ancestors(by_id[key], by_id) for key in found}
        with_ids_inside = {a for key, step in found.items() if step.doc_ids for a in above[key]}
        steps = []
        for key, step in found.items():
            around = [found[a] for a in above[key] if a in found]
            if step.doc_ids:
                redundant = any(other.doc_ids for other in around)
            else:  # nothing was found, unless a span around or inside says what was
                redundant = bool(around) or key in with_ids_inside
            if not redundant:
                steps.append(step)
        yield trace_id, question, tuple(steps)


def _ancestors(span: TraceSpan, by_id: Mapping[str, TraceSpan]) -> list[str]:
    above: list[str] = []
    # A damaged trace may have a circle, or be nested without end.
    while span.parent in by_id and span.parent not in above and len(above) < _MAX_PARENTS:
        above.append(span.parent)
        span = by_id[span.parent]
    return above


def _step(span: TraceSpan) -> SearchStep | None:
    """The search that a span is; None if it is something else, such as a tool that calculates."""
    attributes = span.attributes
    kinds = (attributes.get("gen_ai.operation.name"), attributes.get("openinference.span.kind"))
    is_retriever = any(kind in _RETRIEVERS for kind in kinds)
    if not is_retriever and not any(kind in _TOOLS for kind in kinds):
        return None
    documents = _documents(span, "retrieval.documents")
    pairs = [(document["id"], document["score"]) for document in documents if document["id"]]
    if not documents:
        pairs = _ids_in(first_value(attributes, ("gen_ai.tool.call.result", "output.value")))
    if not pairs and not is_retriever:
        return None
    names = ("gen_ai.tool.name", "tool.name", "gen_ai.data_source.id")
    scores = [float(score) for _, score in pairs if type(score) in (int, float)]
    query = attributes.get("gen_ai.retrieval.query.text")
    if not isinstance(query, str):
        given = first_value(attributes, ("gen_ai.tool.call.arguments", "tool.parameters"))
        query = _text_in(parsed_cell(given), _QUESTION_KEYS) or _said(span, "input") or ""
    took = span.end_ns - span.start_ns
    return SearchStep(
        tool=str(first_value(attributes, names) or span.name),
        query=query,
        doc_ids=tuple(dict.fromkeys(doc_id for doc_id, _ in pairs)),
        scores=tuple(scores) if len(scores) == len(pairs) else (),
        ms=took / 1e6 if span.start_ns and took >= 0 else None,
    )


def _ids_in(value: Any) -> list[tuple[str, Any]]:
    """Ids and scores of the first list of documents in a tool's result, however it is wrapped."""
    for found in _containers(value):
        named: Iterable[tuple[Any, Any]] = ()
        if isinstance(found, list):
            documents = _objects(found)
            named = ((first_value(d, _ID_KEYS), first_value(d, _SCORE_KEYS)) for d in documents)
        elif isinstance(listed := first_value(found, _LIST_KEYS), list):
            named = ((doc_id, None) for doc_id in listed)
        if pairs := [(str(key), score) for key, score in named if isinstance(key, str | int)]:
            return pairs
    return []


def _containers(value: Any) -> Iterator[Any]:
    """A value and the objects and lists in it, the outermost first; JSON in a text is read too."""
    level = [value]
    # By level, because an answer that quotes a document has the document's own fields further in.
    for _ in range(_MAX_DEPTH):
        level = [each for each in map(parsed_cell, level) if isinstance(each, dict | list)]
        yield from level
        level = [
            inside
            for each in level
            for inside in (each.values() if isinstance(each, dict) else each)
        ]


def _contexts(spans: Sequence[TraceSpan]) -> list[JsonObject]:
    """What retrievers found, in order and each once; a reranker's result replaces it."""
    for name in ("reranker.output_documents", "retrieval.documents"):
        listed = (document for span in spans for document in _documents(span, name))
        found = dict.fromkeys((document["id"], document["text"]) for document in listed)
        if found:
            return [{"id": identifier, "text": text} for identifier, text in found]
    return []


def _documents(span: TraceSpan, name: str) -> list[JsonObject]:
    """The documents of a span with `id`, `text` and `score`; one of the first two may be empty."""
    documents = []
    for fields in _objects(parsed_cell(first_value(span.attributes, (f"gen_ai.{name}", name)))):
        metadata = parsed_cell(first_value(fields, ("metadata", "document.metadata")))
        source = metadata if isinstance(metadata, dict) else {}
        doc_id = first_value(fields, ("id", "document.id"))
        doc_id = doc_id or first_value(source, ("doc_id", "id", "source"))
        text = first_value(fields, ("content", "text", "document.content"))
        text = text if isinstance(text, str) else ""
        if doc_id or text:
            score = first_value(fields, ("score", "document.score"))
            documents.append({"id": str(doc_id or ""), "text": text, "score": score})
    return documents


def _said(span: TraceSpan, side: str) -> str | None:
    """The text of a span's input or output."""
    value = span.attributes.get(f"{side}.value")
    if isinstance(value, str) and value.strip():
        parsed = parsed_cell(value)
        if not isinstance(parsed, dict | list):
            return value
        return _text_in(parsed, _QUESTION_KEYS if side == "input" else _ANSWER_KEYS)
    return _message_of(span, side)


def _message_of(span: TraceSpan, side: str) -> str | None:
    """The last message of a call of a model: the user's of its input, or the model's."""
    role = "user" if side == "input" else "assistant"
    names = (f"llm.{side}_messages", f"gen_ai.{side}.messages")
    for message in reversed(list(_objects(parsed_cell(first_value(span.attributes, names))))):
        if first_value(message, ("role", "message.role")) in (role, None):
            parts = first_value(message, ("parts", "content", "message.content"))
            if isinstance(parts, str):
                return parts
            contents = (first_value(part, ("content", "text")) for part in _objects(parts))
            if texts := [content for content in contents if isinstance(content, str)]:
                return "\n".join(texts)
    return None


def _text_in(value: Any, keys: Sequence[str]) -> str | None:
    """The outermost text under one of the keys, those that come first preferred."""
    objects = (each for each in _containers(value) if isinstance(each, dict))
    texts = (first_value(each, keys) for each in objects)
    return next((text for text in texts if isinstance(text, str) and text.strip()), None)


def _objects(value: Any) -> Iterator[JsonObject]:
    yield from (item for item in (value if isinstance(value, list) else ()) if type(item) is dict)


def _integer(value: object) -> int:
    text = str(value)  # OTLP writes 64 bits as text; longer ones are damage
    return int(text) if len(text) < 24 and text.isdecimal() else 0


def _plain(value: Any, depth: int = 0) -> Any:
    """OTLP's `AnyValue` as a plain value."""
    kind, inside = next(iter(value.items()), ("", None)) if isinstance(value, dict) else ("", None)
    if depth > _MAX_DEPTH or kind not in ("arrayValue", "kvlistValue"):
        return inside
    items = list(_objects(inside.get("values"))) if isinstance(inside, dict) else []
    if kind == "arrayValue":
        return [_plain(item, depth + 1) for item in items]
    return {str(item.get("key")): _plain(item.get("value"), depth + 1) for item in items}

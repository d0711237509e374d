"""Targets `openai:URL[#MODEL]`: applications that speak chat completions, streaming or not.

A `rest:` target whose request and mapping are known. `--request` adds fields to the request, such
as `{"stream": true, "temperature": 0}`.
"""

from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import replace

import orjson

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.json import JsonObject
from assay.targets.answer_reader import Received, cited_in, detect_ids, known_form
from assay.targets.protocol import AgentAnswer, invalid_answer
from assay.targets.rest import (
    NOT_JSON_EVENT,
    RequestTemplate,
    RestAgent,
    error_in,
    read_body_template,
)
from assay.targets.target_kinds import OpenContext, RequestSettings, Target

_PATH = "/chat/completions"
_ANSWER = "choices[0].message.content"
_NO_IDS = "`[]`"
# Where services put what they retrieved, best known first.
_SOURCES = (
    *("doc_ids", "retrieved", "source_documents", "documents", "sources", "search_results"),
    *("results", "contexts", "citations"),
)
_CITATION_FIELDS = ("id", "doc_id", "document_id", "file_id", "filename", "url", "title")


class ChatAgent(RestAgent):
    """An application behind `POST URL/chat/completions`."""

    sends_token = True

    def __init__(self, target: Target, context: OpenContext) -> None:
        base = target.address.rstrip("/").removesuffix(_PATH)
        super().__init__(replace(target, address=base), context)

    def _prepare(
        self, target: Target, given: RequestSettings, mapping: Mapping[str, str]
    ) -> tuple[RequestTemplate, Mapping[str, str]]:
        extra = read_body_template(given.body) or {}
        if not isinstance(extra, dict):
            raise UsageError('--request must be a JSON object here, such as {"stream": true}')
        body: JsonObject = {"model": target.fragment} if target.fragment else {}
        body |= {"messages": [{"role": "user", "content": "{query}"}], **extra}
        template = RequestTemplate.parse(
            target.address + _PATH, request=orjson.dumps(body).decode(), headers=given.headers
        )
        self._finds_citations = "citations" not in mapping
        self._finds_ids = {"ids", "results", "doc_id"}.isdisjoint(mapping)
        defaults = {"answer": _ANSWER, **({"ids": _NO_IDS} if self._finds_ids else {})}
        return template, {**defaults, **mapping}

    def _read(self, received: Received) -> AgentAnswer:
        if received.messages:
            value = _merged(received)
            received = Received(orjson.dumps(value).decode(), value)
        message, known = _message(received), self.reader.known
        answer = self.reader.read(received)
        if self._finds_ids:
            answer = replace(answer, doc_ids=_sources(received.value, message, known))
        if self._finds_citations:
            cited = _annotated(message, known) or cited_in(answer.answer, answer.doc_ids, known)
            answer = replace(answer, citations=cited)
        # An application that returns no list has retrieved what it cites, at the least.
        if self._finds_ids and not answer.doc_ids:
            answer = replace(answer, doc_ids=answer.citations)
        return answer


def _message(received: Received) -> JsonObject:
    """The assistant's message, its content as one text. Raises `AgentFailure` if there is none."""
    if received.problem == NOT_JSON_EVENT:
        raise AgentFailure(FailureKind.PROTOCOL, NOT_JSON_EVENT)
    value = received.require_value()
    if failure := error_in(received):
        raise failure
    match value:
        case {"choices": [{"message": dict(message)}, *_]}:
            pass
        case _:
            remedy = "if it is another kind of service, use rest:URL with --request"
            raise invalid_answer("the answer is not a chat completion", remedy, received.shown)
    if isinstance(content := message.get("content"), list):  # parts, of which some are text
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        message["content"] = "".join(text for text in texts if isinstance(text, str))
    return message


def _merged(received: Received) -> JsonObject:
    """The completion that the chunks of a stream make up."""
    whole: JsonObject = {}
    message: JsonObject = {"role": "assistant", "content": ""}
    begun, finished = False, "[DONE]" in received.text[-100:]
    for chunk in received.value:
        if not isinstance(chunk, dict):
            raise AgentFailure(FailureKind.PROTOCOL, "an event of the stream is not an object")
        choices = chunk.pop("choices", None)
        whole |= {key: value for key, value in chunk.items() if value is not None}
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                continue
            begun = True
            finished = finished or choice.get("finish_reason") is not None
            delta = choice.get("delta")
            for key, value in delta.items() if isinstance(delta, dict) else ():
                kind = type(value)
                if kind in (str, list) and isinstance(message.get(key), kind) and key != "role":
                    message[key] += value
                elif value is not None:
                    message[key] = value
    if not finished and "error" not in whole:
        raise AgentFailure(FailureKind.PROTOCOL, "the stream ended before the answer did")
    return {**whole, "choices": [{"message": message}]} if begun else whole


def _annotated(message: JsonObject, known: Container[str]) -> tuple[str, ...]:
    """Ids in the message's annotations: `url_citation`, `file_citation` and the like."""
    annotations = message.get("annotations")
    cited: list[str] = []
    for each in annotations if isinstance(annotations, list) else ():
        kind = each.get("type") if isinstance(each, dict) else None
        inner = each.get(kind) if isinstance(kind, str) else None
        source = inner if isinstance(inner, dict) else each
        texts = [source.get(name) for name in _CITATION_FIELDS] if isinstance(source, dict) else []
        names = [text for text in texts if isinstance(text, str)]
        forms = [form for text in names if (form := known_form(text, known)) is not None]
        cited += (forms or names)[:1]
    return tuple(dict.fromkeys(cited))


def _sources(value: JsonObject, message: JsonObject, known: Container[str]) -> tuple[str, ...]:
    """The ids that the service returns beside its message: the first list with a known one."""
    first: tuple[str, ...] = ()
    context = message.get("context")
    for holder in (context if isinstance(context, dict) else {}, message, value):
        for items in (holder.get(name) for name in _SOURCES):
            with suppress(AgentFailure):
                ids = detect_ids(items if isinstance(items, list) else [], known)
                if any(each in known for each in ids):
                    return ids
                first = first or ids
    return first

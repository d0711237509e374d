"""Targets `openai:URL[#MODEL]`: applications that speak chat completions, streaming or not.

The query is the user's message, the answer the assistant's. Citations are read from the message's
annotations, from `[doc-id]` marks in the text or by `--map`; retrieved ids, if the service returns
any beside the message. `--request` adds fields to the request, such as
`{"stream": true, "temperature": 0}`.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import httpx
import orjson

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.llm.passages import Passage
from assay.net.http import exchange, fetch, read_body, read_chunks, too_large
from assay.net.json import JsonObject, parse_object, shorten
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, split_address
from assay.net.redact import quote, redact_url
from assay.net.sse import EventReader, EventTooLarge
from assay.targets.detection import IdDetector, known_form, marked_ids, marked_sources
from assay.targets.http_agent import HttpAgent
from assay.targets.mapping import AnswerReader, Received, refuse_arguments
from assay.targets.opening import redact_target
from assay.targets.protocol import AgentAnswer, AgentInfo
from assay.targets.readiness import ready_url
from assay.targets.request_template import (
    CONTEXTS,
    CallValues,
    Contexts,
    HeaderTemplates,
    WireCall,
    check_url,
    fill_json,
    fill_url,
    has_contexts,
    read_body_template,
)
from assay.targets.rest import REPLY_MAX_BYTES, refuse_local, status_failure
from assay.targets.target_kinds import OpenContext, Target

_PATH = "/chat/completions"
_ANSWER = "choices[0].message.content"
_NO_IDS = "`[]`"
# Where services put what they retrieved, best known first.
_SOURCES = (
    "doc_ids", "retrieved", "retrieved_documents", "source_documents", "documents", "sources",
    "search_results", "results", "contexts", "citations",
)  # fmt: skip
_CITATION_FIELDS = ("id", "doc_id", "document_id", "file_id", "filename", "url", "title")
_MODELS_SECONDS = 10.0


class ChatAgent(HttpAgent):
    """An application behind `POST URL/chat/completions`.

    Parameters:
        url: the address up to `/v1`, or that of the completions themselves.
        model: its name; by default the first that the service lists, else none is sent.
        mapping: what `--map` says, parsed.
        extra: fields for the request, with placeholders.
        headers: sent with every call.
        known: the ids of the data set.
        track: how the application may have learned.
        policy: which addresses may be called.
    """

    def __init__(
        self,
        url: str,
        model: str = "",
        *,
        mapping: Mapping[str, str] | None = None,
        extra: JsonObject | None = None,
        headers: HeaderTemplates | None = None,
        known: Container[str] = (),
        track: str = "undeclared",
        policy: OutboundPolicy = UNRESTRICTED,
    ) -> None:
        given = mapping or {}
        self._maps_ids = not {"ids", "results", "doc_id"}.isdisjoint(given)
        self._maps_citations = "citations" in given
        ids = {} if self._maps_ids else {"ids": _NO_IDS}
        self.reader = AnswerReader({"answer": _ANSWER, **ids, **given}, known)
        self._base = url.rstrip("/").removesuffix(_PATH)
        self._model = model
        self._extra = extra or {}
        self._headers = headers or HeaderTemplates()
        self._known = known
        self.policy = policy
        self.ready_url = ready_url(self._base, below="")
        fragment = f"#{model}" if model else ""
        name = redact_target(f"openai:{self._base}{fragment}")
        self.info = AgentInfo(name=name, protocol="openai", track=track)

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "ChatAgent":
        """`openai:URL`, with `#MODEL` after it or not."""
        given = context.request
        policy = context.policy or UNRESTRICTED
        if policy.public_only:
            refuse_local(given, target.address)
        refuse_arguments(context.mapping or {}, target.kind)
        split_address(target.address)
        check_url(target.address)
        extra = read_body_template(given.body)
        if extra is not None and not isinstance(extra, dict):
            raise UsageError('--request must be a JSON object here, such as {"stream": true}')
        headers = HeaderTemplates.parse(given.headers)
        headers.check_variables()
        return cls(
            target.address,
            target.fragment,
            mapping=context.mapping,
            extra=extra,
            headers=headers,
            known=context.dataset.known_ids,
            track=context.track,
            policy=policy,
        )

    async def open(self) -> None:
        """Check that something listens, and choose a model. Raises `TargetError`."""
        await self.connect(self._base, max_bytes=REPLY_MAX_BYTES)
        await self.require_listener(self._base)
        if not self._model and "model" not in self._extra:
            self._model = await self._first_model()
        model = f"model {self._model}" if self._model else "no model named"
        self.info = replace(self.info, details=f"POST {redact_url(self._base + _PATH)}, {model}")

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Send the query as a message."""
        return await self._ask(query, top_k, {})

    @property
    def takes_context(self) -> bool:
        """Whether the request has a place for them: `"{contexts}"`."""
        return has_contexts(self._extra)

    async def answer_from(self, query: str, passages: Sequence[Passage]) -> AgentAnswer:
        """Send the query with these passages in place of `{contexts}`."""
        given = {CONTEXTS: [asdict(each) for each in passages]}
        return await self._ask(query, max(1, len(passages)), given)

    async def _ask(self, query: str, top_k: int, more: Mapping[str, Contexts]) -> AgentAnswer:
        received = await self._complete(self._call(query, top_k, more))
        answer = self.reader.read(received)
        message = received.value["choices"][0]["message"]
        mapped = self._maps_ids
        sources = answer.doc_ids if mapped else _sources(received.value, message, self._known)
        if not self._maps_citations:
            marked = marked_ids(answer.answer, self._known)
            cited = _annotated(message, self._known) or marked
            cited = cited or marked_sources(answer.answer, sources)
            answer = replace(answer, citations=cited)
        if not mapped:
            # An application that returns no list has retrieved what it cites, at the least.
            answer = replace(answer, doc_ids=sources or answer.citations)
        return replace(answer, doc_ids=answer.doc_ids[:top_k])

    def _call(self, query: str, top_k: int, more: Mapping[str, Contexts]) -> WireCall:
        values = CallValues(query, top_k, offset=0, page=1, page0=0, **more)
        body: JsonObject = {"messages": [{"role": "user", "content": query}]}
        if self._model:
            body = {"model": self._model, **body}
        try:
            body |= fill_json(self._extra, values)
            headers = {"Accept": "application/json, text/event-stream"}
            headers |= self._headers.expand(values)
            url = fill_url(self._base + _PATH, values)
        except UsageError as error:
            raise AgentFailure(FailureKind.PROTOCOL, str(error)) from None
        headers["Content-Type"] = "application/json"
        return WireCall("POST", url, headers, orjson.dumps(body))

    async def _complete(self, call: WireCall) -> Received:
        async with exchange(
            self.http, call.method, call.url, content=call.content, headers=call.headers
        ) as response:
            streamed = str(response.headers.get("content-type", "")).startswith("text/event-stream")
            if streamed and response.status_code < 300:
                value = await _read_stream(response)
                return _checked(Received(orjson.dumps(value).decode(), value))
            body = await read_body(response, REPLY_MAX_BYTES)
        if failure := status_failure(response.status_code, response.headers, body, call):
            raise failure
        return _checked(Received.from_text(body))

    async def _first_model(self) -> str:
        """What the service lists first; empty if it lists nothing, which many applications do."""
        with suppress(AgentFailure, UsageError):
            url = fill_url(f"{self._base}/models", {})
            reply = await fetch(
                self.http,
                "GET",
                url,
                headers=self._headers.expand(CallValues("", 1)),
                timeout=_MODELS_SECONDS,
            )
            listed = (parse_object(reply.body) or {}).get("data")
            if reply.status == 200 and isinstance(listed, list) and listed:
                model = listed[0].get("id") if isinstance(listed[0], dict) else None
                return model if isinstance(model, str) else ""
        return ""


def _checked(received: Received) -> Received:
    """The same with the content as one text. Raises `AgentFailure` if it is no completion."""
    value = received.require_value()
    error = value.get("error") if isinstance(value, dict) else None
    if error:
        said = quote(orjson.dumps({"error": error}))
        what = "the service answered with an error"
        raise AgentFailure(FailureKind.AGENT_ERROR, what, said=said)
    message = _message(value)
    if message is None:
        raise AgentFailure(
            FailureKind.INVALID_ANSWER,
            f"the answer is not a chat completion; received {shorten(value)}; if it is another "
            "kind of service, use rest:URL with --request",
        )
    content = message.get("content")
    if isinstance(content, list):  # parts, of which some are text
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        message["content"] = "".join(text for text in texts if isinstance(text, str))
    return received


def _message(value: Any) -> JsonObject | None:
    choices = value.get("choices") if isinstance(value, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else None


async def _read_stream(response: httpx.Response) -> JsonObject:
    """The completion that the chunks of a stream make up."""
    reader = EventReader(REPLY_MAX_BYTES)
    whole: JsonObject = {}
    message: JsonObject = {"role": "assistant", "content": ""}
    finished = begun = False
    async for part in read_chunks(response, REPLY_MAX_BYTES):
        try:
            events = reader.feed(part)
        except EventTooLarge:
            raise too_large(REPLY_MAX_BYTES) from None
        for event in events:
            if event.data.strip() == "[DONE]":  # whatever the connection does afterwards
                return _whole(whole, message, begun)
            chunk = parse_object(event.data)
            if chunk is None:
                message_text = "an event of the stream is not JSON"
                raise AgentFailure(FailureKind.PROTOCOL, message_text)
            choices = chunk.pop("choices", None)
            whole |= {key: each for key, each in chunk.items() if each is not None}
            for choice in choices if isinstance(choices, list) else ():
                if isinstance(choice, dict) and choice.get("index", 0) == 0:
                    begun = True
                    finished = finished or choice.get("finish_reason") is not None
                    _add_delta(message, choice.get("delta"))
    if not finished and "error" not in whole:
        raise AgentFailure(FailureKind.PROTOCOL, "the stream ended before the answer did")
    return _whole(whole, message, begun)


def _whole(fields: JsonObject, message: JsonObject, begun: bool) -> JsonObject:
    return {**fields, "choices": [{"index": 0, "message": message}]} if begun else fields


def _add_delta(message: JsonObject, delta: object) -> None:
    if not isinstance(delta, dict):
        return
    for key, value in delta.items():
        kind = type(value)
        if kind in (str, list) and isinstance(message.get(key), kind) and key != "role":
            message[key] += value
        elif value is not None:
            message[key] = value


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
    for items in _lists(value, message):
        try:
            ids = IdDetector(known).detect(items)
        except AgentFailure:
            continue
        if any(each in known for each in ids):
            return ids
        first = first or ids
    return first


def _lists(value: JsonObject, message: JsonObject) -> Iterator[Sequence[Any]]:
    context = message.get("context")
    for holder in (context if isinstance(context, dict) else {}, message, value):
        for name in _SOURCES:
            if isinstance(holder.get(name), list) and holder[name]:
                yield holder[name]

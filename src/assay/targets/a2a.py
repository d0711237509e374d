"""Targets `a2a:URL`: agents that speak the Agent2Agent protocol, 0.3 or 1.0, over JSON-RPC.

The calls are made directly over HTTP instead of through the protocol's own library: its client
limits neither the size of an answer nor that of a stream, hides Retry-After, and turns integers
into floats.

A reply is a task or a message at once, or a stream of updates; 0.3 marks each with `kind`, 1.0
wraps each in an object named after it. The answer, `{"doc_ids": [...]}`, may be a data part, or
text that is JSON, has it in a code fence, or wraps it in prose. `--map` reads any other form, and
`#text` takes prose for the answer.
"""

import asyncio
import json
import logging
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import httpx
import orjson

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.http import (
    MAX_BYTES,
    exchange,
    failure_of_status,
    read_body,
    read_chunks,
    too_large,
    with_server_message,
)
from assay.net.json import parse_object
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.net.redact import printable, quote, redact_url
from assay.net.sse import EventReader, EventTooLarge
from assay.steps import AnswerUsage
from assay.targets.a2a_card import (
    Card,
    Finding,
    Interface,
    base_address,
    correct_addresses,
    find_card,
)
from assay.targets.answer_reader import (
    AnswerReader,
    Received,
    find_usage,
    read_answer,
    validate_keys,
)
from assay.targets.detection import json_values, marked_ids, suggest_mapping
from assay.targets.http_agent import HttpAgent, ready_url
from assay.targets.protocol import CURRENT_SEARCH, AgentAnswer, AgentInfo, invalid_answer
from assay.targets.target_kinds import OpenContext, Target

PLAIN_TEXT_HINT = "for an agent that takes a question in plain text, use a2a:URL#text"

Parts = list[Mapping[str, Any]]
Sources = Sequence[Sequence[Mapping[str, Any]]]
"""Where an answer may be, likeliest first; each is a list of parts."""

_MIN_PIECES = 4
_MAX_PIECE_LENGTH = 40
_FIRST_POLL = 0.1
_MAX_POLL_SECONDS = 2.0
_WRAPPERS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
_REFUSALS = ("failed", "rejected", "canceled", "auth-required", "input-required")
_STATES = ("submitted", "working", "completed", *_REFUSALS)
_CODE = re.compile(r"\s*([A-Z][A-Z0-9_]{2,39})(?![A-Za-z0-9_])")
_MAX_ARTIFACTS = 1000
_UNKNOWN_METHOD = (-32601, -32009)  # the second: this version of the protocol is not supported
_BAD_REQUEST = (-32700, -32600, -32602)

_log = logging.getLogger(__name__)


class UnknownMethod(AgentFailure):
    """The agent does not know the method: its card may declare the wrong protocol version."""


class A2AAgent(HttpAgent):
    """An A2A agent. After `open()`, `card`, `interface` and `findings` hold what was found.

    `url` is the agent's address, or that of its card. With `plain_text`, the query itself is sent
    instead of `{"query", "top_k"}`.
    """

    card: Card
    interface: Interface

    def __init__(
        self,
        url: str,
        *,
        streaming: bool = False,
        track: str = "undeclared",
        policy: OutboundPolicy = UNRESTRICTED,
        mapping: Mapping[str, str] | None = None,
        known: Container[str] = (),
        plain_text: bool = False,
    ) -> None:
        self._base = base_address(url)
        self._streaming = streaming
        self.policy = policy
        self.ready_url = ready_url(self._base)
        self._plain_text = plain_text
        self.reader = AnswerReader(mapping or {}, known)
        self.info = AgentInfo(name=f"a2a:{redact_url(self._base)}", protocol="a2a", track=track)
        self.findings: tuple[Finding, ...] = ()

    @classmethod
    def from_target(cls, target: Target, context: OpenContext) -> "A2AAgent":
        """`a2a:URL`, with `#stream` for answers as a stream and `#text` for queries as text."""
        options = parse_fragment_options(target.fragment)
        mapping = context.mapping or {}
        validate_keys(mapping, target.kind)
        return cls(
            target.address,
            mapping=mapping,
            known=context.dataset.known_ids,
            streaming="stream" in options,
            plain_text="text" in options,
            track=context.track,
            policy=context.policy or UNRESTRICTED,
        )

    async def open(self) -> None:
        """Find the card and choose an interface. Raises `TargetError` if there is none."""
        quiet_loggers()
        await self.connect(self._base)
        card = await find_card(self.http, self._base)
        # The user's address may be that of one interface; the card's own is the agent's.
        self.card, replaced = await correct_addresses(card, self.policy)
        self._use(self.card.preferred(self._base))
        self._report(*replaced)
        if self._streaming and not self.card.streaming:
            what = "the agent card does not declare streaming; trying it anyway"
            self._report(Finding(what, "remove '#stream' from the target"))

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Send the query as `{"query", "top_k"}`, in the other protocol version if necessary."""
        request: dict[str, str | int] = {"query": query, "top_k": top_k}
        if (search := CURRENT_SEARCH.get()) and search.search_url:
            request |= {"search_url": search.search_url, "mcp_server_url": search.mcp_url}
        text = query if self._plain_text else orjson.dumps(request).decode()
        reply = await self._reply_to(text)
        answer = read_reply(reply.sources(), self.reader, prose=self._plain_text)
        answer = replace(answer, usage=answer.usage or reply.usage)
        if self._plain_text:  # the agent is not told how many are wanted
            return replace(answer, doc_ids=answer.doc_ids[:top_k])
        return answer

    async def _reply_to(self, text: str) -> "A2AReply":
        declared = self.interface
        other = declared.other_version()
        try:
            return await self._ask_by(declared, text)
        except UnknownMethod as unknown:
            first = unknown
        try:
            reply = await self._ask_by(other, text)
        except UnknownMethod:
            names = f"{declared.send_name!r} nor {other.send_name!r}"
            message = f"the agent supports neither {names} at the address in its card"
            raise AgentFailure(FailureKind.PROTOCOL, message, said=first.said) from None
        if self.interface != other:
            self._use(other)
            what = f"{declared.send_name!r} is in the card but not supported; using {other}"
            self._report(Finding(what, f"declare protocol version {other.version!r} in the card"))
        return reply

    async def _ask_by(self, interface: Interface, text: str) -> "A2AReply":
        reply = A2AReply()
        await self._exchange(interface, interface.question(text, stream=self._streaming), reply)
        pause = _FIRST_POLL
        while not reply.finished:  # a task that was returned before it was done
            if reply.task_id is None:
                raise bad_reply("an unfinished task without an id")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_POLL_SECONDS)
            try:
                await self._exchange(interface, interface.task(reply.task_id), reply)
            except UnknownMethod:
                raise bad_reply("an unfinished task that it later does not recognize") from None
        return reply

    async def _exchange(self, interface: Interface, content: bytes, reply: "A2AReply") -> None:
        async with exchange(
            self.http, "POST", interface.url, content=content, headers=interface.headers
        ) as response:
            await read_response(response, reply)

    def _use(self, interface: Interface) -> None:
        self.interface = interface
        agent = printable(f"{self.card.name} {self.card.version}".strip())
        details = f"{agent or 'unnamed agent'}; {interface} at {redact_url(interface.url)}"
        self.info = replace(self.info, details=details, agent=agent or None)

    def _report(self, *findings: Finding) -> None:
        for finding in findings:
            _log.warning("%s: %s", self.info.name, finding.what)
        self.findings += findings


def parse_fragment_options(fragment: str) -> frozenset[str]:
    """What follows the `#` of an `a2a:` target: `stream`, `text` or both. Raises `UsageError`."""
    options = frozenset(filter(None, fragment.split(",")))
    if not options <= {"stream", "text"}:
        choice = "'#stream', '#text' or '#text,stream'"
        raise UsageError(f"target 'a2a:...#{fragment}': only {choice} may follow the URL")
    return options


def quiet_loggers() -> None:
    """Silence loggers that write whole cards and addresses at INFO; a level set before stays."""
    for name in ("a2a", "httpx", "httpcore"):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


class A2AReply:
    """The reply to one question, put together from one or more results.

    `usage` is in the metadata of the task, the message or an artifact.
    """

    def __init__(self) -> None:
        self.task_id: str | None = None
        self.state = ""
        self.usage: AnswerUsage | None = None
        self._message: Parts | None = None
        self._status: Parts = []
        self._artifacts: dict[str, Parts] = {}

    @property
    def finished(self) -> bool:
        """Whether no further result has to be waited for."""
        return self._message is not None or self.state in ("completed", *_REFUSALS)

    def feed(self, result: object) -> None:
        """Take in one result. Raises `AgentFailure` for one that the protocol does not know."""
        value: Mapping[str, Any] = result if isinstance(result, Mapping) else {}
        kind = value.get("kind")
        if kind not in _WRAPPERS.values():
            name = next((name for name in _WRAPPERS if isinstance(value.get(name), Mapping)), None)
            if name is not None:
                kind, value = _WRAPPERS[name], value[name]
            elif "status" in value:  # GetTask has the bare task
                kind = "task"
            else:
                raise bad_reply("a result that is neither a task nor a message")
        self._take_usage(value)
        if kind == "message":
            self._message = _parts(value)
            return
        if kind == "artifact-update":
            self._take_artifact(value.get("artifact"), append=value.get("append") is True)
        else:
            artifacts = value.get("artifacts") if kind == "task" else None
            for artifact in artifacts if isinstance(artifacts, list) else ():
                self._take_artifact(artifact, append=False)
            status = value.get("status")
            state = status.get("state") if isinstance(status, Mapping) else None
            self.state = str(state).lower().removeprefix("task_state_").replace("_", "-")
            if not isinstance(status, Mapping) or self.state not in _STATES:
                raise bad_reply("a task in an unknown state")
            message = status.get("message")
            self._status = _parts(message) if isinstance(message, Mapping) else []
            self._take_usage(message if isinstance(message, Mapping) else {})
        if isinstance(task_id := value.get("taskId", value.get("id")), str):
            self.task_id = task_id

    def sources(self) -> Sources:
        """Where the answer of a finished reply may be. Raises `AgentFailure` for a refusal."""
        if self.state in _REFUSALS and self._message is None:
            # A leading code such as INDEX_MISSING; the text after it may hold anything.
            text = " ".join(texts_of(self._status))
            code = f" ({match[1]})" if (match := _CODE.match(text)) else ""
            message = f"the task ended {self.state!r}{code}"
            raise AgentFailure(FailureKind.AGENT_ERROR, message, said=quote(text))
        sources = [*self._artifacts.values(), self._message, self._status]
        return [parts for parts in sources if parts is not None]

    def _take_usage(self, holder: Mapping[str, Any]) -> None:
        self.usage = find_usage(holder.get("metadata")) or self.usage

    def _take_artifact(self, artifact: object, *, append: bool) -> None:
        if not isinstance(artifact, Mapping):
            raise bad_reply("an artifact that is not an object")
        self._take_usage(artifact)
        key, parts = str(artifact.get("artifactId", "")), _parts(artifact)
        if append and key in self._artifacts:
            earlier = self._artifacts[key]
            if earlier and parts and "text" in earlier[-1] and "text" in parts[0]:
                # A text that came in pieces is one text.
                whole = "".join(texts_of([earlier.pop(), parts[0]]))
                parts = [{**parts[0], "text": whole}, *parts[1:]]
            earlier += parts
        elif len(self._artifacts) < _MAX_ARTIFACTS:
            self._artifacts[key] = parts


def bad_reply(what: str) -> AgentFailure:
    """The failure for a reply that breaks the protocol."""
    return AgentFailure(FailureKind.PROTOCOL, f"the agent sent {what}")


def texts_of(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The texts of parts."""
    return (part["text"] for part in parts if isinstance(part.get("text"), str))


def _parts(holder: Mapping[str, Any]) -> Parts:
    parts = holder.get("parts")
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


async def read_response(response: httpx.Response, reply: A2AReply) -> None:
    """Feed `reply` with the response, which may be a stream or not, whatever was asked for."""
    if failure := failure_of_status(response):
        raise await with_server_message(failure, response)
    status = response.status_code
    kind = str(response.headers.get("content-type", ""))
    if status != 200 or not kind.startswith("text/event-stream"):
        reply.feed(_result_in(await read_body(response), status))
        return
    reader = EventReader(MAX_BYTES)
    async for chunk in read_chunks(response):
        try:
            events = reader.feed(chunk)
        except EventTooLarge:
            raise too_large(MAX_BYTES) from None
        for event in events:
            reply.feed(_result_in(event.data.encode(), 200))
        if reply.finished:
            return
    raise AgentFailure(FailureKind.PROTOCOL, "the stream ended before the task did")


def _result_in(body: bytes, status: int) -> object:
    """The result in a JSON-RPC response. Raises for an error.

    The message goes by its code: the agent's own may hold a stack trace or the query.
    """
    content = parse_object(body)
    error = content.get("error") if content else None
    code = error.get("code") if isinstance(error, dict) else None
    if code in _UNKNOWN_METHOD:
        raise UnknownMethod(FailureKind.PROTOCOL, f"error {code}", said=quote(body))
    if status != 200:
        kind = FailureKind.AGENT_ERROR if status >= 500 else FailureKind.PROTOCOL
        raise AgentFailure(kind, f"HTTP {status}", status=status, said=quote(body))
    if isinstance(error, dict):
        kind, message = FailureKind.AGENT_ERROR, f"error {code}"
        if code in _BAD_REQUEST:
            kind, message = FailureKind.PROTOCOL, f"the agent refused the request: error {code}"
        elif not isinstance(code, int):
            message = "an error, no code"
        raise AgentFailure(kind, message, said=quote(body))
    if content is None:
        raise bad_reply("something that is not a JSON object")
    if "result" not in content:
        raise bad_reply("a JSON-RPC response with neither 'result' nor 'error'")
    return content["result"]


def read_reply(sources: Sources, reader: AnswerReader, *, prose: bool = False) -> AgentAnswer:
    """The answer in a reply. Raises `AgentFailure` if there is none.

    Without a mapping it is the first object with `doc_ids`; in `prose`, ids are in brackets.
    """
    values = list(_values(sources))
    text = "\n".join(filter(None, (_text_of(list(texts_of(parts))) for parts in sources)))
    received = [Received(text or json.dumps(value), value) for value in values]
    received = received or [Received(text, problem="the agent's answer contains no JSON")]
    reader.last = received[0]
    if prose and not values:
        return _read_prose(received[0], reader)
    if reader.mapping or prose:
        failures = []
        for candidate in received:  # the first that the mapping fits
            try:
                return reader.read(candidate)
            except AgentFailure as failure:
                failures.append(failure)
        raise failures[0]
    try:
        for value in values:
            if isinstance(value, Mapping) and "doc_ids" in value:
                return read_answer(value)
        hint = "" if values or not text else f"; {PLAIN_TEXT_HINT}"
        raise invalid_answer(f"the answer has no JSON object with 'doc_ids'{hint}")
    except AgentFailure as failure:
        raise reader.with_suggestion(failure, received[0]) from None


def _text_of(texts: Sequence[str]) -> str:
    # The SDK's task store keeps the pieces of a streamed text as parts of one artifact.
    pieces = len(texts) >= _MIN_PIECES and sum(map(len, texts)) < _MAX_PIECE_LENGTH * len(texts)
    return ("" if pieces else "\n").join(texts).strip()


def _read_prose(received: Received, reader: AnswerReader) -> AgentAnswer:
    if "ids" in reader.mapping:
        answer = reader.read(received)
    else:
        ids = marked_ids(received.text, reader.known)
        answer = AgentAnswer(ids, citations=ids)
        if not ids and suggest_mapping(None, received.text, reader.known):
            failure = invalid_answer("the answer names documents, but not as [ID]")
            raise reader.with_suggestion(failure, received)
    return answer if answer.answer is not None else replace(answer, answer=received.text)


def _values(sources: Sources) -> Iterator[object]:
    """Everything that could be the answer: data first, because text often only repeats it."""
    for parts in sources:
        yield from (part["data"] for part in parts if part.get("data") is not None)
        texts = list(texts_of(parts))
        for text in [*texts, *(["".join(texts)] if len(texts) > 1 else [])]:
            yield from json_values(text)

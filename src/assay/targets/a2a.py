"""Targets `a2a:URL`: agents that speak the Agent2Agent protocol, 0.3 or 1.0, over JSON-RPC.

The answer, `{"doc_ids": [...]}`, is a data part, or text that is JSON or has it in the middle of
prose. `--map` reads any other form, and `#text` takes prose for the answer.
"""

# The calls are made directly over HTTP: the client of the protocol's own library limits neither
# the size of an answer nor that of a stream, hides Retry-After, and turns integers into floats.

import asyncio
import json
import logging
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx
import orjson

from assay.errors import AgentFailure, FailureKind, TargetError, TargetLoading, UsageError
from assay.net.http import MAX_BYTES, exchange, failure_of_status, fetch, read_error_body
from assay.net.json import JsonObject, is_deep, parse_json, parse_object
from assay.net.outbound import (
    OutboundPolicy,
    OutboundRefused,
    is_loopback,
    is_wildcard,
    permitted_addresses,
    split_address,
)
from assay.net.redact import printable, quote, redact_url
from assay.net.sse import EventReader
from assay.targets.answer_reader import (
    PLAIN_TEXT_HINT,
    AnswerReader,
    Received,
    cited_in,
    read_answer,
    validate_keys,
)
from assay.targets.http_agent import HttpAgent, ready_url, unreachable
from assay.targets.protocol import CURRENT_SEARCH, AgentAnswer, AgentInfo, invalid_answer
from assay.targets.target_kinds import OpenContext, Target

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
V03 = "0.3"
V10 = "1.0"

Parts = list[Mapping[str, Any]]
# Where an answer may be, likeliest first; each is a list of parts.
Sources = Sequence[Sequence[Mapping[str, Any]]]

_JSON_RPC = "JSONRPC"
_METHODS = {
    V10: {"send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask"},
    V03: {"send": "message/send", "stream": "message/stream", "get": "tasks/get"},
}
_WRAPPERS = {
    "task": "task",
    "message": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
_REFUSALS = ("failed", "rejected", "canceled", "auth-required", "input-required")
_STATES = ("submitted", "working", "completed", *_REFUSALS)
_UNKNOWN_METHOD = (-32601, -32009)  # the second: this version of the protocol is not supported
_BAD_REQUEST = (-32700, -32600, -32602)
_CARD_SECONDS = 15.0  # more than it takes to tell that nobody listens
_CONNECT_SECONDS = 3.0
_FIRST_POLL_SECONDS = 0.1
_MAX_POLL_SECONDS = 2.0
_MAX_CARD_TEXT = 200
# The SDK's task store keeps the pieces of a streamed text as parts of one artifact.
_MIN_PIECES = 4
_MAX_PIECE_LENGTH = 40
# Prose may be full of braces: so many are tried as the start of an object.
_MAX_STARTS = 64

_log = logging.getLogger(__name__)


class UnknownMethod(AgentFailure):
    """The agent does not know the method: its card may declare the wrong protocol version."""


class CardNotFound(TargetError):
    """The host responds, and has no agent card at any of the usual places."""


@dataclass(frozen=True, slots=True)
class Interface:
    """An address that takes JSON-RPC of one protocol version, and the requests in its form."""

    version: str
    url: str

    def __str__(self) -> str:
        return f"A2A {self.version} over JSON-RPC"

    def question(self, text: str, *, stream: bool) -> bytes:
        """The request that sends `text`. Newer libraries keep the numbers of a data part as
        floats, so it is one text part.
        """
        message: JsonObject = {"messageId": uuid.uuid4().hex}
        if self.version == V03:
            message |= {"kind": "message", "role": "user"}
            message["parts"] = [{"kind": "text", "text": text}]
            params: JsonObject = {"message": message, "configuration": {"blocking": True}}
        else:  # 1.0 blocks by default
            message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
            params = {"message": message}
        return self.request("stream" if stream else "send", params)

    def request(self, name: str, params: JsonObject) -> bytes:
        """The JSON-RPC call of one of the methods `send`, `stream` and `get`."""
        method = _METHODS[self.version][name]
        call = {"jsonrpc": "2.0", "id": uuid.uuid4().hex, "method": method, "params": params}
        return orjson.dumps(call)


@dataclass(frozen=True, slots=True)
class Card:
    """An agent card as far as it is used; `document` is its JSON, which was found at `place`."""

    name: str
    version: str
    interfaces: tuple[Interface, ...]
    document: Mapping[str, Any]
    place: str = ""


class A2AAgent(HttpAgent):
    """The agent of `a2a:URL[#stream|#text]`, where `URL` is its address or that of its card.

    `findings` are mistakes that could be worked around, each with a remedy.
    """

    card: Card
    interface: Interface

    def __init__(self, target: Target, context: OpenContext) -> None:
        options = set(filter(None, target.fragment.split(",")))
        if not options <= {"stream", "text"}:
            raise UsageError(
                f"target 'a2a:...#{target.fragment}': only '#stream', '#text' or '#text,stream' "
                "may follow the URL"
            )
        mapping = context.mapping or {}
        validate_keys(mapping, target.kind)
        self._base = base_address(target.address)
        self.streaming = "stream" in options
        self._plain_text = "text" in options  # the query itself instead of {"query", "top_k"}
        self.policy = context.policy
        self.ready_url = ready_url(self._base)
        self.reader = AnswerReader(mapping, context.dataset.known_ids)
        self.info = AgentInfo(f"a2a:{redact_url(self._base)}", "a2a", context.track)
        self.findings: list[tuple[str, str]] = []

    async def open(self) -> None:
        """Find the card and choose the newest interface. Raises `TargetError` if there is none."""
        await self.connect(self._base)
        self.card = await find_card(self.http, self._base)
        interface = max(self.card.interfaces, key=lambda each: each.version)
        # Behind Docker or a proxy, addresses in cards are often wrong; the user's own did work.
        base = base_address(self.card.place)
        if reason := await _why_wrong(interface.url, base, self.policy):
            url, there = rebase(interface.url, base), redact_url(interface.url)[:200]
            self._report(
                f"the card's address {there!r} {reason}; calling {redact_url(url)!r} instead",
                "put the URL that clients use into the card; many agents take it as --card-url URL",
            )
            interface = replace(interface, url=url)
        self._use(interface)

    async def ask(self, query: str, top_k: int) -> AgentAnswer:
        """Send the query as `{"query", "top_k"}`, in the other protocol version if necessary."""
        request: dict[str, str | int] = {"query": query, "top_k": top_k}
        if (search := CURRENT_SEARCH.get()) and search.search_url:
            request |= {"search_url": search.search_url, "mcp_server_url": search.mcp_url}
        text = query if self._plain_text else orjson.dumps(request).decode()
        reply = await self._reply_to(text)
        answer = read_reply(reply.sources(), self.reader, prose=self._plain_text)
        if self._plain_text:  # the agent is not told how many are wanted
            return replace(answer, doc_ids=answer.doc_ids[:top_k])
        return answer

    async def _reply_to(self, text: str) -> "A2AReply":
        declared = self.interface
        other = replace(declared, version=V03 if declared.version == V10 else V10)
        try:
            return await self._ask_by(declared, text)
        except UnknownMethod as unknown:
            first = unknown
        try:
            reply = await self._ask_by(other, text)
        except UnknownMethod:
            message = f"the agent supports neither {declared} nor {other} at the card's address"
            raise AgentFailure(FailureKind.PROTOCOL, message, said=first.said) from None
        if self.interface != other:
            self._use(other)
            what = f"{declared} is in the card but not supported; using {other}"
            self._report(what, f"declare protocol version {other.version!r} in the card")
        return reply

    async def _ask_by(self, interface: Interface, text: str) -> "A2AReply":
        reply = A2AReply()
        content = interface.question(text, stream=self.streaming)
        headers = {
            "A2A-Version": interface.version,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }
        pause = _FIRST_POLL_SECONDS
        while True:
            try:
                async with exchange(
                    self.http, "POST", interface.url, content=content, headers=headers
                ) as response:
                    await _read_response(response, reply)
            except UnknownMethod:
                if reply.task_id is None:
                    raise
                raise _breach("an unfinished task that it later does not recognize") from None
            if reply.finished:
                return reply
            # A task that was returned before it was done.
            if reply.task_id is None:
                raise _breach("an unfinished task without an id")
            content = interface.request("get", {"id": reply.task_id})
            await asyncio.sleep(pause)
            pause = min(pause * 2, _MAX_POLL_SECONDS)

    def _use(self, interface: Interface) -> None:
        self.interface = interface
        agent = printable(f"{self.card.name} {self.card.version}".strip())
        details = f"{agent or 'unnamed agent'}; {interface} at {redact_url(interface.url)}"
        self.info = replace(self.info, details=details, agent=agent or None)

    def _report(self, what: str, remedy: str) -> None:
        _log.warning("%s: %s", self.info.name, what)
        self.findings.append((what, remedy))


def read_card(document: object) -> Card:
    """Parse the JSON of a card of any protocol version.

    Raises `ValueError` if it is not a card, `TargetError` if its agent cannot be called.
    """
    if not isinstance(document, Mapping) or not (offered := list(_interfaces(document))):
        raise ValueError("not an agent card: it has neither 'supportedInterfaces' nor 'url'")
    usable = tuple(interface for binding, interface in offered if binding == _JSON_RPC)
    if not usable:
        bindings = ", ".join(sorted({printable(binding[:40]) for binding, _ in offered}))
        raise TargetError(
            f"the agent's card offers only {bindings}, which Assay does not speak; add an "
            f"interface with the protocol binding {_JSON_RPC} to the agent"
        )
    name, version = _text(document.get("name")), _text(document.get("version"))
    return Card(name, version, tuple(dict.fromkeys(usable)), document)


def _interfaces(card: Mapping[str, Any]) -> Iterator[tuple[str, Interface]]:
    """All interfaces by binding. If a card has those of both versions, the newer list is
    complete.
    """
    newer, others = card.get("supportedInterfaces"), card.get("additionalInterfaces")
    entries: list[tuple[Any, str]] = []
    if isinstance(newer, list) and newer:
        entries = [(entry, "protocolBinding") for entry in newer]
    elif isinstance(card.get("url"), str):
        entries = [(card, "preferredTransport")]
        entries += [(entry, "transport") for entry in (others if isinstance(others, list) else ())]
    for entry, binding in entries:
        if isinstance(entry, Mapping):
            declaring = card if binding == "transport" else entry
            # A server of SDK 1.x that declares no version is announced to old clients as 0.3, and
            # agents on 0.2.x speak what 0.3 speaks.
            major = _text(declaring.get("protocolVersion")).partition(".")[0]
            version = V10 if major.isdecimal() and major.strip("0") else V03
            url = entry.get("url")
            interface = Interface(version, url if isinstance(url, str) else "")
            yield _text(entry.get(binding)).upper() or _JSON_RPC, interface


def _text(value: object) -> str:
    return value[:_MAX_CARD_TEXT] if isinstance(value, str) else ""


def base_address(url: str) -> str:
    """The agent's address without the path of a card, a fragment and a trailing slash."""
    split_address(url)
    parts = urlsplit(url)
    path = parts.path
    for suffix in WELL_KNOWN:
        path = path.removesuffix(suffix)
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), parts.query, ""))


async def find_card(http: httpx.AsyncClient, base: str) -> Card:
    """The first card at the usual places. Raises `TargetError` with every place that was tried."""
    tried: list[str] = []
    parts = urlsplit(base)
    own = parts.path
    paths = [*(own + path for path in WELL_KNOWN), own or "/", *(WELL_KNOWN if own else ())]
    for path in paths:  # with the query of the address: some gateways need a key there
        place = urlunsplit(parts._replace(path=path))
        shown = redact_url(place)
        headers = {"Accept": "application/json"}
        try:
            reply = await fetch(http, "GET", place, headers=headers, timeout=_CARD_SECONDS)
            if failed := failure_of_status(reply.status_code, reply.headers):
                raise failed
            return replace(read_card(parse_json(reply.content)), place=place)
        except AgentFailure as failure:
            away = failure.kind is FailureKind.CONNECTION and failure.status is not None
            if away or failure.kind is FailureKind.TIMEOUT:
                raise TargetLoading(
                    f"{shown}: {failure}; the agent is still starting, or its proxy cannot reach it"
                ) from None
            # A host that takes no connection has no other place to look at.
            if failure.kind is FailureKind.CONNECTION:
                raise unreachable(base, failure) from None
            tried.append(f"{shown}: {failure}")
        except ValueError as error:
            reason = "not JSON" if isinstance(error, orjson.JSONDecodeError) else error
            tried.append(f"{shown}: {reason}")
    lines = "".join(f"\n  {line}" for line in tried)
    raise CardNotFound(
        f"no agent card found for {redact_url(base)}; tried:{lines}\n"
        "Is this the URL of an A2A agent? To see what responds there, run: assay doctor URL"
    )


def rebase(url: str, base: str) -> str:
    """`url` with scheme, host and port of `base`, and below the path of `base` if it has one."""
    ours = urlsplit(base)
    try:
        path = urlsplit(urljoin("http://host/", url)).path
    except ValueError:  # a bracket without its end
        path = ""
    prefix = ours.path.rstrip("/")
    if path in ("", "/"):
        path = prefix or "/"
    elif prefix and not f"{path}/".startswith(f"{prefix}/"):
        path = prefix + path
    return urlunsplit((ours.scheme, ours.netloc, path, "", ""))


async def _why_wrong(url: str, base: str, policy: OutboundPolicy) -> str:
    """Why the address in a card cannot be called from here; empty if it can."""
    try:
        host, port = split_address(url)
    except UsageError:
        return "is not an http(s) URL"
    our_host, our_port = split_address(base)
    if (host, port) == (our_host, our_port):
        return ""
    if is_wildcard(host):
        return "is a wildcard listen address"
    if is_loopback(host) and not (is_loopback(our_host) or is_wildcard(our_host)):
        return "is a loopback address, reachable only from its own machine"
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            addresses = await permitted_addresses(policy, host, port)
            _, writer = await asyncio.open_connection(addresses[0], port)
    except OutboundRefused:
        return "is not allowed by this server"
    except (OSError, httpx.ConnectError):  # a TimeoutError is an OSError
        return "cannot be reached"
    writer.close()
    return ""


class A2AReply:
    """The reply to one question: a task or a message at once, or a stream of updates."""

    def __init__(self) -> None:
        self.task_id: str | None = None
        self.state = ""
        self._message: Parts | None = None
        self._status: Parts = []
        self._artifacts: dict[str, Parts] = {}

    @property
    def finished(self) -> bool:
        """Whether no further result will come."""
        return self._message is not None or self.state in ("completed", *_REFUSALS)

    def feed(self, result: object) -> None:
        """Take in one result. Raises `AgentFailure` for one that the protocol does not know."""
        value: Mapping[str, Any] = result if isinstance(result, Mapping) else {}
        kind = value.get("kind")
        if kind not in _WRAPPERS.values():
            name = next((name for name in _WRAPPERS if isinstance(value.get(name), Mapping)), None)
            if name is None and "status" not in value:
                raise _breach("a result that is neither a task nor a message")
            # GetTask has the bare task
            kind, value = (_WRAPPERS[name], value[name]) if name else ("task", value)
        if kind == "message":
            self._message = _parts(value)
            return
        if kind == "artifact-update":
            self._take_artifact(value.get("artifact"), append=value.get("append") is True)
        else:
            artifacts = value.get("artifacts") if kind == "task" else None
            for artifact in artifacts if isinstance(artifacts, list) else ():
                self._take_artifact(artifact, append=False)
            self._take_status(value.get("status"))
        if isinstance(task_id := value.get("taskId", value.get("id")), str):
            self.task_id = task_id

    def sources(self) -> Sources:
        """Where the answer of a finished reply may be. Raises `AgentFailure` for a refusal."""
        if self.state in _REFUSALS and self._message is None:
            text = " ".join(_texts_of(self._status))
            message = f"the task ended {self.state!r}"
            raise AgentFailure(FailureKind.AGENT_ERROR, message, said=quote(text))
        sources = [*self._artifacts.values(), self._message, self._status]
        return [parts for parts in sources if parts is not None]

    def _take_status(self, status: object) -> None:
        # A2A 0.3 writes `input-required`, 1.0 TASK_STATE_INPUT_REQUIRED.
        holder = status if isinstance(status, Mapping) else {}
        self.state = str(holder.get("state")).lower().removeprefix("task_state_").replace("_", "-")
        if self.state not in _STATES:
            raise _breach("a task in an unknown state")
        message = holder.get("message")
        self._status = _parts(message if isinstance(message, Mapping) else {})

    def _take_artifact(self, artifact: object, *, append: bool) -> None:
        if not isinstance(artifact, Mapping):
            raise _breach("an artifact that is not an object")
        key, parts = str(artifact.get("artifactId", "")), _parts(artifact)
        if append and key in self._artifacts:
            earlier = self._artifacts[key]
            if earlier and parts and "text" in earlier[-1] and "text" in parts[0]:
                # A text that came in pieces is one text.
                whole = "".join(_texts_of([earlier.pop(), parts[0]]))
                parts = [{**parts[0], "text": whole}, *parts[1:]]
            earlier += parts
        else:
            self._artifacts[key] = parts


def _breach(what: str) -> AgentFailure:
    """The failure for a reply that breaks the protocol."""
    return AgentFailure(FailureKind.PROTOCOL, f"the agent sent {what}")


def _texts_of(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    return (part["text"] for part in parts if isinstance(part.get("text"), str))


def _parts(holder: Mapping[str, Any]) -> Parts:
    parts = holder.get("parts")
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


async def _read_response(response: httpx.Response, reply: A2AReply) -> None:
    """Feed `reply` with the response, which may be a stream or not, whatever was asked for."""
    failure = failure_of_status(response.status_code, response.headers)
    kind = str(response.headers.get("content-type", ""))
    if failure or not kind.startswith("text/event-stream"):
        body = await (read_error_body(response) if failure else response.aread())
        reply.feed(_result_in(body, failure))
        return
    reader = EventReader(MAX_BYTES)
    async for chunk in response.aiter_raw():
        for event in reader.feed(chunk):
            reply.feed(_result_in(event.data.encode()))
        if reply.finished:
            return
    raise AgentFailure(FailureKind.PROTOCOL, "the stream ended before the task did")


def _result_in(body: bytes, failure: AgentFailure | None = None) -> object:
    """The result in a JSON-RPC response. Raises for an error, else `failure` if there is one.

    The message goes by its code: the agent's own may hold a stack trace or the query.
    """
    content = parse_object(body) or {}
    error = content.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if code in _UNKNOWN_METHOD:
        failure = UnknownMethod(FailureKind.PROTOCOL, f"error {code}")
    elif failure is None and isinstance(error, dict):
        kind = FailureKind.PROTOCOL if code in _BAD_REQUEST else FailureKind.AGENT_ERROR
        failure = AgentFailure(kind, f"error {code if isinstance(code, int) else 'without a code'}")
    if failure:
        failure.said = quote(body)
        raise failure
    if "result" not in content:
        raise _breach("something that is not a JSON-RPC response")
    return content["result"]


def read_reply(sources: Sources, reader: AnswerReader, *, prose: bool = False) -> AgentAnswer:
    """The answer in a reply. Raises `AgentFailure` if there is none.

    Without a mapping it is the first object with `doc_ids`; in `prose`, ids are in brackets.
    """
    values: list[object] = []  # data first, because text often only repeats it
    for parts in sources:
        values += [part["data"] for part in parts if part.get("data") is not None]
        pieces = list(_texts_of(parts))
        # A stream may cut an object in two: only all pieces together are JSON then.
        for piece in [*pieces, *(["".join(pieces)] if len(pieces) > 1 else [])]:
            values += json_values(piece)
    text = "\n".join(filter(None, (_joined(list(_texts_of(parts))) for parts in sources)))
    received = [Received(text or json.dumps(value), value) for value in values]
    received = received or [Received(text, problem="the agent's answer contains no JSON")]
    reader.last = received[0]
    if prose and not values:
        if "ids" in reader.mapping:
            answer = reader.read(received[0])
        else:
            cited = cited_in(text, (), reader.known)
            answer = AgentAnswer(cited, citations=cited)
        return answer if answer.answer is not None else replace(answer, answer=text)
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
        hint = "" if values or not text else PLAIN_TEXT_HINT
        raise invalid_answer("the answer has no JSON object with 'doc_ids'", hint)
    except AgentFailure as failure:
        raise reader.with_suggestion(failure, received[0]) from None


def _joined(texts: Sequence[str]) -> str:
    pieces = len(texts) >= _MIN_PIECES and sum(map(len, texts)) < _MAX_PIECE_LENGTH * len(texts)
    return ("" if pieces else "\n").join(texts).strip()


def json_values(text: str) -> Iterator[object]:
    """Every JSON value in a text: the text itself, or the objects in the middle of prose."""
    try:
        yield parse_json(text)
        return
    except orjson.JSONDecodeError:
        start, decoder = 0, json.JSONDecoder()
    for _ in range(_MAX_STARTS):
        start = text.find("{", start)
        if start < 0:
            return
        try:
            value, start = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start += 1
        else:
            if not is_deep(value):
                yield value

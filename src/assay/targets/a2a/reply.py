"""One A2A exchange: the request in one of its four forms, and the reply in whichever form it has.

The forms are JSON-RPC or HTTP+JSON, version 0.3 or 1.0. A question always travels as one text part,
which holds JSON or the query itself: newer libraries keep the numbers of a data part as floats.

A result is a task or a message at once, or a stream of updates; 0.3 marks each with `kind`, 1.0 and
both HTTP+JSON forms wrap each in an object named after it. All forms are accepted, so that an agent
that mixes them up is still understood.
"""

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote as percent_encode

import httpx
import orjson

from assay.errors import AgentFailure, FailureKind
from assay.net.http import (
    MAX_BYTES,
    failure_of_status,
    read_body,
    read_chunks,
    too_large,
    with_server_message,
)
from assay.net.json import JsonObject, parse_object
from assay.net.redact import quote
from assay.net.sse import EventReader, EventTooLarge
from assay.targets.request_template import WireCall

Parts = list[Mapping[str, Any]]
Sources = Sequence[Sequence[Mapping[str, Any]]]
"""Where an answer may be, likeliest first; each is a list of parts."""

JSON_RPC = "JSONRPC"
HTTP_JSON = "HTTP+JSON"
V03 = "0.3"
V10 = "1.0"

_METHODS = {
    V10: {"send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask"},
    V03: {"send": "message/send", "stream": "message/stream", "get": "tasks/get"},
}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to speak to one interface: its binding, protocol version, address and tenant."""

    binding: str
    version: str
    url: str
    tenant: str = ""

    def __str__(self) -> str:
        name = "JSON-RPC" if self.binding == JSON_RPC else self.binding
        return f"A2A {self.version} over {name}"

    @property
    def send_name(self) -> str:
        """The name of the method that sends a message, for error messages."""
        if self.binding == JSON_RPC:
            return _METHODS[self.version]["send"]
        return f"POST {self._path('/message:send')}"

    def other_version(self) -> "Dialect":
        """The same interface in the other protocol version."""
        return replace(self, version=V03 if self.version == V10 else V10)

    def question(self, text: str, *, stream: bool) -> WireCall:
        """The request that sends `text` as a message of one text part."""
        if self.binding == JSON_RPC:
            message = self._message(text, "parts")
            return self._call("stream" if stream else "send", self._params("message", message))
        # The 0.3 library sends its protobuf form here, which has other names than its JSON-RPC.
        old = self.version == V03
        message = self._message(text, "content" if old else "parts")
        body = self._params("request" if old else "message", message)
        return self._request("POST", "/message:stream" if stream else "/message:send", body)

    def task(self, task_id: str) -> WireCall:
        """The request for the state of a task that was returned before it was done."""
        if self.binding == JSON_RPC:
            return self._call("get", {**self._tenant(), "id": task_id})
        return self._request("GET", f"/tasks/{percent_encode(task_id, safe='')}", None)

    def _message(self, text: str, parts: str) -> JsonObject:
        message: JsonObject = {"messageId": uuid.uuid4().hex, parts: [{"text": text}]}
        if self.version == V10 or self.binding == HTTP_JSON:
            return {**message, "role": "ROLE_USER"}
        return {
            **message,
            "kind": "message",
            "role": "user",
            "parts": [{"kind": "text", "text": text}],
        }

    def _params(self, name: str, message: JsonObject) -> JsonObject:
        if self.version == V10:  # which blocks by default
            return {**self._tenant(), name: message}
        return {name: message, "configuration": {"blocking": True}}

    def _tenant(self) -> JsonObject:
        """The tenant as a field; HTTP+JSON has it in the path, and version 0.3 nowhere."""
        sent = self.tenant and self.version == V10 and self.binding == JSON_RPC
        return {"tenant": self.tenant} if sent else {}

    def _call(self, name: str, params: JsonObject) -> WireCall:
        method = _METHODS[self.version][name]
        call = {"jsonrpc": "2.0", "id": uuid.uuid4().hex, "method": method, "params": params}
        return WireCall("POST", self.url, self._headers(), orjson.dumps(call))

    def _request(self, method: str, path: str, body: JsonObject | None) -> WireCall:
        content = None if body is None else orjson.dumps(body)
        url = self.url.rstrip("/") + self._path(path)
        return WireCall(method, url, self._headers(), content)

    def _path(self, path: str) -> str:
        if self.version == V03:
            return f"/v1{path}"
        return f"/{percent_encode(self.tenant, safe='')}{path}" if self.tenant else path

    def _headers(self) -> dict[str, str]:
        return {
            "A2A-Version": self.version,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }


_WRAPPERS = {
    "task": "task",
    "message": "message",
    "msg": "message",
    "statusUpdate": "status-update",
    "artifactUpdate": "artifact-update",
}
_REFUSALS = ("failed", "rejected", "canceled", "auth-required", "input-required")
_UNDERWAY = ("submitted", "working")
_CODE = re.compile(r"[A-Z][A-Z0-9_]{2,39}(?![A-Za-z0-9_])")
_MAX_ARTIFACTS = 1000
_MAX_METADATA = 20
_UNKNOWN_METHOD = (-32601, -32009)  # the second: this version of the protocol is not supported
_BAD_REQUEST = (-32700, -32600, -32602)
_DRAIN_SECONDS = 0.2


class A2AReply:
    """The reply to one question, put together from one or more results."""

    def __init__(self) -> None:
        self.task_id: str | None = None
        self.state = ""
        self._message: Parts | None = None
        self._status: Parts = []
        self._artifacts: dict[str, Parts] = {}
        self.metadata: list[Mapping[str, Any]] = []
        """Those of the task, the message and the artifacts, the latest first."""

    @property
    def finished(self) -> bool:
        """Whether no further result has to be waited for."""
        if self._message is not None:
            return True
        return self.state == "completed" or self.state in _REFUSALS

    @property
    def only_says_done(self) -> bool:
        """Whether nothing came but that the task is completed, as the streams of some servers end
        whose artifacts are in the task alone.
        """
        return self.state == "completed" and not (self._message or self._status or self._artifacts)

    def feed(self, result: object) -> None:
        """Take in one result. Raises `AgentFailure` for one that the protocol does not know."""
        kind, value = _unwrap(result)
        self._take_metadata(value)
        if kind == "message":
            self._message = _parts(value)
        elif kind == "task":
            self._take_task(value)
        elif kind == "status-update":
            self._take_status(value.get("status"))
        else:
            self._take_artifact(value.get("artifact"), append=value.get("append") is True)
        if kind != "message" and isinstance(task_id := value.get("taskId", value.get("id")), str):
            self.task_id = task_id

    def sources(self) -> Sources:
        """Where the answer of a finished reply may be. Raises `AgentFailure` for a refusal."""
        if self.state in _REFUSALS and self._message is None:
            code = _code_in(self._status)
            message = f"the task ended {self.state!r}" + (f" ({code})" if code else "")
            said = quote(" ".join(texts_of(self._status)))
            raise AgentFailure(FailureKind.AGENT_ERROR, message, said=said)
        sources = [*self._artifacts.values()]
        if self._message is not None:
            sources.append(self._message)
        sources.append(self._status)
        return sources

    def _take_metadata(self, holder: Mapping[str, Any]) -> None:
        if isinstance(found := holder.get("metadata"), Mapping):
            self.metadata = [found, *self.metadata[: _MAX_METADATA - 1]]

    def _take_task(self, task: Mapping[str, Any]) -> None:
        artifacts = task.get("artifacts")
        for artifact in artifacts if isinstance(artifacts, list) else ():
            self._take_artifact(artifact, append=False)
        self._take_status(task.get("status"))

    def _take_status(self, status: object) -> None:
        if not isinstance(status, Mapping) or not isinstance(status.get("state"), str):
            raise bad_reply("a task without a state")
        self.state = _normal_state(status["state"])
        if self.state not in (*_UNDERWAY, *_REFUSALS, "completed"):
            raise bad_reply("a task in an unknown state")
        message = status.get("message")
        if isinstance(message, Mapping):
            self._take_metadata(message)
        self._status = _parts(message) if isinstance(message, Mapping) else []

    def _take_artifact(self, artifact: object, *, append: bool) -> None:
        if not isinstance(artifact, Mapping):
            raise bad_reply("an artifact that is not an object")
        self._take_metadata(artifact)
        key = str(artifact.get("artifactId", ""))
        parts = _parts(artifact)
        if append and key in self._artifacts:
            _append(self._artifacts[key], parts)
        elif len(self._artifacts) < _MAX_ARTIFACTS:
            self._artifacts[key] = parts


def bad_reply(what: str) -> AgentFailure:
    """The failure for a reply that breaks the protocol."""
    return AgentFailure(FailureKind.PROTOCOL, f"the agent sent {what}")


def _unwrap(result: object) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(result, Mapping):
        raise bad_reply("a result that is not an object")
    kind = result.get("kind")
    if isinstance(kind, str) and kind in _WRAPPERS.values():
        return kind, result
    for name, wrapped in _WRAPPERS.items():
        if isinstance(result.get(name), Mapping):
            return wrapped, result[name]
    if "messageId" in result:  # agents of 0.2 leave the kind out
        return "message", result
    if "status" in result:
        return "task", result
    raise bad_reply("a result that is neither a task nor a message")


def texts_of(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The texts of parts."""
    for part in parts:
        if isinstance(part.get("text"), str):
            yield part["text"]


def _parts(holder: Mapping[str, Any]) -> Parts:
    parts = holder.get("parts", holder.get("content"))
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []


def _append(parts: Parts, more: Parts) -> None:
    """Add what a stream sent later; a text that came in pieces is one text."""
    if parts and more and _is_text(parts[-1]) and _is_text(more[0]):
        parts[-1] = {**parts[-1], "text": parts[-1]["text"] + more[0]["text"]}
        more = more[1:]
    parts += more


def _is_text(part: Mapping[str, Any]) -> bool:
    return isinstance(part.get("text"), str) and part.get("data") is None


def _normal_state(state: str) -> str:
    plain = state.lower().removeprefix("task_state_").replace("_", "-")
    return "canceled" if plain == "cancelled" else plain


def _code_in(parts: Parts) -> str:
    """A leading code such as INDEX_MISSING; the text after it may hold anything, so it is left."""
    texts = (text.lstrip() for text in texts_of(parts))
    return next((found.group() for text in texts if (found := _CODE.match(text))), "")


class UnknownMethod(AgentFailure):
    """The agent does not know the method: its card may declare the wrong protocol version."""


async def read_response(response: httpx.Response, dialect: Dialect, reply: A2AReply) -> None:
    """Feed `reply` with the response, which may be a stream or not, whatever was asked for."""
    if failure := failure_of_status(response):
        raise await with_server_message(failure, response)
    if _is_stream(response):
        await _read_stream(response, dialect, reply)
    else:
        body = await read_body(response)
        reply.feed(_result_in(body, dialect, response.status_code))


def _is_stream(response: httpx.Response) -> bool:
    kind = str(response.headers.get("content-type", ""))
    return response.status_code == 200 and kind.startswith("text/event-stream")


async def _read_stream(response: httpx.Response, dialect: Dialect, reply: A2AReply) -> None:
    reader = EventReader(MAX_BYTES)
    async with aclosing(read_chunks(response)) as chunks:
        async for chunk in chunks:
            try:
                events = reader.feed(chunk)
            except EventTooLarge:
                raise too_large(MAX_BYTES) from None
            for event in events:
                reply.feed(_result_in(event.data.encode(), dialect, 200))
            if reply.finished:
                await _drain(chunks)
                return
    raise AgentFailure(FailureKind.PROTOCOL, "the stream ended before the task did")


async def _drain(chunks: AsyncGenerator[bytes, None]) -> None:
    """Read the rest of a finished stream, so that its connection can be reused."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except (TimeoutError, httpx.HTTPError, AgentFailure):
        return  # the answer is complete; the connection is closed instead of reused


def _result_in(body: bytes, dialect: Dialect, status: int) -> object:
    """The result inside a body. Raises for an error, whichever of its forms it has."""
    content = parse_object(body)
    if content is not None and isinstance(content.get("error"), dict):
        failure = _failure_in(content["error"], status)
        failure.said = quote(body)
        raise failure
    if status != 200:
        failure = _failure_of(status)
        failure.said = quote(body)
        raise failure
    if content is None:
        raise bad_reply("something that is not a JSON object")
    if dialect.binding != JSON_RPC:
        return content
    if "result" not in content:
        raise bad_reply("a JSON-RPC response with neither 'result' nor 'error'")
    return content["result"]


def _failure_in(error: JsonObject, status: int) -> AgentFailure:
    """By the code: the message may hold anything, a stack trace or the query included."""
    code = error.get("code")
    if code in _UNKNOWN_METHOD:
        return UnknownMethod(FailureKind.PROTOCOL, f"error {code}")
    if status != 200:
        return _failure_of(status)
    if code in _BAD_REQUEST:
        return AgentFailure(FailureKind.PROTOCOL, f"the agent refused the request: error {code}")
    known = isinstance(code, int)
    return AgentFailure(FailureKind.AGENT_ERROR, f"error {code}" if known else "an error, no code")


def _failure_of(status: int) -> AgentFailure:
    if status in (404, 405, 501):
        return UnknownMethod(FailureKind.PROTOCOL, f"HTTP {status}", status=status)
    kind = FailureKind.AGENT_ERROR if status >= 500 else FailureKind.PROTOCOL
    return AgentFailure(kind, f"HTTP {status}", status=status)

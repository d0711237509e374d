"""The four forms of an A2A request: JSON-RPC or HTTP+JSON, version 0.3 or 1.0.

A question always travels as one text part, which holds JSON or the query itself. A data part would
be neater, but the protocol's newer libraries keep its numbers as floats, and 5 would arrive as 5.0.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import quote

import orjson

from assay.net.json import JsonObject

JSON_RPC = "JSONRPC"
HTTP_JSON = "HTTP+JSON"
V03 = "0.3"
V10 = "1.0"

_METHODS = {
    V10: {"send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask"},
    V03: {"send": "message/send", "stream": "message/stream", "get": "tasks/get"},
}


@dataclass(frozen=True, slots=True)
class WireRequest:
    """One HTTP request, ready to be sent."""

    method: str
    url: str
    content: bytes | None
    headers: Mapping[str, str]


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

    def question(self, text: str, *, stream: bool) -> WireRequest:
        """The request that sends `text` as a message of one text part."""
        if self.binding == JSON_RPC:
            message = self._message(text, "parts")
            return self._call("stream" if stream else "send", self._params("message", message))
        # The 0.3 library sends its protobuf form here, which has other names than its JSON-RPC.
        old = self.version == V03
        message = self._message(text, "content" if old else "parts")
        body = self._params("request" if old else "message", message)
        return self._request("POST", "/message:stream" if stream else "/message:send", body)

    def task(self, task_id: str) -> WireRequest:
        """The request for the state of a task that was returned before it was done."""
        if self.binding == JSON_RPC:
            return self._call("get", {**self._tenant(), "id": task_id})
        return self._request("GET", f"/tasks/{quote(task_id, safe='')}", None)

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

    def _call(self, name: str, params: JsonObject) -> WireRequest:
        method = _METHODS[self.version][name]
        call = {"jsonrpc": "2.0", "id": uuid.uuid4().hex, "method": method, "params": params}
        return WireRequest("POST", self.url, orjson.dumps(call), self._headers())

    def _request(self, method: str, path: str, body: JsonObject | None) -> WireRequest:
        content = None if body is None else orjson.dumps(body)
        url = self.url.rstrip("/") + self._path(path)
        return WireRequest(method, url, content, self._headers())

    def _path(self, path: str) -> str:
        if self.version == V03:
            return f"/v1{path}"
        return f"/{quote(self.tenant, safe='')}{path}" if self.tenant else path

    def _headers(self) -> dict[str, str]:
        return {
            "A2A-Version": self.version,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }

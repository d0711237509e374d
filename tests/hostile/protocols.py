"""Valid responses of the hostile agent in each protocol, which a misbehavior then changes.

A protocol is one entry of `PROTOCOLS`. What a misbehavior changes is a `Content`, or the bytes that
come out of here.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from assay.net.json import JsonObject

PLACEHOLDER = "@@"
"""Stands in a `Content` for its `raw`."""

_TOOL = {
    "name": "search",
    "description": "Search the documents.",
    "inputSchema": {
        "type": "object",
        "properties": {"query": {"type": "string"}, "top_k": {"type": "integer"}},
        "required": ["query"],
    },
}


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request that was read to its end. `path` is what follows the name of a misbehavior."""

    method: str
    path: str
    body: JsonObject


@dataclass(frozen=True, slots=True)
class Content:
    """What an answer says, in any protocol; each may have any wrong type.

    `wrap` replaces the whole result, if it is not None; `raw` is JSON that no library would write,
    in the place of each `PLACEHOLDER`.
    """

    ids: Any = ("MED-10", "MED-14")
    score: Any = 0.5
    title: Any = "A study of hypertension"
    text: Any = "Vitamin D did not lower blood pressure."
    answer: Any = "It did not."
    wrap: dict[str, Any] | None = None
    raw: str = ""

    def hits(self, id_field: str) -> Any:
        if not isinstance(self.ids, list | tuple):
            return self.ids
        return [
            {id_field: each, "score": self.score, "title": self.title, "text": self.text}
            for each in self.ids
        ]


@dataclass(frozen=True, slots=True)
class RightAnswer:
    """The right answer to a question: `document` makes the JSON around a `Content`.

    `streamed` is whether the caller asked for a stream: of one event of the name `event`, and what
    ends the stream, `closing`.
    """

    document: Callable[[Content], Any]
    event: str = ""
    streamed: bool = False
    closing: bytes = b""

    def encode(self, content: Content) -> bytes:
        text = json.dumps(self.document(content))
        return text.replace(f'"{PLACEHOLDER}"', content.raw).encode()

    def frame(self, body: bytes) -> bytes:
        name = f"event: {self.event}\n".encode() if self.event else b""
        return name + b"data: " + body + b"\n\n" + self.closing


Greeting = JsonObject | int
"""A response that is no answer: a document, or the status of a response without one."""


def _a2a(request: HttpRequest, _url: str) -> Greeting | RightAnswer:
    method = request.body.get("method")
    if method not in ("SendMessage", "SendStreamingMessage", "message/send", "message/stream"):
        error = {"code": -32601, "message": "unknown method"}
        return {"jsonrpc": "2.0", "id": request.body.get("id"), "error": error}

    def document(content: Content) -> Any:
        data = {"doc_ids": content.ids, "answer": content.answer, "scores": [content.score]}
        data |= {"title": content.title, "text": content.text}
        task = {
            "id": "task-1",
            "contextId": "context-1",
            "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"data": content.wrap or data}]}],
        }
        return {"jsonrpc": "2.0", "id": request.body.get("id"), "result": {"task": task}}

    return RightAnswer(document, streamed=method.lower().endswith(("streamingmessage", "/stream")))


def _contract(request: HttpRequest, _url: str) -> Greeting | RightAnswer:
    streamed = request.path.endswith("/stream")

    def document(content: Content) -> Any:
        outputs: Any = {"chunks": content.hits("doc_id"), "answer": content.answer}
        response: JsonObject = {
            "request_id": request.body.get("request_id"),
            "task_type": request.body.get("task_type"),
            "status": "ok",
            "ok": True,
            "outputs": content.wrap or outputs,
            "artifacts": [],
            "warnings": [],
        }
        return {**response, "type": "complete"} if streamed else response

    return RightAnswer(document, event="complete", streamed=streamed)


def _mcp(request: HttpRequest, _url: str) -> Greeting | RightAnswer:
    method = request.body.get("method", "")
    call = {"jsonrpc": "2.0", "id": request.body.get("id")}
    if request.method != "POST":
        return 405
    if not isinstance(method, str) or method.startswith("notifications/"):
        return 202
    if method == "initialize":
        params = request.body.get("params")
        version = params.get("protocolVersion") if isinstance(params, dict) else None
        info = {"name": "hostile", "version": "1"}
        offered: JsonObject = {"tools": {}}
        made = {"protocolVersion": version, "capabilities": offered, "serverInfo": info}
        return {**call, "result": made}
    if method == "tools/list":
        return {**call, "result": {"tools": [_TOOL]}}
    if method != "tools/call":
        return {**call, "error": {"code": -32601, "message": "unknown method"}}

    def document(content: Content) -> Any:
        found = {"results": content.hits("doc_id"), "generated_answer": content.answer}
        result = {
            "content": [{"type": "text", "text": "see the structured content"}],
            "structuredContent": content.wrap or found,
        }
        return {**call, "result": result}

    return RightAnswer(document, event="message")


def _search(_request: HttpRequest, _url: str) -> Greeting | RightAnswer:
    def document(content: Content) -> Any:
        return content.wrap or {"results": content.hits("id"), "answer": content.answer}

    return RightAnswer(document)


def _chat(request: HttpRequest, _url: str) -> Greeting | RightAnswer:
    streamed = request.body.get("stream") is True

    def document(content: Content) -> Any:
        message = {"role": "assistant", "content": content.answer}
        choice = {"index": 0, "delta" if streamed else "message": message, "finish_reason": "stop"}
        completion = {"id": "chat-1", "choices": [choice], "sources": content.hits("id")}
        return content.wrap or completion

    return RightAnswer(document, streamed=streamed, closing=b"data: [DONE]\n\n")


def _card(_request: HttpRequest, url: str) -> Greeting:
    interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": url}
    return {
        "name": "hostile",
        "version": "1",
        "capabilities": {"streaming": True},
        "supportedInterfaces": [interface],
    }


def _health(_request: HttpRequest, _url: str) -> Greeting:
    return {"status": "ok", "service": "hostile", "ready": True}


Handler = Callable[[HttpRequest, str], Greeting | RightAnswer]

PROTOCOLS: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "/.well-known/agent-card.json", _card),
    ("GET", "/health", _health),
    ("GET", "/health/ready", _health),
    ("POST", "/agents/run/sync", _contract),
    ("POST", "/agents/run/stream", _contract),
    ("POST", "/mcp", _mcp),
    ("GET", "/mcp", _mcp),
    ("DELETE", "/mcp", _mcp),
    ("POST", "/search", _search),
    ("GET", "/search", _search),
    ("POST", "/chat/completions", _chat),
    ("POST", "", _a2a),
)
"""Method and path after the name of the misbehavior, and what answers there."""


def answer_to(request: HttpRequest, url: str) -> Greeting | RightAnswer:
    for method, path, handler in PROTOCOLS:
        if (method, path) == (request.method, request.path.rstrip("/")):
            return handler(request, url)
    return 404

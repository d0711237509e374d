"""An agent of the contract that shares no code with Assay, as strangers write theirs.

`PlainAgent` keeps every rule. Each method is a part that another agent does differently.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send
from tests.contract.tampering import read_body, wait_for_disconnect

Body = dict[str, Any]


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)


def as_json(value: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode())


class PlainAgent:
    """Finds one document, in `seconds` seconds."""

    task = "RAG_RETRIEVE"
    seconds = 0.0

    def health(self) -> Answer:
        return as_json({"status": "ok", "service": "plain"})

    def ready(self) -> Answer:
        return as_json({"status": "ready", "service": "plain", "since": "2026-01-02T10:20:30Z"})

    def result(self, request: Body) -> Body:
        outputs = {"chunks": [{"chunk_id": "d1__chunk_0", "text": "tea"}], "count": 1}
        return self.enveloped(request, "ok", outputs)

    def enveloped(self, request: Body, status: str, outputs: Body) -> Body:
        return {
            "status": status,
            "ok": status != "error",
            "request_id": request["request_id"],
            "task_type": request["task_type"],
            "outputs": outputs,
            "artifacts": [],
            "provenance": {},
            "usage": {"duration_ms": 0},
            "warnings": [],
        }

    def failure(self, request: Body, code: str, message: str) -> Body:
        named = {"request_id": "unknown", "task_type": self.task, **request}
        body = self.enveloped(named, "error", {})
        body["error"] = {"code": code, "message": message}
        return body

    def refusal(self, request: Any) -> Answer | None:
        if not isinstance(request, dict):
            return as_json(self.failure({}, "VALIDATION_ERROR", "no JSON object"), 400)
        known = {key: request[key] for key in ("request_id", "task_type") if request.get(key)}
        if len(known) < 2:
            missing = {key: value for key, value in known.items() if key == "request_id"}
            return as_json(self.failure(missing, "VALIDATION_ERROR", "a field is missing"), 422)
        if not isinstance(request.get("inputs", {}), dict):
            return as_json(self.failure(known, "VALIDATION_ERROR", "inputs is no object"), 422)
        if request["task_type"] != self.task:
            code = "UNSUPPORTED_TASK_TYPE"
            return as_json(self.failure(known, code, "another task"), 400)
        return None

    async def work(self, request: Body) -> Body:
        limit = request.get("budgets", {}).get("timeout_ms")
        try:
            async with asyncio.timeout(limit / 1000 if limit else None):
                await asyncio.sleep(self.seconds)
        except TimeoutError:
            return self.failure(request, "BUDGET_EXCEEDED", "the run took too long")
        return self.result(request)

    async def run(self, request: Body) -> Body:
        if "query" not in request.get("inputs", {}):
            return self.failure(request, "VALIDATION_ERROR", "inputs.query is missing")
        return await self.work(request)

    async def events(self, request: Body) -> AsyncIterator[bytes]:
        started = {"request_id": request["request_id"], "task_type": request["task_type"]}
        yield self.event("started", started)
        yield self.event("final", await self.run(request))

    def event(self, name: str, data: Body) -> bytes:
        return f"event: {name}\ndata: {json.dumps({**data, 'type': name})}\n\n".encode()

    async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
        """What is sent for a request; an iterator is a stream."""
        if not path.startswith("/agents/run/"):
            known = {"/health": self.health, "/health/ready": self.ready}
            return known[path]() if path in known else Answer(404)
        try:
            request = json.loads(content)
        except ValueError:
            request = None
        if refused := self.refusal(request):
            return refused
        return self.events(request) if path.endswith("stream") else as_json(await self.run(request))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = await read_body(receive)
        respond = asyncio.create_task(self._respond(scope["path"], content, send))
        left = asyncio.create_task(wait_for_disconnect(receive))
        await asyncio.wait({respond, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        await self.disconnected(respond)

    async def disconnected(self, respond: "asyncio.Task[None]") -> None:
        respond.cancel()
        await asyncio.gather(respond, return_exceptions=True)

    async def _respond(self, path: str, content: bytes, send: Send) -> None:
        found = await self.answer(path, content)
        stream = not isinstance(found, Answer)
        head = Answer(content_type="text/event-stream") if not isinstance(found, Answer) else found
        headers = [(b"content-type", head.content_type.encode()), *head.headers]
        await send({"type": "http.response.start", "status": head.status, "headers": headers})
        if stream:
            async for piece in found:  # type: ignore[union-attr]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": head.body})

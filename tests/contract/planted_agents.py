"""Strangers' agents, with all the freedom that the contract gives."""

import json
from collections.abc import AsyncIterator
from typing import Any

from tests.contract.plain_agent import Answer, Body, PlainAgent, as_json


class Slow(PlainAgent):
    """No fault yet: runs take long enough for a budget or a client that left to show."""

    seconds = 0.8


class Minimal(PlainAgent):
    """Nothing that is optional: no status, no health, no recommended fields, one event."""

    def health(self) -> Answer:
        return Answer(404)

    ready = health

    def enveloped(self, request: Body, status: str, outputs: Body) -> Body:
        request_id = request["request_id"]
        return {"request_id": request_id, "ok": status != "error", "outputs": outputs}

    async def run(self, request: Body) -> Body:
        ok = "query" in request.get("inputs", {})
        return self.enveloped(request, "ok" if ok else "error", {})

    async def events(self, request: Body) -> AsyncIterator[bytes]:
        found = await self.run(request)
        outcome = {"status": "ended", "task_type": self.task, "success": found.pop("ok")}
        yield f"event: done\ndata: {json.dumps({**found, **outcome})}\n\n".encode()

    def refusal(self, request: Any) -> Answer | None:
        found = super().refusal(request)
        if found is None:
            return None
        request_id = request.get("request_id", "") if isinstance(request, dict) else ""
        return as_json({"request_id": request_id, "ok": False, "outputs": {}, "warnings": []}, 404)


class DataInPlaceOfOutputs(PlainAgent):
    """`data` and `success` in the terminal event, `complete` as its name, no started."""

    async def events(self, request: Body) -> AsyncIterator[bytes]:
        found = await self.run(request)
        found = {**found, "data": found["outputs"], "success": found["ok"]}
        del found["outputs"], found["ok"]
        yield self.event("complete", found)


class FreeFraming(PlainAgent):
    """All that server-sent events allow: comments, ids, retry, CRLF, several data lines."""

    async def events(self, request: Body) -> AsyncIterator[bytes]:
        yield b": hello\r\n\r\nretry: 1000\r\n\r\n"
        yield b"id: 1\r\nevent: started\r\ndata: {}\r\n\r\n"
        for value in ("[1, 2]", "3", '"half"', "null"):
            yield f"event: progress\r\ndata: {value}\r\n\r\n".encode()
        lines = json.dumps(await self.run(request), indent=1).splitlines()
        yield b"event: final\r\n" + b"".join(f"data: {x}\r\n".encode() for x in lines)
        yield b"\r\n"


class TakesEverything(PlainAgent):
    """Any task, any inputs."""

    def refusal(self, request: Any) -> Answer | None:
        required = isinstance(request, dict) and request.get("request_id")
        if not required or "task_type" not in request:
            return super().refusal(request)
        return None

    async def run(self, request: Body) -> Body:
        inputs = request.get("inputs")
        named = {"task_type": "any", **request}
        if isinstance(inputs, dict) and "query" in inputs:
            return self.enveloped(named, "success", {})
        return self.enveloped(named, "ok", {})


class OwnWords(PlainAgent):
    """Further fields and events, own error codes, another 2xx, a JSON dialect."""

    async def answer(self, path: str, content: bytes) -> Answer | AsyncIterator[bytes]:
        found = await super().answer(path, content)
        if isinstance(found, Answer) and found.status == 200 and path.endswith("sync"):
            found.status, found.content_type = 201, "application/vnd.agent+json; charset=utf-8"
        return found

    def failure(self, request: Body, code: str, message: str) -> Body:
        return super().failure(request, f"acme.{code.lower()}", message)

    def result(self, request: Body) -> Body:
        return {**super().result(request), "trace": {"span": 1}, "status": "success"}

    async def events(self, request: Body) -> AsyncIterator[bytes]:
        yield self.event("queued", {})
        async for piece in super().events(request):
            yield piece


PERMITTED: dict[type[PlainAgent], set[str]] = {
    Minimal: {
        *("health", "health-ready", "sync-recommended"),
        *("stream-type", "error-object", "malformed-request"),
    },
    DataInPlaceOfOutputs: set(),
    FreeFraming: {"stream-type", "stream-started"},
    TakesEverything: {"unknown-task-refused", "malformed-request"},
    OwnWords: {"error-code"},
}
"""What the checker notes of each: rules of ours and recommendations, and never a failure."""

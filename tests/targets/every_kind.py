"""One service that is an agent of every kind, and keeps what it was sent."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.contract.tampering import read_body
from tests.serve.serving import serving

from assay.data import Dataset, Document
from assay.targets import Agent, AgentAnswer, open_target
from assay.targets.answer_reader import parse_mapping
from assay.targets.target_kinds import OpenContext, RequestSettings

DATA = Dataset("tiny", {f"d{n}": Document(f"d{n}", "", "") for n in range(9)}, {}, {})

KINDS = {
    "rest": "rest:{url}/search?q={{query}}",
    "openai": "openai:{url}/v1",
    "a2a": "a2a:{url}",
    "http": "http:{url}=RAG_RETRIEVE",
    "mcp": "mcp:{url}/mcp#find",
}
"""Every kind of target that is called over HTTP, by its prefix."""


class Service:
    """Answers `value` in the form of each kind; `sent` are the headers and body of each call.

    With `error`, it answers that in the form that each kind has for one. `broken` responds to
    calls instead of it.
    """

    def __init__(self, value: dict[str, Any], error: str = "") -> None:
        self.value = value
        self.error = error
        self.broken: Response | None = None
        self.sent: list[tuple[dict[str, str], dict[str, Any]]] = []
        server: MCPServer[Any] = MCPServer("every kind")

        @server.tool(structured_output=False)
        async def find(query: str, top_k: int = 5) -> CallToolResult:
            if self.error:
                raise ToolError(self.error)
            text = TextContent(type="text", text=json.dumps(self.value))
            return CallToolResult(content=[text], structured_content=self.value)

        inner = server.streamable_http_app()
        inner.router.routes += [
            Route("/search", self._rest, methods=["GET", "POST"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/.well-known/agent-card.json", self._card),
            Route("/", self._a2a, methods=["GET", "POST"]),
            Route("/health", self._rest),
            Route("/agents/run/sync", self._contract, methods=["POST"]),
        ]
        self._inner: ASGIApp = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        body = await read_body(receive)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.sent.append((headers, json.loads(body) if body else {}))
        if self.broken is not None and (b"coffee" in body or b"coffee" in scope["query_string"]):
            await self.broken(scope, receive, send)
            return
        pending = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return pending.pop() if pending else await receive()

        await self._inner(scope, replay, send)

    async def _rest(self, _request: Request) -> Response:
        return JSONResponse({"error": {"message": self.error}} if self.error else self.value)

    async def _chat(self, _request: Request) -> Response:
        if self.error:
            return JSONResponse({"error": {"message": self.error}})
        message = {"role": "assistant", "content": self.value.get("answer", "")}
        return JSONResponse({**self.value, "choices": [{"message": message}]})

    async def _card(self, request: Request) -> Response:
        url = str(request.base_url)
        interface = {"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": url}
        return JSONResponse({"name": "test", "supportedInterfaces": [interface]})

    async def _a2a(self, request: Request) -> Response:
        call = json.loads(await request.body() or b"{}")
        artifact = {"parts": [{"data": self.value}]}
        status: dict[str, Any] = {"state": "TASK_STATE_COMPLETED"}
        if self.error:
            message = {"parts": [{"text": self.error}]}
            status = {"state": "TASK_STATE_FAILED", "message": message}
        task = {"id": "t", "status": status, "artifacts": [artifact]}
        return JSONResponse({"jsonrpc": "2.0", "id": call.get("id"), "result": {"task": task}})

    async def _contract(self, request: Request) -> Response:
        call = await request.json()
        shared = {"request_id": call["request_id"], "task_type": call["task_type"]}
        if self.error:
            error = {"code": "TASK_FAILED", "message": self.error}
            body = {"status": "error", "ok": False, "outputs": {}, "error": error}
            return JSONResponse({**shared, **body})
        chunks = [
            {"chunk_id": f"{each}__chunk_0", "doc_id": each} for each in self.value["doc_ids"]
        ]
        outputs = {**self.value, "chunks": chunks}
        usage = outputs.pop("usage", {})
        return JSONResponse({**shared, "status": "ok", "outputs": outputs, "usage": usage})


def answering(answer: Response | Callable[[Any, Request], Response]) -> Starlette:
    """An application that gives one answer, which may depend on the body and the request."""

    async def endpoint(request: Request) -> Response:
        body = await request.body()
        if isinstance(answer, Response):
            return answer
        return answer(json.loads(body) if body else None, request)

    return Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST", "PUT"])])


@asynccontextmanager
async def opened_target(target: str, context: OpenContext) -> AsyncIterator[Agent]:
    agent = open_target(target, context)
    try:
        await agent.open()
        yield agent
    finally:
        await agent.close()


@asynccontextmanager
async def opened(
    app: ASGIApp, target: str, *mapping: str, data: Dataset = DATA, **request: Any
) -> AsyncIterator[Agent]:
    """An agent of one of `KINDS`, or of a target in which `{url}` is the address of `app`."""
    settings = RequestSettings(**request)
    context = OpenContext(data, mapping=parse_mapping(mapping), request=settings)
    async with (
        serving(app) as url,
        opened_target(KINDS.get(target, target).format(url=url), context) as agent,
    ):
        yield agent


async def ask(app: ASGIApp, target: str, *mapping: str, **options: Any) -> AgentAnswer:
    async with opened(app, target, *mapping, **options) as agent:
        return await agent.ask("coffee", 5)

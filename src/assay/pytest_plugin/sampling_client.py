"""An MCP client for tests, which offers its server a language model (MCP sampling)."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext, SamplingFnT
from mcp_types import (
    INTERNAL_ERROR,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ErrorData,
    Implementation,
    TextContent,
)

from assay.errors import AgentFailure, FailureKind, ProviderError, TargetError
from assay.llm.providers.opening import CachedProvider
from assay.net.json import JsonObject, parse_object
from assay.pytest_plugin.fixtures import SessionLoop
from assay.targets.mcp_connection import server_of
from assay.targets.target_kinds import parse_target, require_mode

_STOPPED = {"end": "endTurn", "length": "maxTokens"}
_OPEN_SECONDS = 60.0
_CLIENT = Implementation(name="assay-pytest", version="1")


@dataclass(frozen=True, slots=True)
class SamplingClient:
    """An MCP session. `sampling` is the model that the server may call, or None: then the server
    has to answer by its own means.
    """

    client: Client
    loop: SessionLoop
    sampling: str | None

    async def call_tool(self, name: str, arguments: JsonObject | None = None) -> JsonObject:
        """The tool's structured result; `AgentFailure` if the tool answers with an error.

        Skips the test if the server has no such tool: some servers only search.
        """
        if name not in (tools := await self.list_tools()):
            pytest.skip(f"the server has no tool {name!r}; it has: {', '.join(tools)}")
        result = await self.loop.ask(self.client.call_tool, name, arguments or {})
        texts = [part.text for part in result.content if isinstance(part, TextContent)]
        if result.is_error:
            said = texts[0][:500] if texts else "no reason given"
            raise AgentFailure(FailureKind.AGENT_ERROR, f"tool {name!r} failed: {said}")
        value = result.structured_content
        if value is None:
            value = parse_object("".join(texts[:1]).encode())
        if value is None:
            message = f"tool {name!r} returned neither structured content nor a JSON object"
            raise AgentFailure(FailureKind.INVALID_ANSWER, message)
        return dict(value)

    async def list_tools(self) -> list[str]:
        """The names of the server's tools."""
        return [tool.name for tool in (await self.loop.ask(self.client.list_tools)).tools]


@asynccontextmanager
async def connected(
    target: str, dataset: str, provider: CachedProvider | None
) -> AsyncIterator[Client]:
    """A client of the target's server; for a built-in target, of a server in this process."""
    parsed = parse_target(target)
    sampling = None if provider is None else _sampling(provider)
    async with AsyncExitStack() as stack:
        if parsed.kind == "builtin":
            from assay.serve.mcp.search import DocumentSearch
            from assay.serve.mcp.server import mcp_server
            from assay.serve.retrieval import load_retrieval

            mode = parsed.address
            require_mode(mode)
            search = DocumentSearch(lambda progress: load_retrieval(dataset, mode, progress))
            own = Client(mcp_server(search), client_info=_CLIENT, sampling_callback=sampling)
            yield await stack.enter_async_context(own)
            return
        server = server_of(parsed)
        stack.push_async_callback(server.close)
        client = Client(server.connect(), client_info=_CLIENT, sampling_callback=sampling)
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await stack.enter_async_context(client)
        except Exception as error:
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):  # the SDK's nested task groups
                cause = cause.exceptions[0]
            tail = server.stderr_tail
            detail = f"; its stderr ends with: {tail}" if tail else ""
            raise TargetError(
                f"{target}: no MCP session could be opened ({cause!r}){detail}"
            ) from error
        yield client


def _sampling(provider: CachedProvider) -> SamplingFnT:
    async def sample(
        context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        parts = [params.system_prompt or "", *map(_text, params.messages)]
        prompt = "\n\n".join(filter(None, parts))
        try:
            completion = await provider.complete(prompt, params.max_tokens)
        except ProviderError as error:
            return ErrorData(code=INTERNAL_ERROR, message=str(error))
        return CreateMessageResult(
            role="assistant",
            content=TextContent(type="text", text=completion.text),
            model=provider.name,
            stop_reason=_STOPPED[completion.stop_reason],
        )

    return sample


def _text(message: Any) -> str:
    """The text of a message; images and audio are left out."""
    content = message.content
    parts: Sequence[Any] = content if isinstance(content, list) else [content]
    return "\n".join(part.text for part in parts if isinstance(part, TextContent))

"""Asks the client's own model for an answer, where the client offers that (MCP sampling).

Until 2025-11-25 the server sends a request of its own while the tool call is open. From 2026-07-28
on the call ends with a question, and the client calls again with the reply. Sampling is deprecated
since then, so nothing depends on it: every way in which it fails leads to `NoSample`.
"""

from typing import Any

from mcp import MCPError
from mcp.server.mcpserver import Context
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import is_version_at_least
from pydantic import ValidationError

from assay.answer.citations import read_generated
from assay.answer.passages import Answer
from assay.answer.prompt import SYSTEM

_KEY = "answer"
_ASKS_IN_ROUNDS = "2026-07-28"
_SECONDS = 120.0


class NoSample(Exception):
    """The client offered to sample and did not. The message says why, in words safe to show."""


def offers_sampling(ctx: Context[Any, Any]) -> bool:
    capabilities = ctx.client_capabilities
    return capabilities is not None and capabilities.sampling is not None


async def sampled_answer(
    ctx: Context[Any, Any], prompt: str, passages: int, max_tokens: int
) -> Answer | InputRequiredResult:
    """The client's answer, or the question that it has to be asked first."""
    request = _request(prompt, max_tokens)
    if not _asks_in_rounds(ctx):
        return _read(await _ask_now(ctx, request), passages)
    if ctx.input_responses is None:
        return InputRequiredResult(input_requests={_KEY: request})
    reply = ctx.input_responses.get(_KEY)
    if not isinstance(reply, CreateMessageResult):
        raise NoSample("the client's reply holds no message")
    return _read(reply, passages)


def _asks_in_rounds(ctx: Context[Any, Any]) -> bool:
    version = ctx.protocol_version
    return version is not None and is_version_at_least(version, _ASKS_IN_ROUNDS)


async def _ask_now(ctx: Context[Any, Any], request: CreateMessageRequest) -> CreateMessageResult:
    try:
        reply: CreateMessageResult = await ctx.session.send_request(
            request,
            CreateMessageResult,
            request_read_timeout_seconds=_SECONDS,
            metadata=ServerMessageMetadata(related_request_id=ctx.request_id),
        )
    except MCPError as error:  # its message is the client's, and may quote the prompt
        raise NoSample(f"the client refused or failed (code {error.code})") from error
    except ValidationError as error:
        raise NoSample("the client's reply is not what MCP describes") from error
    return reply


def _request(prompt: str, max_tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(
            messages=[message],
            system_prompt=SYSTEM,
            max_tokens=max_tokens,
            temperature=0.0,
            include_context="none",
        )
    )


def _read(reply: CreateMessageResult, passages: int) -> Answer:
    if not isinstance(reply.content, TextContent) or not reply.content.text.strip():
        raise NoSample("the client's model wrote no text")
    return read_generated(
        reply.content.text,
        passages,
        model=reply.model,
        stop_reason=reply.stop_reason or "endTurn",
    )

"""Reads what an agent sent over HTTP: one JSON document or a stream of them, or an error."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

import httpx
import orjson

from assay.agents.a2a.dialect import JSON_RPC, Dialect
from assay.agents.a2a.reply import Reply, bad_reply
from assay.errors import AgentFailure, FailureKind
from assay.net.http import MAX_BYTES, failure_of_status, read_body, read_chunks, too_large
from assay.net.sse import EventReader, EventTooLarge

_UNKNOWN_METHOD = (-32601, -32009)  # the second: this version of the protocol is not supported
_BAD_REQUEST = (-32700, -32600, -32602)
_DRAIN_SECONDS = 0.2


class UnknownMethod(AgentFailure):
    """The agent does not know how it was asked: perhaps its card names the wrong version."""


async def read_response(response: httpx.Response, dialect: Dialect, reply: Reply) -> None:
    """Feed `reply` with what came. An agent may stream or not, whatever it was asked for."""
    if failure := failure_of_status(response):
        raise failure
    if _is_stream(response):
        await _read_stream(response, dialect, reply)
    else:
        body = await read_body(response)
        reply.feed(_result_in(body, dialect, response.status_code))


def _is_stream(response: httpx.Response) -> bool:
    kind = str(response.headers.get("content-type", ""))
    return response.status_code == 200 and kind.startswith("text/event-stream")


async def _read_stream(response: httpx.Response, dialect: Dialect, reply: Reply) -> None:
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
    """Read the end of a stream, which comes at once, so that its connection can be used again."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except (TimeoutError, httpx.HTTPError, AgentFailure):
        return  # the answer is there; whatever goes wrong now is the connection's business


def _result_in(body: bytes, dialect: Dialect, status: int) -> object:
    """The result inside a body. Raise for an error, whichever of its forms it has."""
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError:
        content = None
    if isinstance(content, Mapping) and isinstance(content.get("error"), Mapping):
        raise _failure_in(content["error"], status)
    if status != 200:
        raise _failure_of(status)
    if not isinstance(content, Mapping):
        raise bad_reply("something that is not a JSON object")
    if dialect.binding != JSON_RPC:
        return content
    if "result" not in content:
        raise bad_reply("a JSON-RPC answer with neither 'result' nor 'error'")
    return content["result"]


def _failure_in(error: Mapping[str, Any], status: int) -> AgentFailure:
    """The code alone: its message may hold anything, a stack trace and the query included."""
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
        return UnknownMethod(FailureKind.PROTOCOL, f"HTTP {status}")
    if status >= 500:
        return AgentFailure(FailureKind.AGENT_ERROR, f"HTTP {status}")
    return AgentFailure(FailureKind.PROTOCOL, f"HTTP {status}")

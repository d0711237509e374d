"""One MCP session for a run: opened once, asked by many at a time, opened again when it was lost.

The SDK's client has to be closed by the task that opened it, so a task of its own holds it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from mcp import Client, MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_TIMEOUT,
    CallToolResult,
    Implementation,
    Tool,
)
from pydantic import ValidationError

from assay.agents.mcp.wire import Note, current_note
from assay.errors import AgentFailure, FailureKind, TargetError

Connect = Callable[[], AbstractAsyncContextManager[Any]]
"""A fresh transport each time, for `mcp.Client`."""

_OPEN_SECONDS = 60.0
_CLIENT = Implementation(name="assay", version="1")
_SESSION_GONE = 404
_MOST_TOOL_PAGES = 20


class McpSession:
    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._held: _Held | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> tuple[Client, list[Tool]]:
        """The client and the server's tools; `TargetError` where there is no MCP server."""
        # Its errors quote what did not parse, which may be an answer.
        logging.getLogger("mcp.client").setLevel(logging.CRITICAL + 1)
        try:
            held = await self._alive()
            return held.client, held.tools
        except AgentFailure as failure:
            raise TargetError(str(failure)) from failure

    async def call(self, tool: str, arguments: dict[str, Any]) -> CallToolResult:
        held = await self._alive()
        note = Note()
        current_note.set(note)
        try:
            return await held.client.call_tool(tool, arguments)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED or note.status == _SESSION_GONE:
                held.give_up()
            raise note.failure or _failure_of(error, note) from error
        except ValidationError as error:
            message = "the result is not what MCP describes"
            raise AgentFailure(FailureKind.PROTOCOL, message) from error
        except RuntimeError as error:  # the SDK's word for an output schema that is not kept
            message = f"the result does not fit the output schema of {tool!r}"
            raise AgentFailure(FailureKind.INVALID_ANSWER, message) from error

    async def close(self) -> None:
        if self._held is not None:
            await self._held.close()

    async def _alive(self) -> "_Held":
        async with self._opening:
            if self._held is None or not self._held.is_open:
                if self._held is not None:
                    await self._held.close()
                self._held = _Held(self._connect)
                await self._held.open()
            return self._held


class _Held:
    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[None] | None = None
        self._owner: asyncio.Task[None] | None = None
        self.client: Client
        self.tools: list[Tool]

    @property
    def is_open(self) -> bool:
        opened = self._opened is not None and self._opened.done()
        alive = self._owner is not None and not self._owner.done()
        return opened and alive and not self._closing.is_set()

    async def open(self) -> None:
        self._opened = asyncio.get_running_loop().create_future()
        note = Note()
        current_note.set(note)
        self._owner = asyncio.create_task(self._own(self._opened))
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                await asyncio.shield(self._opened)
        except TimeoutError:
            await self.close()
            message = f"no MCP handshake within {_OPEN_SECONDS:g} s"
            raise AgentFailure(FailureKind.TIMEOUT, message) from None
        except Exception as error:
            raise note.failure or _opening_failure(error) from error

    def give_up(self) -> None:
        """Whoever calls next opens a new one."""
        self._closing.set()

    async def close(self) -> None:
        self._closing.set()
        if self._owner is None:
            return
        if self._opened is not None and not self._opened.done():
            self._owner.cancel()  # still in its handshake, where it does not hear of the closing
        await asyncio.gather(self._owner, return_exceptions=True)

    async def _own(self, opened: "asyncio.Future[None]") -> None:
        try:
            async with Client(self._connect(), client_info=_CLIENT, cache=None) as client:
                self.client, self.tools = client, await _list_tools(client)
                opened.set_result(None)
                await self._closing.wait()
        except Exception as error:
            if not opened.done():
                opened.set_exception(_innermost(error))


async def _list_tools(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(_MOST_TOOL_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


def _innermost(error: BaseException) -> BaseException:
    """The one thing that went wrong inside the SDK's nested task groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _opening_failure(error: Exception) -> AgentFailure:
    if isinstance(error, MCPError):
        return _failure_of(error, Note())
    if isinstance(error, OSError):
        return AgentFailure(FailureKind.CONNECTION, error.strerror or type(error).__name__)
    message = f"what answers there does not speak MCP ({type(error).__name__})"
    return AgentFailure(FailureKind.PROTOCOL, message)


def _failure_of(error: MCPError, note: Note) -> AgentFailure:
    """By its code: the message is the server's, and may quote the query."""
    code = error.code
    if code == CONNECTION_CLOSED:
        return AgentFailure(FailureKind.CONNECTION, "the connection was closed", retryable=True)
    if note.status == _SESSION_GONE:
        return AgentFailure(FailureKind.CONNECTION, "the session is gone", retryable=True)
    if code == REQUEST_TIMEOUT:
        return AgentFailure(FailureKind.TIMEOUT, "the server says that it timed out")
    if code in (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND):
        return AgentFailure(FailureKind.PROTOCOL, f"the server does not speak MCP (code {code})")
    return AgentFailure(FailureKind.AGENT_ERROR, f"the server answered with error {code}")

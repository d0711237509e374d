"""Two ways to an MCP server: an address, or a command that is started and spoken to by pipes."""

import os
import shlex
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import IO, Any, Protocol, TextIO, cast
from urllib.parse import urlsplit

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from assay.agents.mcp.wire import open_http
from assay.agents.target_kinds import Target
from assay.errors import UsageError
from assay.net.http import MAX_BYTES
from assay.net.outbound import split_address

# Secrets of ours, which are not for the server under test.
_KEPT_BACK = ("ASSAY_TOKEN", "ASSAY_ADMIN_TOKEN")
_TAIL = 300


class Server(Protocol):
    def connect(self) -> AbstractAsyncContextManager[Any]:
        """A fresh transport for `mcp.Client`."""
        ...

    def last_words(self) -> str:
        """What the server wrote for people, where it could not be opened."""
        ...

    async def close(self) -> None: ...


class HttpServer:
    """One HTTP client for all its sessions: making one costs more than many calls."""

    def __init__(self, url: str) -> None:
        split_address(url)  # refuses what is no http(s) address
        self._url = url.rstrip("/") + "/mcp" if urlsplit(url).path in ("", "/") else url
        self._http: httpx2.AsyncClient | None = None

    def connect(self) -> AbstractAsyncContextManager[Any]:
        if self._http is None:
            self._http = open_http()
        return streamable_http_client(
            self._url, http_client=self._http, max_sse_event_size=MAX_BYTES
        )

    def last_words(self) -> str:
        return ""

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()


class StdioServer:
    """The command gets our environment, as a shell would give it, and ends with the session."""

    def __init__(self, command: str) -> None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"cannot read the command {command!r}: {error}") from None
        if not words:
            raise UsageError("there is no command; write mcp-stdio:COMMAND, such as 'uvx server'")
        environment = {key: value for key, value in os.environ.items() if key not in _KEPT_BACK}
        self._parameters = StdioServerParameters(
            command=words[0], args=words[1:], env=environment, encoding_error_handler="replace"
        )
        self._last_words = ""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as stderr:
            try:
                errlog = cast(TextIO, stderr)
                async with stdio_client(self._parameters, errlog=errlog) as streams:
                    yield streams
            finally:
                self._last_words = _last_line(stderr)

    def last_words(self) -> str:
        return self._last_words

    async def close(self) -> None:
        pass


def _last_line(stderr: IO[str]) -> str:
    stderr.seek(0)
    lines = [line.strip() for line in stderr if line.strip()]
    return lines[-1][:_TAIL] if lines else ""


def server_of(target: Target) -> Server:
    """The server that a target names: a command for `mcp-stdio:`, else an address."""
    if target.kind == "mcp-stdio":
        return StdioServer(target.address)
    return HttpServer(target.address)

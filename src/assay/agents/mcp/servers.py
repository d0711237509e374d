"""MCP servers that sessions can be opened with: an address, or a command spoken to over pipes."""

import os
import shlex
import tempfile
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import IO, Any, Protocol, TextIO, cast
from urllib.parse import urlsplit

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from assay.agents.mcp.connection import TOKEN_VARIABLE, open_http
from assay.agents.readiness import UNKNOWN, AgentReadiness, ask_readiness, ready_url
from assay.agents.target_kinds import Target
from assay.errors import UsageError
from assay.net.client import open_client, token_for
from assay.net.http import MAX_BYTES
from assay.net.outbound import UNRESTRICTED, OutboundPolicy, split_address
from assay.privacy import is_private

# Secrets of ours, which the server under test does not get.
_WITHHELD = ("ASSAY_TOKEN", "ASSAY_ADMIN_TOKEN")
_STDERR_LENGTH = 300


class Server(Protocol):
    """An MCP server that sessions can be opened with.

    `handshakes` are the ways to open one, in the order in which they are tried: `auto` asks which
    versions the server speaks, `legacy` initializes a session at once.
    """

    @property
    def handshakes(self) -> tuple[str, ...]: ...

    @property
    def advice(self) -> str:
        """What to try if no session can be opened, as the end of a message."""
        ...

    def connect(self) -> AbstractAsyncContextManager[Any]:
        """A fresh transport for `mcp.Client`."""
        ...

    def stderr_tail(self) -> str:
        """The last line that a started command wrote to stderr, if any."""
        ...

    async def readiness(self) -> AgentReadiness:
        """What the server says about itself."""
        ...

    async def close(self) -> None:
        """Release what all sessions share."""
        ...


class HttpServer:
    """A server at an address. One HTTP client serves all sessions: making one is expensive."""

    handshakes: tuple[str, ...] = ("auto",)

    @property
    def advice(self) -> str:
        """The older transport has an address of its own, which is not supported."""
        if urlsplit(self._url).path.rstrip("/").endswith("/sse"):
            return (
                "; /sse is the address of MCP's deprecated transport: start the server with "
                "streamable HTTP, which is usually at /mcp, or as a command with mcp-stdio:"
            )
        return "; is the server running, and is this its address? MCP is usually at /mcp"

    def __init__(self, url: str, policy: OutboundPolicy = UNRESTRICTED) -> None:
        self._policy = policy
        split_address(url)  # raises for anything but an http(s) URL
        self._url = url.rstrip("/") + "/mcp" if urlsplit(url).path in ("", "/") else url
        self._http: httpx2.AsyncClient | None = None

    def connect(self) -> AbstractAsyncContextManager[Any]:
        if self._http is None:
            self._http = open_http(policy=self._policy)
        return streamable_http_client(
            self._url, http_client=self._http, max_sse_event_size=MAX_BYTES
        )

    def stderr_tail(self) -> str:
        return ""

    async def readiness(self) -> AgentReadiness:
        path = urlsplit(self._url).path.rstrip("/").removesuffix("/mcp")
        token = token_for(self._url, self._policy, TOKEN_VARIABLE)
        async with open_client(self._policy, auth=token) as http:
            return await ask_readiness(http, ready_url(self._url, below=path))

    async def close(self) -> None:
        if self._http is not None:
            await self._http.aclose()
            self._http = None


class StdioServer:
    """A command. It gets our environment, as from a shell, and ends with the session."""

    # A question about versions stops servers of the SDK up to 1.8, which then answer nothing.
    handshakes: tuple[str, ...] = ("legacy", "auto")
    advice = ""

    def __init__(self, command: str) -> None:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise UsageError(f"cannot parse the command {command!r}: {error}") from None
        if not words:
            raise UsageError(
                "no command given; write mcp-stdio:COMMAND, such as 'mcp-stdio:uvx server'"
            )
        environment = {key: value for key, value in os.environ.items() if key not in _WITHHELD}
        self._parameters = StdioServerParameters(
            command=words[0], args=words[1:], env=environment, encoding_error_handler="replace"
        )
        self._stderr_tail = ""

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        with _stderr_file() as stderr:
            try:
                errlog = cast(TextIO, stderr)
                async with stdio_client(self._parameters, errlog=errlog) as streams:
                    yield streams
            finally:
                self._stderr_tail = _last_line(stderr)

    def stderr_tail(self) -> str:
        return self._stderr_tail

    async def readiness(self) -> AgentReadiness:
        return UNKNOWN

    async def close(self) -> None:
        pass


def _stderr_file() -> IO[str]:
    """A command may write what it was asked: in private mode that goes nowhere."""
    if is_private():
        return Path(os.devnull).open("w+", encoding="utf-8")
    return tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")


def _last_line(stderr: IO[str]) -> str:
    stderr.seek(0)
    lines = [line.strip() for line in stderr if line.strip()]
    return lines[-1][:_STDERR_LENGTH] if lines else ""


def server_of(target: Target, policy: OutboundPolicy | None = None) -> Server:
    """The server that a target names: a command for `mcp-stdio:`, else an address."""
    if target.kind == "mcp-stdio":
        return StdioServer(target.address)
    return HttpServer(target.address, policy or UNRESTRICTED)

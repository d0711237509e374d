"""Real MCP servers as targets: one session for a run, and every failure by its right name."""

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny
from tests.targets.every_kind import opened_target

from assay.data import Dataset, Document
from assay.errors import AgentFailure, FailureKind, TargetError
from assay.serve.mcp.server import mcp_app
from assay.targets import Agent
from assay.targets.target_kinds import OpenContext

PYTHON = f"mcp-stdio:{sys.executable}"
DATA = Dataset("tiny", {f"MED-{n}": Document(f"MED-{n}", "", "") for n in range(9)}, {}, {})


def opened(target: str) -> AbstractAsyncContextManager[Agent]:
    return opened_target(target, OpenContext(DATA, track="zero-shot"))


def other_app(**options: Any) -> Starlette:
    server: MCPServer[Any] = MCPServer("other")

    @server.tool(structured_output=False)
    async def find_articles(q: str, max_results: int = 10) -> str:
        found = [f'{{"id": "MED-{n}", "rank": {n + 100}}}' for n in (3, 1, 2)]
        return f'{{"articles": [{", ".join(found[:max_results])}]}}'

    @server.tool()
    async def hangs(query: str) -> str:
        await asyncio.Event().wait()
        return ""

    return server.streamable_http_app(**options)


async def test_our_own_server_is_a_target() -> None:
    async with serving(mcp_app(load_tiny)) as url, opened(f"mcp:{url}") as agent:
        assert (await agent.ask("calcium bone", 2)).doc_ids == ("MED-1", "MED-2")
    assert (agent.info.protocol, agent.info.track) == ("mcp", "zero-shot")
    assert "tool 'search_nfcorpus', query as 'query', top_k as 'top_k'" in agent.info.details


@pytest.mark.parametrize("options", [{}, {"json_response": True}, {"stateless_http": True}])
async def test_many_questions_share_one_session(options: dict[str, Any]) -> None:
    app, sessions = other_app(**options), set()

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        async def note(message: Any) -> None:
            sessions.add(dict(message.get("headers", ())).get(b"mcp-session-id"))
            await send(message)

        await app(scope, receive, note)

    async with serving(watched) as url, opened(f"mcp:{url}") as agent:
        answers = await asyncio.gather(*(agent.ask(f"q{n}", 1) for n in range(20)))
    assert {answer.doc_ids for answer in answers} == {("MED-3",)}
    assert len(sessions - {None}) <= 1


async def test_a_call_that_is_given_up_leaves_the_session_usable() -> None:
    async with serving(other_app()) as url, opened(f"mcp:{url}#hangs") as agent:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await agent.ask("x", 1)


@pytest.mark.parametrize("json_response", [True, False])
async def test_a_server_that_is_started_anew_is_spoken_to_again(json_response: bool) -> None:
    """Its sessions are gone; a client of the older era has to open one again."""
    server = serving(legacy_only(other_app(json_response=json_response)))
    url = await server.__aenter__()
    port = int(url.rpartition(":")[2])
    async with opened(f"mcp:{url}") as agent:
        assert (await agent.ask("x", 1)).doc_ids == ("MED-3",)
        await server.__aexit__(None, None, None)
        with pytest.raises(AgentFailure, match=r"connection|session") as gone:
            await agent.ask("x", 1)
        async with serving(legacy_only(other_app(json_response=json_response)), port):
            with pytest.raises(AgentFailure, match="session was closed, or has expired") as expired:
                await agent.ask("x", 1)
            assert (await agent.ask("x", 1)).doc_ids == ("MED-3",)
    for failure in (gone.value, expired.value):
        assert (failure.kind, failure.retryable) == (FailureKind.CONNECTION, True)


def legacy_only(app: ASGIApp) -> ASGIApp:
    async def older(scope: Scope, receive: Receive, send: Send) -> None:
        version = dict(scope.get("headers", ())).get(b"mcp-protocol-version")
        if version == b"2026-07-28":
            await JSONResponse({"error": "unknown version"}, 400)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return older


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("mcp-stdio:no-such-command-here", "No such file.*check what follows mcp-stdio:"),
        (f"{PYTHON} -c 'raise SystemExit(\"no index\")'", "stderr ends with: no index"),
        (f"{PYTHON} -c 'print(1)'", "the session was closed"),
    ],
)
async def test_a_server_that_cannot_be_opened_is_a_target_error(target: str, words: str) -> None:
    with pytest.raises(TargetError, match=words) as caught:
        async with opened(target):
            pass
    assert str(caught.value).startswith(target)


async def test_a_server_that_never_says_hello_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.targets.mcp_connection._OPEN_SECONDS", 0.2)
    with pytest.raises(TargetError, match=r"no MCP handshake within 0\.2 s"):
        async with opened("mcp-stdio:sleep 60"):
            pass


SERVER = """
import os, sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("by-stdio")

@server.tool()
async def search(text: str, n: int = 3) -> list[str]:
    if text == "die":
        os._exit(3)
    print("noise", file=sys.stderr)
    secret = os.environ.get("ASSAY_TOKEN") or os.environ.get("ASSAY_ADMIN_TOKEN")
    return ["MED-1", "MED-2", secret or "MED-5"][:n]

server.run()
"""


@pytest.mark.slow
async def test_a_command_is_started_asked_and_started_again_when_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_TOKEN", "not for servers under test")
    monkeypatch.setenv("ASSAY_ADMIN_TOKEN", "even less for them")
    script = tmp_path / "my server.py"
    script.write_text(SERVER)
    async with opened(f"{PYTHON} '{script}'#search") as agent:
        answers = await asyncio.gather(*(agent.ask(f"q{n}", 3) for n in range(10)))
        assert {answer.doc_ids for answer in answers} == {("MED-1", "MED-2", "MED-5")}
        with pytest.raises(AgentFailure) as caught:
            await agent.ask("die", 3)
        assert (caught.value.kind, caught.value.retryable) == (FailureKind.CONNECTION, True)
        assert (await agent.ask("again", 1)).doc_ids == ("MED-1",)

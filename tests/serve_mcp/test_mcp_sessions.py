"""Sessions of the older era are bounded in number, and dropped when nothing happens in them."""

import asyncio
from typing import Any

import httpx
from mcp import Client
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.serve.mcp.app import mcp_app

HEADERS = {"Accept": "application/json, text/event-stream"}
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    },
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


async def open_session(http: httpx.AsyncClient, url: str) -> httpx.Response:
    return await http.post(f"{url}/mcp", json=HELLO, headers=HEADERS)


async def test_beyond_the_limit_a_session_is_refused_and_the_others_go_on(
    http: httpx.AsyncClient,
) -> None:
    async with serving(mcp_app(load_tiny, max_sessions=2)) as url:
        first = await open_session(http, url)
        await open_session(http, url)
        assert (await open_session(http, url)).status_code == 503
        headers = {**HEADERS, "Mcp-Session-Id": first.headers["mcp-session-id"]}
        assert (await http.post(f"{url}/mcp", json=PING, headers=headers)).status_code == 200
        await http.delete(f"{url}/mcp", headers=headers)
        assert (await open_session(http, url)).status_code == 200


async def test_an_idle_session_is_dropped(http: httpx.AsyncClient) -> None:
    async with serving(mcp_app(load_tiny, session_idle_s=0.05, max_sessions=1)) as url:
        first = await open_session(http, url)
        assert first.status_code == 200
        async with asyncio.timeout(10):
            while (await open_session(http, url)).status_code == 503:
                await asyncio.sleep(0.02)
        headers = {**HEADERS, "Mcp-Session-Id": first.headers["mcp-session-id"]}
        assert (await http.post(f"{url}/mcp", json=PING, headers=headers)).status_code == 404


async def test_clients_of_the_newer_era_take_up_no_session() -> None:
    async with (
        serving(mcp_app(load_tiny, max_sessions=1)) as url,
        Client(f"{url}/mcp", mode="legacy") as old,
        Client(f"{url}/mcp") as new,
    ):
        assert new.protocol_version == "2026-07-28"
        for client in (old, new):
            found = await client.call_tool("search_nfcorpus", {"query": "coffee"})
            assert not found.is_error


async def test_a_client_of_the_first_revision_is_served(url: str, http: httpx.AsyncClient) -> None:
    """2024-11-05 knows neither the version header nor structured content."""
    params = {**HELLO["params"], "protocolVersion": "2024-11-05"}
    opened = await http.post(f"{url}/mcp", json={**HELLO, "params": params}, headers=HEADERS)
    assert '"protocolVersion":"2024-11-05"' in opened.text
    headers = {**HEADERS, "Mcp-Session-Id": opened.headers["mcp-session-id"]}
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await http.post(f"{url}/mcp", json=done, headers=headers)).status_code == 202
    search = {"name": "search_nfcorpus", "arguments": {"query": "coffee"}}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": search}
    assert "MED-3" in (await http.post(f"{url}/mcp", json=call, headers=headers)).text

"""MCP over HTTP and REST beside it: counts, tokens, allowed names, and bounded sessions."""

import asyncio
from typing import Any

import httpx
import pytest
from mcp import Client
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.errors import UsageError
from assay.serve.guards import parse_hosts
from assay.serve.mcp.app import mcp_app

HEADERS = {"Accept": "application/json, text/event-stream"}
PARAMS = {"capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}


async def test_every_search_is_counted(url: str, http: httpx.AsyncClient) -> None:
    async with Client(f"{url}/mcp") as client:
        await client.call_tool("search_nfcorpus", {"query": "coffee"})
        await client.call_tool("nc_semantic_search", {"query": "coffee"})
        await client.call_tool("health_check", {})
    await http.post(f"{url}/search_nfcorpus", json={"query": "coffee"})
    await http.post(f"{url}/search_nfcorpus", json={"query": ""})
    assert (await http.get(f"{url}/stats")).json() == {"search_call_count": 3}


@pytest.mark.parametrize(
    ("tokens", "sent", "status"),
    [
        ({}, "", 403),
        ({"token": "s3cret"}, "s3cret", 403),
        ({"token": "s3cret", "admin_token": "operator"}, "s3cret", 401),
        ({"token": "s3cret", "admin_token": "operator"}, "operator", 200),
    ],
)
async def test_only_the_operator_resets_the_counts(
    http: httpx.AsyncClient, tokens: dict[str, Any], sent: str, status: int
) -> None:
    search = {"Authorization": "Bearer s3cret"}
    async with serving(mcp_app(load_tiny, **tokens)) as url:
        await http.post(f"{url}/search_nfcorpus", json={"query": "coffee"}, headers=search)
        headers = {"Authorization": f"Bearer {sent}"} if sent else {}
        answer = await http.post(f"{url}/stats/reset", headers=headers)
        assert (answer.status_code, "ASSAY_ADMIN_TOKEN" in answer.text) == (status, status == 403)
        count = (await http.get(f"{url}/stats", headers=search)).json()["search_call_count"]
        assert count == (0 if status == 200 else 1)


def test_one_token_for_both_is_refused_at_the_start() -> None:
    with pytest.raises(UsageError, match="ASSAY_ADMIN_TOKEN and ASSAY_TOKEN"):
        mcp_app(load_tiny, token="s3cret", admin_token="s3cret")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/health/canary?canary", 404), ("GET", "/search_nfcorpus?query=canary", 405)],
)
async def test_what_there_is_not_is_refused_as_everything_else(
    url: str, http: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await http.request(method, f"{url}{path}")
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert ("allow" in answer.headers) == (status == 405)
    assert "canary" not in answer.text


async def test_more_names_are_allowed(http: httpx.AsyncClient) -> None:
    hosts = parse_hosts("search.example.org, 10.0.0.7, fd00::1")
    async with serving(mcp_app(load_tiny, hosts=hosts)) as url:
        for host in ("search.example.org:8000", "10.0.0.7", "[fd00::1]:8000"):
            assert (await http.get(f"{url}/stats", headers={"Host": host})).status_code == 200
    with pytest.raises(UsageError, match="is not a host name"):
        parse_hosts("search.example.org, a:80")


async def rpc(
    http: httpx.AsyncClient,
    url: str,
    method: str,
    opened: httpx.Response | None = None,
    **message: Any,
) -> httpx.Response:
    session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]} if opened else {}
    body = {"jsonrpc": "2.0", "method": method, **message}
    return await http.post(f"{url}/mcp", json=body, headers=HEADERS | session)


async def initialize(http: httpx.AsyncClient, url: str, era: str = "2025-11-25") -> httpx.Response:
    params = {"protocolVersion": era, **PARAMS}
    return await rpc(http, url, "initialize", id=1, params=params)


async def test_one_session_too_many_is_refused(http: httpx.AsyncClient) -> None:
    async with serving(mcp_app(load_tiny, max_sessions=2)) as url:
        first = await initialize(http, url)
        await initialize(http, url)
        assert (await initialize(http, url)).status_code == 503
        assert (await rpc(http, url, "ping", first, id=2)).status_code == 200
        ending = {**HEADERS, "Mcp-Session-Id": first.headers["mcp-session-id"]}
        await http.delete(f"{url}/mcp", headers=ending)
        assert (await initialize(http, url)).status_code == 200


async def test_an_idle_session_is_dropped(http: httpx.AsyncClient) -> None:
    async with serving(mcp_app(load_tiny, session_idle_s=0.05, max_sessions=1)) as url:
        first = await initialize(http, url)
        assert first.status_code == 200
        async with asyncio.timeout(10):
            while (await initialize(http, url)).status_code == 503:
                await asyncio.sleep(0.02)
        assert (await rpc(http, url, "ping", first, id=2)).status_code == 404


async def test_a_client_of_the_first_revision_is_served(url: str, http: httpx.AsyncClient) -> None:
    """2024-11-05 knows neither the version header nor structured content."""
    opened = await initialize(http, url, "2024-11-05")
    assert '"protocolVersion":"2024-11-05"' in opened.text
    assert (await rpc(http, url, "notifications/initialized", opened)).status_code == 202
    search = {"name": "search_nfcorpus", "arguments": {"query": "coffee"}}
    assert "MED-3" in (await rpc(http, url, "tools/call", opened, id=2, params=search)).text

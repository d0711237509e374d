"""REST beside MCP: the seed's request, health, counts, and the token that guards them all."""

import httpx
import pytest
from mcp import Client
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.errors import UsageError
from assay.serve.mcp.app import mcp_app


async def test_every_search_is_counted(url: str, http: httpx.AsyncClient) -> None:
    async with Client(f"{url}/mcp") as client:
        await client.call_tool("search_nfcorpus", {"query": "coffee"})
        await client.call_tool("nc_semantic_search", {"query": "coffee"})
        await client.call_tool("health_check", {})
    await http.post(f"{url}/search_nfcorpus", json={"query": "coffee"})
    await http.post(f"{url}/search_nfcorpus", json={"query": ""})
    assert (await http.get(f"{url}/stats")).json() == {"search_call_count": 3}


@pytest.mark.parametrize("token", [None, "s3cret"])
async def test_counts_are_not_reset_where_no_admin_token_is_set(
    http: httpx.AsyncClient, token: str | None
) -> None:
    right = {"Authorization": "Bearer s3cret"}
    async with serving(mcp_app(load_tiny, token=token)) as url:
        await http.post(f"{url}/search_nfcorpus", json={"query": "coffee"}, headers=right)
        for headers in ({}, right, {"Authorization": "Bearer anything"}):
            refused = await http.post(f"{url}/stats/reset", headers=headers)
            assert (refused.status_code, "ASSAY_ADMIN_TOKEN" in refused.text) == (403, True)
        assert (await http.get(f"{url}/stats", headers=right)).json() == {"search_call_count": 1}


def test_one_token_for_both_is_refused_at_the_start() -> None:
    with pytest.raises(UsageError, match="ASSAY_ADMIN_TOKEN and ASSAY_TOKEN are the same"):
        mcp_app(load_tiny, token="s3cret", admin_token="s3cret")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/canary", 404),
        ("POST", "/health/canary?canary", 404),
        ("GET", "/search_nfcorpus?query=canary", 405),
        ("DELETE", "/stats", 405),
    ],
)
async def test_what_there_is_not_is_refused_as_everything_else(
    url: str, http: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await http.request(method, f"{url}{path}")
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert ("allow" in answer.headers) == (status == 405)
    assert "canary" not in answer.text

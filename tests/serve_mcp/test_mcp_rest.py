"""REST beside MCP: the seed's request, health, counts, and the token that guards them all."""

import asyncio
import json
import shlex
import shutil

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.errors import UsageError
from assay.serve.listening import bind
from assay.serve.mcp.app import mcp_app

SEED_CURL = """
curl -X POST http://localhost:8000/search_nfcorpus \
  -H "Content-Type: application/json" \
  -d '{"query": "calcium and bone health", "top_k": 5}'
"""


def port_of_the_specification() -> int:
    """8000, or any other where somebody else listens on it."""
    try:
        with bind("127.0.0.1", 8000):
            return 8000
    except UsageError:
        return 0


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_the_request_of_the_specification_works_word_for_word() -> None:
    async with serving(mcp_app(load_tiny), port_of_the_specification()) as url:
        port = url.rpartition(":")[2]
        process = await asyncio.create_subprocess_exec(
            *shlex.split(SEED_CURL.replace(":8000", f":{port}")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        output, _ = await process.communicate()
    hits = json.loads(output)["results"]
    assert [hit["doc_id"] for hit in hits] == ["MED-1", "MED-2"]
    assert set(hits[0]) == {"doc_id", "score", "title", "text"}


async def test_rest_and_mcp_find_the_same(url: str, http: httpx.AsyncClient) -> None:
    body = {"query": "coffee and calcium", "top_k": 3}
    async with Client(f"{url}/mcp") as client:
        by_mcp = (await client.call_tool("search_nfcorpus", body)).structured_content
    assert (await http.post(f"{url}/search_nfcorpus", json=body)).json() == by_mcp


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_health_check_says_what_is_searched(
    url: str, http: httpx.AsyncClient, method: str
) -> None:
    await http.post(f"{url}/search_nfcorpus", json={"query": "coffee"})
    health = (await http.request(method, f"{url}/health_check")).json()
    assert (health["status"], health["documents"], health["dataset"]) == ("healthy", 5, "tiny")


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


@pytest.mark.parametrize("token", [None, "s3cret"])
async def test_who_may_search_may_not_reset_the_count_of_it(
    http: httpx.AsyncClient, token: str | None
) -> None:
    agent = {"Authorization": "Bearer s3cret"}
    operator = {"Authorization": "Bearer 0perator"}
    async with serving(mcp_app(load_tiny, token=token, admin_token="0perator")) as url:
        await http.post(f"{url}/search_nfcorpus", json={"query": "coffee"}, headers=agent)
        for headers in ({}, agent):
            for path in ("/stats/reset", "/stats/reset/", "/stats%2Freset"):
                refused = await http.post(f"{url}{path}", headers=headers, follow_redirects=True)
                assert refused.status_code in (401, 404)
        count = await http.get(f"{url}/stats", headers=agent)
        assert count.json() == {"search_call_count": 1}
        done = await http.post(f"{url}/stats/reset", headers=operator)
        assert (done.status_code, done.json()) == (200, {"search_call_count": 0})
        count = await http.get(f"{url}/stats", headers=agent)
        assert count.json() == {"search_call_count": 0}


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


@pytest.mark.parametrize("token", [None, "wrong", "s3cre"])
async def test_without_the_token_nothing_is_given_out(
    http: httpx.AsyncClient, token: str | None
) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with serving(mcp_app(load_tiny, token="s3cret")) as url:
        for method, path in [
            ("POST", "/search_nfcorpus"),
            ("POST", "/mcp"),
            ("GET", "/mcp"),
            ("GET", "/stats"),
            ("GET", "/health_check"),
            ("POST", "/health"),
        ]:
            answer = await http.request(
                method, f"{url}{path}", json={"query": "coffee"}, headers=headers
            )
            assert (path, answer.status_code) == (path, 401)
        assert (await http.get(f"{url}/health")).status_code == 200


async def test_with_the_token_mcp_works() -> None:
    headers = {"Authorization": "Bearer s3cret"}
    async with (
        serving(mcp_app(load_tiny, token="s3cret")) as url,
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
    ):
        found = await client.call_tool("search_nfcorpus", {"query": "coffee"})
    assert "MED-3" in str(found.structured_content)

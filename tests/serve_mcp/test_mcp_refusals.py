"""Bad input is refused with a sentence that says what is wrong."""

from typing import Any

import httpx
import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.errors import UsageError
from assay.serve.guards import parse_hosts
from assay.serve.mcp.app import mcp_app

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])

BAD_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({}, "query: field required"),
    ({"query": ["canary"]}, "query: input should be a valid string"),
    ({"query": " \x1c\x9f "}, "query: string should have at least 1 character"),
    ({"query": "canary" * 170_000}, "query: string should have at most 10000 characters"),
    ({"query": "x", "top_k": 101}, "top_k: input should be less than or equal to 100"),
    ({"query": "x", "top_k": True}, "top_k: input should be a valid integer"),
    ({"query": "x", "top_k": 2.5}, "top_k: input should be a valid integer"),
]
SHOWN = [str(arguments)[:30] for arguments, _ in BAD_ARGUMENTS]


@ERAS
@pytest.mark.parametrize(("arguments", "words"), BAD_ARGUMENTS, ids=SHOWN)
async def test_wrong_arguments_are_named_and_not_repeated(
    url: str, http: httpx.AsyncClient, mode: str, arguments: dict[str, Any], words: str
) -> None:
    async with Client(f"{url}/mcp", mode=mode) as client:
        result = await client.call_tool("search_nfcorpus", arguments)
    rest = await http.post(f"{url}/search_nfcorpus", json=arguments)
    assert (result.is_error, rest.status_code) == (True, 422)
    for said in (str(result.content), rest.json()["error"]):
        assert words in said


@ERAS
async def test_what_there_is_not_is_an_error_of_the_protocol(url: str, mode: str) -> None:
    async with Client(f"{url}/mcp", mode=mode) as client:
        with pytest.raises(MCPError, match="there is no such tool") as caught:
            await client.call_tool("canary", {})
        assert caught.value.code == INVALID_PARAMS
        for uri in ("doc://canary", "canary://a/b", "doc://canary/../x", "canary"):
            with pytest.raises(MCPError, match="unknown document") as caught:
                await client.read_resource(uri)
            assert caught.value.code == INVALID_PARAMS


async def test_the_operator_allows_more_names(http: httpx.AsyncClient) -> None:
    hosts = parse_hosts("search.example.org, 10.0.0.7, fd00::1")
    async with serving(mcp_app(load_tiny, hosts=hosts)) as url:
        for host in ("search.example.org:8000", "10.0.0.7", "[fd00::1]:8000"):
            answer = await http.get(f"{url}/stats", headers={"Host": host})
            assert answer.status_code == 200
    async with serving(mcp_app(load_tiny, hosts=["*"])) as url:
        answer = await http.get(f"{url}/stats", headers={"Host": "anything.example"})
        assert answer.status_code == 200


@pytest.mark.parametrize("entry", ["a:80", "http://a", "a/b", "u@a", "a b"])
def test_a_name_that_is_none_is_refused_at_the_start(entry: str) -> None:
    with pytest.raises(UsageError, match="is not a host name"):
        parse_hosts(f"search.example.org, {entry}")

"""What clients find over MCP and REST: tools, cited answers, counts, bounded sessions."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.session import ClientRequestContext, SamplingFnT
from mcp_types import (
    INVALID_PARAMS,
    CreateMessageRequestParams,
    CreateMessageResult,
    TextContent,
    TextResourceContents,
)
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.errors import DataError, UsageError
from assay.llm.passages import NOT_FOUND
from assay.progress import Progress
from assay.serve.guards import parse_hosts
from assay.serve.mcp.server import mcp_app
from assay.serve.retrieval import Retrieval

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


async def structured(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result.structured_content, dict), result.content
    return result.structured_content


@ERAS
async def test_a_search_gives_ranked_documents_and_its_progress(url: str, mode: str) -> None:
    steps: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total, message))

    async with Client(f"{url}/mcp", mode=mode) as client:
        result = await client.call_tool(
            "search_nfcorpus", {"query": "calcium and bone", "top_k": 2}, progress_callback=note
        )
    assert result.structured_content is not None
    hits = result.structured_content["results"]
    assert [hit["doc_id"] for hit in hits] == ["MED-1", "MED-2"]
    assert set(hits[0]) == {"doc_id", "score", "title", "text"}
    assert 1 >= hits[0]["score"] >= hits[1]["score"] >= 0
    assert isinstance(result.content[0], TextContent)
    assert '"MED-1"' in result.content[0].text
    assert steps == [(0, 1, "searching"), (1, 1, "done")]


@ERAS
async def test_documents_can_be_read_by_their_id(url: str, mode: str) -> None:
    async with Client(f"{url}/mcp", mode=mode) as client:
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["doc://{id}"]
        for uri, begins in (
            ("doc://MED-1", "Calcium and bone density\n\nCalcium supplements"),
            ("doc://..%2Fb%20%3F", "A document whose id"),
        ):
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents)
            assert content.text.startswith(begins)


async def test_calls_wait_while_the_documents_load(http: httpx.AsyncClient) -> None:
    may_load = asyncio.Event()

    async def slow(progress: Progress) -> Retrieval:
        progress("indexing", 3, 10)
        await may_load.wait()
        return await load_tiny(progress)

    async with serving(mcp_app(slow)) as url, Client(f"{url}/mcp") as client:
        assert (await http.get(f"{url}/health/ready")).status_code == 503
        health = await structured(client, "health_check")
        assert (health["status"], health["ready"]) == ("loading", False)
        status = await structured(client, "nc_get_vector_sync_status")
        assert (status["status"], status["pending_count"]) == ("syncing", 7)
        waiting = asyncio.create_task(structured(client, "search_nfcorpus", query="coffee"))
        may_load.set()
        assert (await waiting)["results"][0]["doc_id"] == "MED-3"
        status = await structured(client, "nc_get_vector_sync_status")
        assert status == {
            "indexed_documents": 5,
            "indexed_chunks": 5,
            "pending_count": 0,
            "status": "idle",
            "enabled": True,
        }
        assert (await http.get(f"{url}/health/ready")).status_code == 200


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DataError("corpus.jsonl is empty"), "could not be loaded: corpus.jsonl is empty"),
        (ZeroDivisionError("a secret"), "the documents could not be loaded"),
    ],
)
async def test_a_failed_load(http: httpx.AsyncClient, error: Exception, words: str) -> None:
    async def broken(_progress: Progress) -> Retrieval:
        raise error

    async with serving(mcp_app(broken)) as url, Client(f"{url}/mcp") as client:
        result = await client.call_tool("search_nfcorpus", {"query": "coffee"})
        assert result.is_error
        assert words in str(result.content)
        assert "secret" not in str(result.content)
        rest = await http.post(f"{url}/search_nfcorpus", json={"query": "coffee"})
        assert (rest.status_code, words in rest.text) == (503, True)
        assert (await http.get(f"{url}/health_check")).json()["status"] == "unhealthy"
        status = await structured(client, "nc_get_vector_sync_status")
        assert (status["status"], status["enabled"]) == ("disabled", False)


@ERAS
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "query: field required"),
        ({"query": " \x1c\x9f "}, "query: string should have at least 1 character"),
        ({"query": "canary" * 170_000}, "query: string should have at most 10000 characters"),
        ({"query": "x", "top_k": 101}, "top_k: input should be less than or equal to 100"),
        ({"query": "x", "top_k": 2.5}, "top_k: input should be a valid integer"),
    ],
    ids=lambda value: str(value)[:30],
)
async def test_wrong_arguments_are_named_and_not_repeated(
    url: str, http: httpx.AsyncClient, mode: str, arguments: dict[str, Any], words: str
) -> None:
    async with Client(f"{url}/mcp", mode=mode) as client:
        result = await client.call_tool("search_nfcorpus", arguments)
    rest = await http.post(f"{url}/search_nfcorpus", json=arguments)
    assert (result.is_error, rest.status_code) == (True, 422)
    for said in (str(result.content), rest.json()["error"]):
        assert words in said
        assert "canary" not in said


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


# --- answers --------------------------------------------------------------------------------------

QUESTION = "does calcium slow the loss of bone"


async def ask(
    url: str, mode: str, question: str, sampling: SamplingFnT | None = None, **more: Any
) -> dict[str, Any]:
    async with Client(f"{url}/mcp", mode=mode, sampling_callback=sampling) as client:
        return await structured(client, "nc_semantic_search_answer", query=question, **more)


def replying(text: str, seen: list[CreateMessageRequestParams] | None = None) -> SamplingFnT:
    async def reply(
        context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        if seen is not None:
            seen.append(params)
        content = TextContent(type="text", text=text)
        return CreateMessageResult(
            role="assistant", content=content, model="a-model", stop_reason="endTurn"
        )

    return reply


@ERAS
@pytest.mark.parametrize(
    ("reply", "text", "citations", "total", "warnings"),
    [
        ("Yes, it does [1].", "Yes, it does [1].", ["MED-1"], 2, []),
        ("Yes [1, 9], certainly [12].", "Yes [1], certainly.", ["MED-1"], 2, ["[9], [12]"]),
        ("NOT FOUND", NOT_FOUND, [], 0, []),
    ],
)
async def test_a_client_that_samples_writes_the_answer_from_one_search(
    url: str,
    http: httpx.AsyncClient,
    mode: str,
    reply: str,
    text: str,
    citations: list[str],
    total: int,
    warnings: list[str],
) -> None:
    seen: list[CreateMessageRequestParams] = []
    answer = await ask(url, mode, QUESTION, replying(reply, seen), max_answer_tokens=77)
    assert (answer["generated_answer"], answer["citations"]) == (text, citations)
    assert [source["id"] for source in answer["sources"]] == ["MED-1", "MED-2"]
    assert answer["total_found"] == total
    assert [each.rpartition("removed: ")[2] for each in answer["warnings"]] == warnings
    assert (answer["search_method"], answer["model_used"]) == ("bm25+sampling", "a-model")
    assert answer["stop_reason"] == "endTurn"
    assert [params.max_tokens for params in seen] == [77]
    assert (await http.get(f"{url}/stats")).json() == {"search_call_count": 1}


@ERAS
@pytest.mark.parametrize(
    ("question", "text", "citations"),
    [
        (QUESTION, "slow the loss of bone in older women. [1]", ["MED-1"]),
        ("What is the capital of Mongolia?", NOT_FOUND, []),
        ("the of", NOT_FOUND, []),
    ],
)
async def test_without_sampling_the_server_quotes_or_declines(
    url: str, mode: str, question: str, text: str, citations: list[str]
) -> None:
    answer = await ask(url, mode, question)
    assert text in answer["generated_answer"]
    assert answer["citations"][:1] == citations
    assert answer["search_method"].startswith("bm25")
    assert (answer["total_found"] > 0) == bool(citations)


@ERAS
async def test_stdio_serves_either_era_and_logs_no_query(tmp_path: Path, mode: str) -> None:
    arguments = ["-m", "assay", "serve", "mcp", "--stdio", "--mode", "bm25", "--dataset", "notes"]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    query = "allotment club annual meeting canary"
    with (tmp_path / "stderr").open("w+") as stderr:
        transport = stdio_client(command, errlog=stderr)
        sampling = replying("In March [1].")
        async with Client(transport, mode=mode, sampling_callback=sampling) as client:
            found = await structured(client, "search_nfcorpus", query=query)
            answer = await structured(client, "nc_semantic_search_answer", query=query)
            assert (await client.read_resource("doc://note-003")).contents
    assert "note-003" in str(found)
    assert answer["search_method"] == "bm25+sampling"
    assert answer["generated_answer"] == "In March [1]."
    assert "canary" not in (tmp_path / "stderr").read_text()


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

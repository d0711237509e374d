"""What a client of either era finds: tools, documents, a prompt, and answers while it loads."""

import asyncio
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp_types import TextContent, TextResourceContents
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.errors import DataError
from assay.progress import Progress
from assay.serve.mcp.app import mcp_app
from assay.serve.retrieval import Retrieval

ERAS = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])


@ERAS
async def test_every_tool_declares_what_it_takes_and_gives(url: str, mode: str) -> None:
    async with Client(f"{url}/mcp", mode=mode) as client:
        tools = (await client.list_tools()).tools
    assert len(tools) == 5
    for tool in tools:
        assert tool.output_schema is not None
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.description
        assert tool.title


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
        read = await client.read_resource("doc://MED-1")
        odd = await client.read_resource("doc://..%2Fb%20%3F")
        with pytest.raises(Exception, match="unknown document"):
            await client.read_resource("doc://MED-99")
    assert isinstance(read.contents[0], TextResourceContents)
    assert read.contents[0].text.startswith("Calcium and bone density\n\nCalcium supplements")
    assert isinstance(odd.contents[0], TextResourceContents)
    assert odd.contents[0].text.startswith("A document whose id")


async def test_semantic_search_speaks_the_words_of_nextcloud(url: str) -> None:
    async with Client(f"{url}/mcp") as client:
        every = await _structured(client, "nc_semantic_search", query="calcium bone")
        good = await _structured(
            client, "nc_semantic_search", query="calcium bone", score_threshold=0.5
        )
    assert [hit["id"] for hit in every["results"]] == ["MED-1", "MED-2"]
    note = every["results"][0]
    assert (note["doc_type"], note["category"]) == ("note", "")
    assert (note["chunk_index"], note["total_chunks"]) == (0, 1)
    assert (every["success"], every["total_found"]) == (True, 2)
    assert (every["query"], every["search_method"]) == ("calcium bone", "bm25")
    assert [hit["id"] for hit in good["results"]] == ["MED-1"]


async def test_calls_wait_while_the_documents_load(http: httpx.AsyncClient) -> None:
    may_load = asyncio.Event()

    async def slow(progress: Progress) -> Retrieval:
        progress("indexing", 3, 10)
        await may_load.wait()
        return await load_tiny(progress)

    async with serving(mcp_app(slow)) as url, Client(f"{url}/mcp") as client:
        assert (await http.get(f"{url}/health")).status_code == 200
        assert (await http.get(f"{url}/health/ready")).status_code == 503
        health = await _structured(client, "health_check")
        assert (health["status"], health["ready"]) == ("loading", False)
        status = await _structured(client, "nc_get_vector_sync_status")
        assert (status["status"], status["pending_count"]) == ("syncing", 7)
        waiting = asyncio.create_task(_structured(client, "search_nfcorpus", query="coffee"))
        may_load.set()
        assert (await waiting)["results"][0]["doc_id"] == "MED-3"
        status = await _structured(client, "nc_get_vector_sync_status")
        assert (status["status"], status["pending_count"], status["enabled"]) == ("idle", 0, True)
        assert (status["indexed_documents"], status["indexed_chunks"]) == (5, 5)
        assert (await http.get(f"{url}/health/ready")).status_code == 200


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (DataError("corpus.jsonl is empty"), "could not be loaded: corpus.jsonl is empty"),
        (ZeroDivisionError("a secret"), "the documents could not be loaded"),
    ],
)
async def test_documents_that_do_not_load_are_reported_in_our_words(
    http: httpx.AsyncClient, error: Exception, words: str
) -> None:
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
        status = await _structured(client, "nc_get_vector_sync_status")
        assert (status["status"], status["enabled"]) == ("disabled", False)


async def _structured(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result.structured_content, dict), result.content
    return result.structured_content

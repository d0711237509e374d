"""Servers as their clients meet them: raw HTTP, and MCP by its own library."""

import json
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client
from tests.serve.serving import NEW, request_0_3, request_1_0
from tests.system.running import serving

NOTES = ("--dataset", "notes")
BM25 = (*NOTES, "--mode", "bm25")
SERVERS = {
    "purple": ("purple", *BM25),
    "mcp": ("mcp", *BM25),
    "green": ("green", *NOTES),
    "agent": ("agent", "RAG_RETRIEVE", *BM25),
    "ui": ("ui",),
}
QUERY = "allotment club annual meeting"
FOUND = "note-003"
REFERENCE = {"query": QUERY, "top_k": 3}


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The five servers, each a process of `assay serve`."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(serving(*command, folder=tmp_path_factory.mktemp(name)))
            for name, command in SERVERS.items()
        }


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=60) as client:
        yield client


@pytest.mark.parametrize("name", SERVERS)
def test_health_at_once_and_readiness(http: httpx.Client, urls: dict[str, str], name: str) -> None:
    assert http.get(f"{urls[name]}/health").status_code == 200
    ready = http.get(f"{urls[name]}/health/ready")
    assert ready.status_code in (200, 503)


# A2A


@pytest.mark.parametrize("path", ["/", "/.well-known/agent-card.json", "/.well-known/agent.json"])
@pytest.mark.parametrize(
    ("name", "title", "skill"),
    [
        ("purple", "NFCorpus Retrieval Agent", "nfcorpus_retrieval"),
        ("green", "NFCorpus Retrieval Evaluator", "nfcorpus_retrieval_eval"),
    ],
)
def test_the_card(
    http: httpx.Client, urls: dict[str, str], path: str, name: str, title: str, skill: str
) -> None:
    card = http.get(urls[name] + path).json()
    assert (card["name"], card["skills"][0]["id"]) == (title, skill)
    assert card["url"].rstrip("/") == urls[name]
    assert card["supportedInterfaces"][0]["url"].rstrip("/") == urls[name]


@pytest.mark.parametrize("data", [False, True])
def test_purple_answers_a2a_0_3(http: httpx.Client, urls: dict[str, str], data: bool) -> None:
    reply = http.post(urls["purple"], json=request_0_3(REFERENCE, as_data=data)).json()
    task = reply["result"]
    assert (task["kind"], task["status"]["state"]) == ("task", "completed")
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "retrieval_results"
    (part,) = artifact["parts"]
    assert part["kind"] == "data"
    assert part["data"]["doc_ids"][0] == FOUND
    assert len(part["data"]["doc_ids"]) == 3


@pytest.mark.parametrize("data", [False, True])
def test_purple_answers_a2a_1_0(http: httpx.Client, urls: dict[str, str], data: bool) -> None:
    reply = http.post(urls["purple"], json=request_1_0(REFERENCE, as_data=data), headers=NEW).json()
    task = reply["result"]["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "retrieval_results"
    assert artifact["parts"][0]["data"]["doc_ids"][0] == FOUND


def events_of(http: httpx.Client, url: str, body: Any, **headers: str) -> list[Any]:
    with http.stream("POST", url, json=body, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in answer.iter_lines() if line.startswith("data:")]
    return [json.loads(line.removeprefix("data:")) for line in lines]


def test_purple_streams_a2a_0_3(http: httpx.Client, urls: dict[str, str]) -> None:
    events = events_of(http, urls["purple"], request_0_3(REFERENCE, "message/stream"))
    results = [event["result"] for event in events]
    assert [each["kind"] for each in results].count("artifact-update") == 1
    assert results[-1]["kind"] == "status-update"
    assert (results[-1]["final"], results[-1]["status"]["state"]) == (True, "completed")


def test_purple_streams_a2a_1_0(http: httpx.Client, urls: dict[str, str]) -> None:
    body = request_1_0(REFERENCE, "SendStreamingMessage")
    events = events_of(http, urls["purple"], body, **NEW)
    results = [event["result"] for event in events]
    assert sum("artifactUpdate" in each for each in results) == 1
    assert results[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize(
    ("name", "state", "content"),
    [
        ("purple", "failed", {"nonsense": 1}),
        ("purple", "failed", []),
        ("green", "rejected", {"nonsense": 1}),
        ("green", "rejected", []),
        ("green", "rejected", "text"),
    ],
)
def test_an_invalid_request_ends_its_task(
    http: httpx.Client, urls: dict[str, str], name: str, state: str, content: Any
) -> None:
    task = http.post(urls[name], json=request_0_3(content)).json()["result"]
    assert task["status"]["state"] == state
    assert task["status"]["message"]["parts"]


# Green: evaluation over A2A and REST


def order(urls: dict[str, str], **config: Any) -> dict[str, Any]:
    return {"participants": {"retrieval_agent": urls["purple"]}, "config": config}


def test_green_evaluates_over_a2a(http: httpx.Client, urls: dict[str, str]) -> None:
    body = request_0_3(order(urls, num_queries=3, random_seed=7, top_k=10, unknown=1))
    task = http.post(urls["green"], json=body).json()["result"]
    assert task["status"]["state"] == "completed"
    (artifact,) = [each for each in task["artifacts"] if each["name"] == "Evaluation Results"]
    assert [part["kind"] for part in artifact["parts"]] == ["text", "data"]
    with pytest.raises(json.JSONDecodeError):  # a platform would take it for a second result
        json.loads(artifact["parts"][0]["text"])
    check_report(artifact["parts"][1]["data"], queries=3, k=10, seed=7)


def check_report(report: Any, queries: int, k: int, seed: int) -> None:
    names = [f"{part}_ndcg_at_{k}" for part in ("mean", "median", "std", "min", "max")]
    names += [f"mean_{name}_at_{k}" for name in ("mrr", "precision", "recall")]
    names += ["successful_queries", "failed_queries", "success_rate"]
    names += ["total_time_seconds", "queries_per_second"]
    assert set(names) <= set(report["summary"])
    assert report["summary"]["total_queries"] == len(report["per_query_results"]) == queries
    row = {"query_id", "query_text", "retrieved_docs", "relevant_docs_retrieved"}
    row |= {"total_relevant_docs"}
    row |= {f"{name}_at_{k}" for name in ("ndcg", "mrr", "precision", "recall")}
    assert all(row <= set(each) for each in report["per_query_results"])
    assert report["random_seed_used"] == seed
    assert report["metrics"][f"ndcg@{k}"] == report["summary"][f"mean_ndcg_at_{k}"]


def test_green_evaluates_over_rest(http: httpx.Client, urls: dict[str, str]) -> None:
    started = http.post(f"{urls['green']}/tasks", json=order(urls, num_queries=2))
    assert started.status_code == 202
    where = urls["green"] + started.headers["location"]
    with http.stream("GET", f"{where}/events") as events:
        lines = [line for line in events.iter_lines() if line.startswith("data: ")]
    check_report(json.loads(lines[-1].removeprefix("data: "))["report"], queries=2, k=5, seed=42)
    shown = http.get(where).json()
    assert shown == json.loads(lines[-1].removeprefix("data: "))
    assert (shown["state"], shown["done"], shown["total"]) == ("completed", 2, 2)


@pytest.mark.parametrize("agents", [{}, {"retrieval_agent": "http://x"}])
def test_green_refuses_over_rest(http: httpx.Client, urls: dict[str, str], agents: Any) -> None:
    body = {"participants": agents, "config": {"top_k": 0}}
    refused = http.post(f"{urls['green']}/tasks", json=body)
    assert (refused.status_code, refused.json()["error"] != "") == (422, True)
    assert http.delete(f"{urls['green']}/tasks/none").status_code == 404


# MCP


async def test_mcp_by_its_client(urls: dict[str, str]) -> None:
    async with (
        streamable_http_client(f"{urls['mcp']}/mcp") as (read, write, *_),
        mcp.ClientSession(read, write) as session,
    ):
        await session.initialize()
        tools = {tool.name for tool in (await session.list_tools()).tools}
        assert {"search_nfcorpus", "health_check", "nc_semantic_search"} <= tools
        assert {"nc_semantic_search_answer", "nc_get_vector_sync_status"} <= tools
        found = await value(session, "search_nfcorpus", REFERENCE)
        assert found["results"][0]["doc_id"] == FOUND
        assert all({"doc_id", "score", "title", "text"} <= set(hit) for hit in found["results"])
        scores = [hit["score"] for hit in found["results"]]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        notes = await value(session, "nc_semantic_search", {"query": QUERY, "limit": 2})
        assert (notes["success"], len(notes["results"])) == (True, 2)
        keys = {"id", "doc_type", "title", "category", "excerpt", "score", "chunk_index"}
        assert keys | {"total_chunks"} <= set(notes["results"][0])
        said = await value(session, "nc_semantic_search_answer", {"query": QUERY})
        assert {"generated_answer", "sources", "total_found", "search_method"} <= set(said)
        status = await value(session, "nc_get_vector_sync_status", {})
        assert {"indexed_documents", "indexed_chunks", "pending_count", "status"} <= set(status)
        assert (await session.call_tool("search_nfcorpus", {"query": ""})).model_dump(
            by_alias=True
        )["isError"]


async def value(session: mcp.ClientSession, tool: str, arguments: dict[str, Any]) -> Any:
    result = await session.call_tool(tool, arguments)
    return result.model_dump(by_alias=True)["structuredContent"]


def test_rest_beside_mcp(http: httpx.Client, urls: dict[str, str]) -> None:
    found = http.post(f"{urls['mcp']}/search_nfcorpus", json=REFERENCE).json()
    assert found["results"][0]["doc_id"] == FOUND
    for method in ("GET", "POST"):
        assert http.request(method, f"{urls['mcp']}/health_check").status_code == 200
    assert http.get(f"{urls['mcp']}/stats").json()["search_call_count"] >= 1


# The agent HTTP contract; the rest of it is in test_contract_document.py


@pytest.mark.parametrize("inputs", [{"query": QUERY, "topK": 2}, {"query_text": QUERY, "top_k": 2}])
def test_a_contract_run(http: httpx.Client, urls: dict[str, str], inputs: Any) -> None:
    sent = {"request_id": uuid.uuid4().hex, "task_type": "RAG_RETRIEVE", "inputs": inputs}
    body = http.post(f"{urls['agent']}/agents/run/sync", json=sent).json()
    outputs = body["outputs"]
    assert outputs["count"] == outputs["chunk_count"] == 2
    assert outputs["chunks"][0]["doc_id"] == FOUND
    assert {"groundingPack", "retrieval_trace", "citation_count"} <= set(outputs)
    assert body["artifacts"] == [chunk["chunk_id"] for chunk in outputs["chunks"]]
    assert body["usage"]["duration_ms"] >= 0
    assert body["grounding"]["chunks"]

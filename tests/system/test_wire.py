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
    """The data of each event of a stream."""
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
    """The shape of an EvaluationReport."""
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


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"participants": {}},
        {"participants": {"retrieval_agent": "http://x"}, "config": {"top_k": 0}},
    ],
)
def test_green_refuses_over_rest(http: httpx.Client, urls: dict[str, str], body: Any) -> None:
    refused = http.post(f"{urls['green']}/tasks", json=body)
    assert (refused.status_code, refused.json()["error"] != "") == (422, True)


def test_green_knows_no_such_task(http: httpx.Client, urls: dict[str, str]) -> None:
    assert http.get(f"{urls['green']}/tasks/none").status_code == 404
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


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_rest_beside_mcp(http: httpx.Client, urls: dict[str, str], method: str) -> None:
    found = http.post(f"{urls['mcp']}/search_nfcorpus", json=REFERENCE).json()
    assert found["results"][0]["doc_id"] == FOUND
    assert http.request(method, f"{urls['mcp']}/health_check").status_code == 200
    assert http.get(f"{urls['mcp']}/stats").json()["search_call_count"] >= 1
    assert http.post(f"{urls['mcp']}/stats/reset").status_code in (401, 403)


# The agent HTTP contract


def request(**changes: Any) -> dict[str, Any]:
    """A request with an id of its own: one id with two contents is a conflict."""
    inputs = {"query": QUERY, "topK": 2}
    return {
        "request_id": uuid.uuid4().hex,
        "task_type": "RAG_RETRIEVE",
        "inputs": inputs,
        **changes,
    }


@pytest.mark.parametrize("inputs", [{"query": QUERY, "topK": 2}, {"query_text": QUERY, "top_k": 2}])
def test_a_contract_run(http: httpx.Client, urls: dict[str, str], inputs: Any) -> None:
    sent = request(inputs=inputs)
    reply = http.post(f"{urls['agent']}/agents/run/sync", json=sent)
    assert reply.status_code == 200
    body = reply.json()
    assert body["status"] in ("ok", "success")
    assert (body["request_id"], body["warnings"]) == (sent["request_id"], [])
    assert body["outputs"]["count"] == body["outputs"]["chunk_count"] == 2
    assert body["outputs"]["chunks"][0]["doc_id"] == FOUND
    assert {"groundingPack", "retrieval_trace", "citation_count"} <= set(body["outputs"])
    assert body["artifacts"] == [chunk["chunk_id"] for chunk in body["outputs"]["chunks"]]
    assert body["usage"]["duration_ms"] >= 0
    assert "error" not in body
    assert body["grounding"]["chunks"]


CONTRACT_MISTAKES: dict[str, tuple[Any, int, str]] = {
    "task": (request(task_type="NONE"), 400, "UNSUPPORTED_TASK_TYPE"),
    "query": (request(inputs={}), 200, "VALIDATION_ERROR"),
    "id": ({"task_type": "RAG_RETRIEVE"}, 422, "VALIDATION_ERROR"),
    "object": ([], 422, "VALIDATION_ERROR"),
}


@pytest.mark.parametrize("mistake", CONTRACT_MISTAKES)
def test_a_contract_mistake(http: httpx.Client, urls: dict[str, str], mistake: str) -> None:
    body, status, code = CONTRACT_MISTAKES[mistake]
    reply = http.post(f"{urls['agent']}/agents/run/sync", json=body)
    assert reply.status_code == status
    said = reply.json()
    assert (said["status"], said["error"]["code"], said["outputs"]) == ("error", code, {})


@pytest.mark.parametrize("way", ["sync", "stream"])
def test_broken_json_is_400(http: httpx.Client, urls: dict[str, str], way: str) -> None:
    headers = {"Content-Type": "application/json"}
    url = f"{urls['agent']}/agents/run/{way}"
    reply = http.post(url, content=b"{oops secret", headers=headers)
    assert reply.status_code == 400
    assert "secret" not in reply.text


@pytest.mark.parametrize(
    ("inputs", "status"),
    [({"query": QUERY}, "ok"), ({"query": QUERY, "knowledgeBase": "x"}, "error")],
)
def test_a_contract_stream_has_one_final(
    http: httpx.Client, urls: dict[str, str], inputs: Any, status: str
) -> None:
    body = request(inputs=inputs)
    with http.stream("POST", f"{urls['agent']}/agents/run/stream", json=body) as answer:
        lines = list(answer.iter_lines())
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    data = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert names == [each["type"] for each in data]
    assert (names[0], names[-1], names.count("final")) == ("started", "final", 1)
    assert set(names) <= {"started", "progress", "status", "final"}
    assert data[-1]["status"] == status
    if status == "error":
        assert (data[-1]["ok"], data[-1]["outputs"]) == (False, {})
        assert data[-1]["error"]["code"] == "TASK_FAILED"


def test_contract_health(http: httpx.Client, urls: dict[str, str]) -> None:
    health = http.get(f"{urls['agent']}/health").json()
    assert health["status"] == "ok"
    ready = http.get(f"{urls['agent']}/health/ready").json()
    assert ready["status"] in ("ready", "degraded")
    assert ready["service"] == health["service"]


# The web pages


@pytest.mark.parametrize("path", ["/", "/trends", "/health"])
def test_a_page(http: httpx.Client, urls: dict[str, str], path: str) -> None:
    assert http.get(urls["ui"] + path).status_code == 200


def test_no_such_run(http: httpx.Client, urls: dict[str, str]) -> None:
    assert http.get(f"{urls['ui']}/runs/none").status_code == 404

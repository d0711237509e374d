"""One piece of work, two ways to ask for it, and every way in which it can go wrong."""

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from tests.contract.asking import STREAM, SYNC, body, stream
from tests.contract.conftest import Gate, StartAgent
from tests.contract.running import running

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    TaskError,
    succeeded,
)
from assay.contract.server import AgentService, Readiness, ReportProgress, Work, agent_app

WAYS = [SYNC, STREAM]
CAUSE_IN_LOG = "the task failed; the agent's log has the cause under this request id"


def working(answer: Callable[[AgentRunRequest], Any]) -> Work:

    async def work(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        report("began", percent=1)
        if isinstance(found := answer(request), Exception):
            raise found
        response: AgentRunResponse = found
        return response

    return work


count_words = working(lambda request: succeeded(request, {"words": 3}))


async def run(client: httpx.AsyncClient, way: str, sent: dict[str, Any]) -> dict[str, Any]:
    if way == STREAM:
        final = (await stream(client, sent))[-1]
        assert final.pop("type") == "final"
        return final
    answer = await client.post(SYNC, json=sent)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    response: dict[str, Any] = answer.json()
    return response


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (lambda _: RuntimeError("secret"), "error", CAUSE_IN_LOG),
        (lambda request: succeeded(request, {"score": float("nan")}), "error", CAUSE_IN_LOG),
        (lambda _: None, "error", CAUSE_IN_LOG),
        (lambda _: TimeoutError(), "error", CAUSE_IN_LOG),  # of a part: not a spent budget
        (lambda _: TaskError(ErrorCode.TASK_FAILED, "no such base"), "error", "no such base"),
        (lambda request: succeeded(request, {"a": 1}, status="degraded"), "degraded", None),
        (lambda _: AgentRunResponse(status="ok", request_id="x", task_type="X"), "ok", None),
    ],
)
async def test_a_response_says_how_the_work_ended(
    start_agent: StartAgent, way: str, answer: Any, status: str, error: str | None
) -> None:
    sent = body("mine", budgets={"timeout_ms": 60_000})
    response = await run(await start_agent(working(answer)), way, sent)
    assert (response["request_id"], response["task_type"]) == ("mine", "TEST")
    assert (response["status"], response["ok"]) == (status, error is None)
    assert response["outputs"] == ({"a": 1} if status == "degraded" else {})
    failure = {"code": "TASK_FAILED", "message": error} if error else None
    assert response.get("error") == failure


@pytest.mark.parametrize(
    ("way", "budgets", "limit_s"),
    [(SYNC, {"timeout_ms": 30}, 300), (STREAM, {"max_time_ms": 30}, 300), (SYNC, {}, 0.03)],
)
async def test_a_run_ends_with_its_budget_or_the_servers_limit(
    start_agent: StartAgent, gate: Gate, way: str, budgets: dict[str, int], limit_s: float
) -> None:
    client = await start_agent(gate.work, run_timeout_s=limit_s)
    response = await run(client, way, body(budgets=budgets))
    assert response["error"]["code"] == "BUDGET_EXCEEDED"
    assert (response["ok"], response["outputs"]) == (False, {})
    assert gate.cancelled == 1


NESTED = b'{"request_id": "r9", "task_type": "TEST", "inputs": {"": %s}}' % (
    b"[" * 150 + b"]" * 150
)


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        *(("POST", way, b'{"request_id": "r1"', 400) for way in WAYS),
        *(("POST", way, b"[]", 422) for way in WAYS),
        *(("POST", way, b'{"task_type": "canary"}', 422) for way in WAYS),
        ("POST", SYNC, b"[" * 100_000, 400),
        ("POST", SYNC, NESTED, 422),
        ("POST", SYNC, b" " * 1_000_001, 413),
        ("GET", SYNC, b"", 405),
        ("PUT", STREAM, b"", 405),
        ("POST", "/agents/run/canary", b"", 404),
    ],
)
async def test_a_refusal_has_the_shape_of_the_contract(
    start_agent: StartAgent, method: str, path: str, content: bytes, status: int
) -> None:
    client = await start_agent(count_words)
    url, header = f"{path}?canary", {"X-Request-ID": "r9"}
    answer = await client.request(method, url, content=content, headers=header)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    refused = answer.json()
    assert (refused["status"], refused["ok"], refused["outputs"]) == ("error", False, {})
    assert refused["warnings"] == []
    assert (refused["request_id"], refused["error"]["code"]) == ("r9", "VALIDATION_ERROR")
    assert "canary" not in answer.text


@pytest.mark.parametrize("way", WAYS)
async def test_one_run_too_many_is_to_wait(start_agent: StartAgent, gate: Gate, way: str) -> None:
    client = await start_agent(gate.work, max_running=1)
    first = asyncio.create_task(run(client, SYNC, body("first")))
    await gate.entered.wait()
    answer = await client.post(way, json=body("second"))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["error"]["code"] == "OVERLOADED"
    gate.release.set()
    assert (await first)["ok"]
    assert (await run(client, way, body("third")))["ok"]


@pytest.mark.parametrize("way", WAYS)
async def test_a_client_may_leave(start_agent: StartAgent, gate: Gate, way: str) -> None:
    client = await start_agent(gate.work)
    asking = asyncio.create_task(client.post(way, json=body()))
    await gate.entered.wait()
    asking.cancel()
    await asyncio.wait_for(gate.left.wait(), 5)
    assert gate.cancelled == 1


async def test_a_silent_stream_has_a_heartbeat(start_agent: StartAgent, gate: Gate) -> None:
    client = await start_agent(gate.work, heartbeat_s=0.02)
    received = b""
    async with client.stream("POST", STREAM, json=body()) as answer:
        async for chunk in answer.aiter_bytes():
            received += chunk
            if received.count(b": heartbeat\n\n") >= 3:
                gate.release.set()
    assert received.count(b"event: final") == 1
    assert received.endswith(b"}\n\n")


async def test_health_is_told_at_once_and_readiness_truly() -> None:
    states = [Readiness(False, {"documents": 0}), Readiness(True, {"documents": 3})]

    async def ready() -> Readiness:
        if not states:
            raise ConnectionError("http://internal:6333 refused")
        return states.pop(0)

    service = AgentService("rag", "TEST", count_words, ready=ready)
    async with running(agent_app(service)) as url, httpx.AsyncClient(base_url=url) as client:
        health = await client.get("/health")
        answers = [await client.get("/health/ready") for _ in range(3)]
    assert (health.status_code, health.json()) == (200, {"status": "ok", "service": "rag"})
    assert [answer.status_code for answer in answers] == [503, 200, 503]
    assert answers[0].json() == {"status": "degraded", "service": "rag", "documents": 0}
    assert answers[1].json() == {"status": "ready", "service": "rag", "documents": 3}
    assert answers[2].json() == {"status": "degraded", "service": "rag"}

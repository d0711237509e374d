"""One piece of work, two ways to ask for it, and every way in which it can go wrong."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.asking import STREAM, SYNC, body, events, stream, types
from tests.contract.conftest import Gate, StartAgent
from tests.contract.running import running

from assay.contract.envelope import (
    AgentRunRequest,
    AgentRunResponse,
    ErrorCode,
    TaskError,
    succeeded,
)
from assay.contract.server import AgentService, Readiness, ReportProgress, agent_app

WAYS = [SYNC, STREAM]
CAUSE_IN_LOG = "the task failed; the agent's log has the cause under this request id"


async def count_words(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    report("counted", percent=50, words=3)
    return succeeded(request, {"words": 3})


async def explode(_request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
    report("began", percent=1)
    raise RuntimeError("secret text of an exception")


async def refuse(_request: AgentRunRequest, _report: ReportProgress) -> AgentRunResponse:
    raise TaskError(ErrorCode.TASK_FAILED, "no such collection")


async def answer_nan(request: AgentRunRequest, _report: ReportProgress) -> AgentRunResponse:
    return succeeded(request, {"score": float("nan")})


async def partly(request: AgentRunRequest, _report: ReportProgress) -> AgentRunResponse:
    return succeeded(request, {"words": 1}, status="degraded", warnings=["half of it"])


async def forgetful(_request: AgentRunRequest, _report: ReportProgress) -> AgentRunResponse:
    return AgentRunResponse(status="ok", request_id="wrong", task_type="WRONG")


async def time_out(_request: AgentRunRequest, _report: ReportProgress) -> AgentRunResponse:
    raise TimeoutError  # of a part of the work: not a spent budget


async def answer_nothing(_request: AgentRunRequest, _report: ReportProgress) -> Any:
    return None


async def run(client: httpx.AsyncClient, way: str, sent: dict[str, Any]) -> dict[str, Any]:
    """The response, however it is asked for."""
    if way == STREAM:
        final = (await stream(client, sent))[-1]
        assert final.pop("type") == "final"
        return final
    answer = await client.post(SYNC, json=sent)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    response: dict[str, Any] = answer.json()
    return response


async def test_progress_may_be_reported_from_a_thread(start_agent: StartAgent) -> None:
    async def in_thread(request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        for number in range(20):
            await asyncio.to_thread(report, "step", percent=None, number=number)
        return succeeded(request, {})

    found = await stream(await start_agent(in_thread), body())
    assert [event["number"] for event in found[1:-1]] == list(range(20))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("work", "status", "outputs", "error"),
    [
        (explode, "error", {}, CAUSE_IN_LOG),
        (answer_nan, "error", {}, CAUSE_IN_LOG),
        (answer_nothing, "error", {}, CAUSE_IN_LOG),
        (time_out, "error", {}, CAUSE_IN_LOG),
        (refuse, "error", {}, "no such collection"),
        (partly, "degraded", {"words": 1}, None),
        (forgetful, "ok", {}, None),
    ],
)
async def test_a_response_says_how_the_work_ended(
    start_agent: StartAgent, way: str, work: Any, status: str, outputs: Any, error: str | None
) -> None:
    """Its ids are those of the request, whatever the work says."""
    sent = body("mine", budgets={"timeout_ms": 60_000})
    response = await run(await start_agent(work), way, sent)
    assert (response["request_id"], response["task_type"]) == ("mine", "TEST")
    assert (response["status"], response["ok"]) == (status, error is None)
    assert response["outputs"] == outputs
    assert (response["error"]["message"] if error else None) == error
    assert not error or response["error"]["code"] == "TASK_FAILED"
    assert "NaN" not in repr(response)


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


REFUSED = [
    pytest.param(b'{"request_id": "r1"', 400, "VALIDATION_ERROR", id="broken JSON"),
    pytest.param(b"[]", 422, "VALIDATION_ERROR", id="not an object"),
    pytest.param(b'{"task_type": "TEST"}', 422, "VALIDATION_ERROR", id="no id"),
    pytest.param(
        b'{"request_id": "r1", "task_type": "OTHER"}',
        400,
        "UNSUPPORTED_TASK_TYPE",
        id="other task",
    ),
    pytest.param(b"[" * 100_000, 400, "VALIDATION_ERROR", id="deeply nested"),
    pytest.param(
        b'{"request_id": "r1", "task_type": "TEST", "inputs": {"a": %s}}'
        % (b"[" * 150 + b"]" * 150),
        422,
        "VALIDATION_ERROR",
        id="nested",
    ),
    pytest.param(b" " * 1_000_001, 413, "VALIDATION_ERROR", id="too large"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("content", "status", "code"), REFUSED)
async def test_a_request_that_is_not_accepted_gets_a_contract_shaped_refusal(
    start_agent: StartAgent, way: str, content: bytes, status: int, code: str
) -> None:
    client = await start_agent(count_words)
    answer = await client.post(way, content=content, headers={"X-Request-ID": "from-header"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    refused = answer.json()
    assert (refused["status"], refused["ok"], refused["outputs"]) == ("error", False, {})
    assert refused["warnings"] == []
    assert refused["error"]["code"] == code
    assert refused["request_id"] == (
        "r1" if b'"r1",' in content or b'"r1"}' in content else "from-header"
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", SYNC, 405), ("PUT", STREAM, 405), ("POST", "/agents/run/canary", 404)],
)
async def test_another_method_or_path_is_refused_in_the_same_shape(
    start_agent: StartAgent, method: str, path: str, status: int
) -> None:
    client = await start_agent(count_words)
    answer = await client.request(method, f"{path}?canary", headers={"X-Request-ID": "r9"})
    assert answer.status_code == status
    refused = answer.json()
    assert (refused["status"], refused["ok"], refused["outputs"]) == ("error", False, {})
    assert (refused["request_id"], refused["error"]["code"]) == ("r9", "VALIDATION_ERROR")
    assert "canary" not in answer.text


@pytest.mark.parametrize("way", WAYS)
async def test_one_run_too_many_is_told_to_come_back(
    start_agent: StartAgent, gate: Gate, way: str
) -> None:
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
async def test_a_client_that_leaves_cancels_the_work(
    start_agent: StartAgent, gate: Gate, way: str
) -> None:
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


SERVER = """
import asyncio, sys, uvicorn
from assay.contract.server import AgentService, agent_app

async def work(request, report):
    report("waiting")
    await asyncio.Event().wait()

app = agent_app(AgentService("x", "TEST", work))
uvicorn.Server(uvicorn.Config(app, port=0, ws="none")).run()
"""


async def test_a_server_that_is_stopped_ends_its_streams(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    process = subprocess.Popen(
        [sys.executable, str(script)], stderr=subprocess.PIPE, text=True, env=dict(os.environ)
    )
    assert process.stderr is not None
    with process.stderr as log:
        line = next(line for line in log if "running on" in line)
        url = next(word for word in line.split() if word.startswith("http://"))
        found = []
        async with (
            httpx.AsyncClient(base_url=url, timeout=30) as client,
            client.stream("POST", STREAM, json=body()) as answer,
        ):
            async for event in events(answer):
                found.append(event)
                if event["type"] == "progress":
                    process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 30)
    assert types(found) == ["started", "progress", "final"]
    assert found[-1]["error"]["code"] == "TASK_FAILED"

"""The same id with the same body is one run; with another body it is a mistake."""

import asyncio
import logging

import pytest
from tests.contract.asking import STREAM, SYNC, body, events, stream, types
from tests.contract.conftest import Gate, StartAgent

from assay.contract.envelope import AgentRunRequest, AgentRunResponse, succeeded
from assay.contract.server.runs import (
    Execution,
    ReplayLimits,
    ReportProgress,
    RequestIdConflict,
    RunStore,
)


class Counter:
    def __init__(self, *, fails: bool = False) -> None:
        self.runs = 0
        self._fails = fails

    async def work(self, request: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        self.runs += 1
        report("counted")
        if self._fails:
            raise RuntimeError
        return succeeded(request, {"runs": self.runs})


async def test_a_repeated_request_returns_the_stored_result(start_agent: StartAgent) -> None:
    counter = Counter()
    client = await start_agent(counter.work)
    first = await client.post(SYNC, json=body(inputs={"a": 1, "b": 2}))
    second = await client.post(SYNC, json=body(inputs={"b": 2, "a": 1}))
    assert first.content == second.content
    assert counter.runs == 1


async def test_the_stream_of_a_stored_result_is_short(start_agent: StartAgent) -> None:
    counter = Counter()
    client = await start_agent(counter.work)
    first = (await client.post(SYNC, json=body())).json()
    found = await stream(client, body())
    assert types(found) == ["started", "final"]
    assert found[-1] == {**first, "type": "final"}
    assert counter.runs == 1


@pytest.mark.parametrize("way", [SYNC, STREAM])
async def test_a_used_id_with_another_body_is_refused(start_agent: StartAgent, way: str) -> None:
    client = await start_agent(Counter().work)
    await client.post(SYNC, json=body(inputs={"a": 1}))
    answer = await client.post(way, json=body(inputs={"a": 2}))
    assert answer.status_code == 409
    refused = answer.json()
    assert refused["error"]["code"] == "VALIDATION_ERROR"
    assert (refused["request_id"], refused["ok"], refused["outputs"]) == ("r1", False, {})


async def test_an_id_in_use_with_another_body_is_refused(
    start_agent: StartAgent, gate: Gate
) -> None:
    client = await start_agent(gate.work)
    first = asyncio.create_task(client.post(SYNC, json=body()))
    await gate.entered.wait()
    assert (await client.post(SYNC, json=body(mode="LIVE"))).status_code == 409
    gate.release.set()
    assert (await first).status_code == 200


async def test_the_second_of_two_equal_requests_waits_for_the_first(
    start_agent: StartAgent, gate: Gate
) -> None:
    client = await start_agent(gate.work, max_running=1)
    first = asyncio.create_task(client.post(SYNC, json=body()))
    await gate.entered.wait()
    third = asyncio.create_task(client.post(SYNC, json=body()))
    async with client.stream("POST", STREAM, json=body()) as answer:
        joined = events(answer)
        assert (await anext(joined))["type"] == "started"
        gate.release.set()
        rest = [event async for event in joined]
    assert rest[-1]["outputs"] == {"runs": 1}
    assert (await first).content == (await third).content
    assert gate.runs == 1


class LeftRuns(logging.Handler):
    """Knows when a run was logged as left by its client."""

    def __init__(self) -> None:
        super().__init__()
        self.left = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if record.__dict__["fields"].get("run_status") == "cancelled":
            self.left.set()


async def test_work_goes_on_while_one_of_its_clients_stays(
    start_agent: StartAgent, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log = LeftRuns()
    logging.getLogger("assay.serve.requests").addHandler(log)
    client = await start_agent(gate.work)
    first = asyncio.create_task(client.post(SYNC, json=body()))
    await gate.entered.wait()
    async with client.stream("POST", STREAM, json=body()) as answer:
        joined = events(answer)
        assert (await anext(joined))["type"] == "started"
        first.cancel()
        await asyncio.wait_for(log.left.wait(), 5)
        gate.release.set()
        rest = [event async for event in joined]
    logging.getLogger("assay.serve.requests").removeHandler(log)
    assert rest[-1]["status"] == "ok"
    assert (gate.runs, gate.cancelled) == (1, 0)


async def test_a_cancelled_run_can_be_asked_for_again(start_agent: StartAgent, gate: Gate) -> None:
    client = await start_agent(gate.work)
    first = asyncio.create_task(client.post(SYNC, json=body()))
    await gate.entered.wait()
    first.cancel()
    await gate.left.wait()
    gate.release.set()
    assert (await client.post(SYNC, json=body())).json()["outputs"] == {"runs": 2}


async def test_a_failed_run_may_be_tried_again(start_agent: StartAgent) -> None:
    counter = Counter(fails=True)
    client = await start_agent(counter.work)
    for _ in range(2):
        assert (await client.post(SYNC, json=body())).json()["ok"] is False
    assert counter.runs == 2


# --- the store itself


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def add(store: RunStore, request_id: str, size: int = 1) -> None:
    async def work(request: AgentRunRequest, _report: ReportProgress) -> AgentRunResponse:
        return succeeded(request, {"text": "x" * size})

    request = AgentRunRequest(request_id=request_id, task_type="T")
    execution = Execution(request, work, None)
    store.add(execution, b"f")
    await execution.task
    await asyncio.sleep(0)  # the store keeps results in the task's callback


async def test_results_leave_by_number_the_least_used_first() -> None:
    store = RunStore(ReplayLimits(max_results=2))
    await add(store, "a")
    await add(store, "b")
    assert store.find("a", b"f") is not None
    await add(store, "c")
    assert [store.find(name, b"f") is not None for name in "abc"] == [True, False, True]


async def test_results_leave_by_size() -> None:
    store = RunStore(ReplayLimits(max_bytes=10_000))
    await add(store, "a", 6_000)
    await add(store, "b", 6_000)
    assert store.find("a", b"f") is None
    assert store.find("b", b"f") is not None
    await add(store, "c", 20_000)
    assert [store.find(name, b"f") for name in "abc"] == [None, None, None]


async def test_results_leave_by_age_also_when_they_were_used() -> None:
    clock = Clock()
    store = RunStore(ReplayLimits(ttl_s=10), clock)
    await add(store, "a")
    clock.now = 9
    assert store.find("a", b"f") is not None
    clock.now = 10
    assert store.find("a", b"f") is None
    assert store.find("a", b"other") is None


async def test_a_kept_result_is_for_its_own_body_only() -> None:
    store = RunStore()
    await add(store, "a")
    with pytest.raises(RequestIdConflict):
        store.find("a", b"other")


async def test_nothing_is_running_once_it_is_done() -> None:
    store = RunStore()
    await add(store, "a")
    assert store.running == 0

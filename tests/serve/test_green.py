"""The green agent: evaluations over A2A from request to report, against a real purple agent."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.serving import (
    NEW,
    call,
    request_0_3,
    request_1_0,
    send,
    serving,
    stream,
    words,
)

from assay.data import Dataset
from assay.errors import DataError
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.progress import Progress
from assay.run.folder import list_runs
from assay.serve.green import agent as green_module
from assay.serve.green.agent import green_app
from assay.serve.purple import Find, purple_app


def right(query: str) -> list[str]:
    return [f"d{query.removeprefix('word')}"]


@asynccontextmanager
async def purple(find: Find | None = None) -> AsyncIterator[str]:
    async def find_right(query: str, top_k: int) -> list[str]:
        return right(query)

    async def load(_progress: Progress) -> Find:
        return find or find_right

    async with serving(purple_app(load)) as url:
        yield url


@asynccontextmanager
async def green(
    tiny: Dataset, out: Path, *, policy: OutboundPolicy = UNRESTRICTED, token: str | None = None
) -> AsyncIterator[str]:
    async def load(_progress: Progress) -> Dataset:
        return tiny

    async with serving(green_app(load, source="tiny", out=out, policy=policy, token=token)) as url:
        yield url


def order(agent: str, **config: Any) -> dict[str, Any]:
    return {"participants": {"retrieval_agent": agent}, "config": config}


def results(task: Any) -> tuple[str, Any]:
    (artifact,) = task["artifacts"]
    assert artifact["name"] == "Evaluation Results"
    text, data = artifact["parts"]
    return text["text"], data["data"]


async def test_an_evaluation_ends_in_a_summary_and_one_report(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    async with purple() as agent, green(tiny, out) as url:
        task = await send(http, url, order(agent, num_queries=10, top_k=5, random_seed=7))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    text, report = results(task)
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert "nDCG@5" in text
    assert report["summary"]["total_queries"] == 10
    assert report["random_seed_used"] == 7
    assert report["config"]["top_k"] == 5
    assert len(report["per_query_results"]) == 10
    # One grade-2 document first and the grade-1 one left out.
    expected = 2 / (2 + 1 / 1.584962500721156)
    assert report["metrics"]["ndcg@5"] == pytest.approx(expected, abs=1e-12)
    assert report["summary"]["sum_ndcg_at_5"] == pytest.approx(10 * expected, abs=1e-12)


async def test_a_stream_tells_how_far_it_is_and_the_mean_so_far(
    http: httpx.AsyncClient, tiny: Dataset, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(green_module, "STATUS_S", 0.05)
    half, go_on = asyncio.Event(), asyncio.Event()
    asked = 0

    async def find(query: str, top_k: int) -> list[str]:
        nonlocal asked
        asked += 1
        if asked > 20:
            half.set()
            await go_on.wait()
        return right(query)

    said = []
    async with purple(find) as agent, green(tiny, out) as url:
        async for event in stream(http, url, order(agent, num_queries=40, verbose=False)):
            if "statusUpdate" in event:
                said.append(words(event["statusUpdate"]))
                if " of 40 queries, mean nDCG@5 0.7" in said[-1]:
                    go_on.set()
    assert half.is_set()
    assert said[-1] == "evaluated 40 queries"
    assert any(" of 40 queries, mean nDCG@5 0.7" in line for line in said[:-1])


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({}, "participants: "),
        ({"participants": {}}, "participants: 'retrieval_agent' is missing"),
        ({"participants": "http://x"}, "participants: not a JSON object"),
        (order("http://agent") | {"config": []}, "config: not a JSON object"),
        ({"participants": {"retrieval_agent": "ftp://x"}}, "participants.retrieval_agent: "),
        (order("http://agent", num_queries=0), "config.num_queries: "),
        (order("http://agent", num_queries=41), "config.num_queries: at most 40"),
        (order("http://agent", num_queries=2.5), "config.num_queries: "),
        (order("http://agent", top_k=101), "config.top_k: "),
        (order("http://agent", num_shards=2, shard_index=2), "config.shard_index"),
        (order("http://agent", num_queries=2, num_shards=3), "config.num_shards: at most 2"),
        (order("http://agent", mcp_server_url="nowhere"), "config.mcp_server_url: "),
        ("no JSON", "message: "),
    ],
)
async def test_a_bad_request_is_rejected_with_field_and_reason(
    http: httpx.AsyncClient, tiny: Dataset, out: Path, request_: Any, complaint: str
) -> None:
    async with green(tiny, out) as url:
        task = await send(http, url, request_)
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert words(task).startswith(complaint)
    assert not out.exists()


async def test_unknown_settings_are_tolerated_and_named(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    async with purple() as agent, green(tiny, out) as url:
        asked = order(agent, num_queries=2.0, colour="red")
        asked["participants"]["judge"] = "http://judge"
        _, report = results(await send(http, url, asked, as_data=True))
    assert report["summary"]["total_queries"] == 2
    assert report["warnings"] == [
        "config: ignored unknown keys: 'colour'",
        "participants: not evaluated: 'judge'",
    ]


async def test_an_agent_that_is_not_there_fails_the_task(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    async with green(tiny, out) as url:
        task = await send(http, url, order("http://127.0.0.1:1"))
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert words(task).startswith(
        "nothing responds at participants.retrieval_agent: connection refused"
    )


async def test_cancelling_over_a2a_keeps_what_was_done(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    started, never = asyncio.Event(), asyncio.Event()
    asked = 0

    async def find(query: str, top_k: int) -> list[str]:
        nonlocal asked
        asked += 1
        if asked == 20:  # eight are out at once, so the first twelve have come back
            started.set()
        if asked > 12:
            await never.wait()
        return right(query)

    async with purple(find) as agent, green(tiny, out) as url:
        states, task_id = [], ""
        async for event in stream(http, url, order(agent, num_queries=40)):
            if "task" in event:
                task_id = event["task"]["id"]
                await started.wait()
                canceled = await call(http, url, "CancelTask", id=task_id)
            if "statusUpdate" in event:
                states.append(event["statusUpdate"]["status"]["state"])
        never.set()
        again = await call(http, url, "CancelTask", id=task_id)
    assert canceled["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert words(canceled["result"]).startswith("canceled after 12 of 40; kept as run ")
    assert states[-1] == "TASK_STATE_CANCELED"
    assert again["error"]["code"] == -32002  # not cancelable any more
    (run,) = list_runs(out)
    assert run.state() == "interrupted"
    assert run.read_json()["summary"]["total_queries"] == 12


async def test_an_open_server_does_not_call_private_addresses_for_others(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    policy = OutboundPolicy.for_server("0.0.0.0")
    async with purple() as agent, green(tiny, out, policy=policy) as url:
        task = await send(http, url, order(agent, num_queries=2))
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert words(task).startswith("participants.retrieval_agent: ")
    allowed = OutboundPolicy.for_server("0.0.0.0", "127.0.0.0/8")
    async with purple() as agent, green(tiny, out, policy=allowed) as url:
        task = await send(http, url, order(agent, num_queries=2))
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_a_data_set_that_loads_slowly_is_waited_for_with_news(
    http: httpx.AsyncClient, tiny: Dataset, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(green_module, "STATUS_S", 0.05)
    loaded = asyncio.Event()

    async def load(_progress: Progress) -> Dataset:
        await loaded.wait()
        return tiny

    app = green_app(load, source="tiny", out=out, policy=UNRESTRICTED)
    said = []
    async with purple() as agent, serving(app) as url:
        async for event in stream(http, url, order(agent, num_queries=2)):
            if "statusUpdate" in event:
                said.append(words(event["statusUpdate"]))
                loaded.set()
    assert said[0] == "the data set is being loaded"
    assert said[-1] == "evaluated 2 queries"


async def test_a_data_set_that_cannot_be_loaded_is_the_servers_fault(
    http: httpx.AsyncClient, out: Path
) -> None:
    async def load(_progress: Progress) -> Dataset:
        raise DataError("damaged", file="/srv/private/corpus.jsonl")

    app = green_app(load, source="tiny", out=out, policy=UNRESTRICTED)
    async with serving(app) as url:
        task = await send(http, url, order("http://agent"))
        plain = await http.post(f"{url}/tasks", json=order("http://agent"))
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert plain.status_code == 503
    assert "private" not in words(task) + plain.text


async def test_a_second_message_to_a_task_is_refused_and_leaves_no_trace(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def find(query: str, top_k: int) -> list[str]:
        begun.set()
        await go_on.wait()
        return right(query)

    async with purple(find) as agent, green(tiny, out) as url:
        running = stream(http, url, order(agent, num_queries=5))
        task_id = (await anext(running))["task"]["id"]
        await begun.wait()
        for body, version in ((request_1_0("secret"), NEW), (request_0_3("secret"), {})):
            body["params"]["message"]["taskId"] = task_id
            error = (await http.post(url, json=body, headers=version)).json()["error"]
            assert error["code"] == -32004
            assert (
                error["message"]
                == "a task takes one message; send it without a task id to start a new task"
            )
        go_on.set()
        last = [event async for event in running][-1]
        kept = await call(http, url, "GetTask", id=task_id)
    assert last["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "secret" not in json.dumps(kept)
    assert len(list(list_runs(out))) == 1

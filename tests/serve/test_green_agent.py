"""The green agent: evaluations from request to report, over A2A and REST, of a purple agent."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.serve.serving import call, finds, loads, send, serving, stream, words

from assay.data import Dataset
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.progress import Progress
from assay.run.folder import list_runs
from assay.serve.green import agent as green_module
from assay.serve.green.agent import green_app
from assay.serve.purple import purple_app


async def right(query: str) -> list[str]:
    return [f"d{query.removeprefix('word')}"]


@asynccontextmanager
async def purple(search: Callable[[str], Awaitable[list[str]]] = right) -> AsyncIterator[str]:
    async with serving(purple_app(finds(search))) as url:
        yield url


@asynccontextmanager
async def green(
    tiny: Dataset, out: Path, *, policy: OutboundPolicy = UNRESTRICTED, **limits: Any
) -> AsyncIterator[str]:
    app = green_app(loads(tiny), source="tiny", out=out, policy=policy, **limits)
    async with serving(app) as url:
        yield url


def order(agent: str, **config: Any) -> dict[str, Any]:
    return {"participants": {"retrieval_agent": agent}, "config": config}


async def test_a_stream_tells_how_far_it_is_and_the_mean_so_far(
    http: httpx.AsyncClient, tiny: Dataset, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(green_module, "STATUS_S", 0.05)
    loaded, go_on = asyncio.Event(), asyncio.Event()
    asked: list[str] = []

    async def load(_progress: Progress) -> Dataset:
        await loaded.wait()
        return tiny

    async def find(query: str) -> list[str]:
        asked.append(query)
        if len(asked) > 20:
            await go_on.wait()
        return await right(query)

    said = []
    app = green_app(load, source="tiny", out=out, policy=UNRESTRICTED)
    async with purple(find) as agent, serving(app) as url:
        async for event in stream(http, url, order(agent, num_queries=40, verbose=False)):
            if "statusUpdate" in event:
                said.append(words(event["statusUpdate"]))
                loaded.set()
                if " of 40 queries, mean nDCG@5 0.7" in said[-1]:
                    go_on.set()
    assert (said[0], said[-1]) == ("the data set is being loaded", "evaluated 40 queries")
    assert any(" of 40 queries, mean nDCG@5 0.7" in line for line in said[:-1])


async def test_a_canceled_task_is_kept(http: httpx.AsyncClient, tiny: Dataset, out: Path) -> None:
    started, never = asyncio.Event(), asyncio.Event()
    asked = 0

    async def find(query: str) -> list[str]:
        nonlocal asked
        asked += 1
        if asked == 20:  # eight are out at once, so the first twelve have come back
            started.set()
        if asked > 12:
            await never.wait()
        return await right(query)

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


async def test_private_addresses(http: httpx.AsyncClient, tiny: Dataset, out: Path) -> None:
    for allowed, state in (("", "REJECTED"), ("127.0.0.0/8", "COMPLETED")):
        policy = OutboundPolicy.for_server("0.0.0.0", allowed)
        async with purple() as agent, green(tiny, out, policy=policy) as url:
            task = await send(http, url, order(agent, num_queries=2))
        assert task["status"]["state"] == f"TASK_STATE_{state}"
        assert words(task).startswith("participants.retrieval_agent: ") == (not allowed)


async def test_a_full_queue_refuses(http: httpx.AsyncClient, tiny: Dataset, out: Path) -> None:
    go_on = asyncio.Event()

    async def find(_query: str) -> list[str]:
        await go_on.wait()
        return []

    async with purple(find) as agent, green(tiny, out, running=1, waiting=1) as url:
        asked = order(agent, num_queries=10)
        places = [
            (await http.post(f"{url}/tasks", json=asked)).headers["location"] for _ in range(2)
        ]
        refused = await http.post(f"{url}/tasks", json=asked)
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        over_a2a = await send(http, url, asked)
        assert over_a2a["status"]["state"] == "TASK_STATE_FAILED"
        assert words(over_a2a) == "too many evaluations in progress; try again later"
        assert (await http.get(url + places[1])).json()["state"] == "submitted"
        for _ in range(2):  # the second time it has ended already
            assert (await http.delete(url + places[1])).json()["state"] == "canceled"
        go_on.set()
        events = (await http.get(f"{url}{places[0]}/events")).text.splitlines()
        assert json.loads(events[-2].removeprefix("data: "))["state"] == "completed"

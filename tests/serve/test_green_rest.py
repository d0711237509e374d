"""Evaluations without A2A: POST /tasks and what follows it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.serve.serving import send, serving, words

from assay.data import Dataset
from assay.net.outbound import UNRESTRICTED
from assay.progress import Progress
from assay.run.folder import list_runs
from assay.serve.green.agent import green_app
from assay.serve.green.jobs import JobQueue
from assay.serve.purple import Find, purple_app
from assay.targets.a2a import A2AAgent


@asynccontextmanager
async def both(
    tiny: Dataset, out: Path, find: Find | None = None, **limits: int
) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    """The address of a green agent, and a request to evaluate a purple one."""

    async def right(query: str, top_k: int) -> list[str]:
        return [f"d{query.removeprefix('word')}"]

    async def load_find(_progress: Progress) -> Find:
        return find or right

    async def load(_progress: Progress) -> Dataset:
        return tiny

    jobs = JobQueue(lambda url: A2AAgent(url), out, **limits)
    app = green_app(load, source="tiny", out=out, policy=UNRESTRICTED, token=None, queue=jobs)
    async with serving(purple_app(load_find)) as agent, serving(app) as url:
        config = {"num_queries": 10, "top_k": 5, "random_seed": 42}
        yield url, {"participants": {"retrieval_agent": agent}, "config": config}


async def final(http: httpx.AsyncClient, place: str) -> dict[str, Any]:
    """Follow a task to its final event."""
    names = []
    async with http.stream("GET", f"{place}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                names.append(line.removeprefix("event: "))
            if line.startswith("data: "):
                last: dict[str, Any] = json.loads(line.removeprefix("data: "))
    assert names[-1] == "final"
    assert set(names[:-1]) <= {"status"}
    return last


async def test_a_task_is_started_followed_and_shown(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    async with both(tiny, out) as (url, order):
        started = await http.post(f"{url}/tasks", json=order)
        assert started.status_code == 202
        place = started.headers["location"]
        assert place == f"/tasks/{started.json()['id']}"
        last = await final(http, url + place)
        shown = (await http.get(url + place)).json()
    assert last == shown
    assert shown["state"] == "completed"
    assert (shown["done"], shown["total"], shown["failed"]) == (10, 10, 0)
    (run,) = list_runs(out)
    assert shown["run"] == run.name
    assert shown["report"]["per_query_results"] == run.read_json()["per_query_results"]
    assert isinstance(shown["report"]["summary"]["total_queries"], int)


async def test_delete_ends_it_and_keeps_what_was_done(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    enough, never = asyncio.Event(), asyncio.Event()

    async def find(query: str, top_k: int) -> list[str]:
        if query != "word3":
            return ["d1"]
        enough.set()
        await never.wait()
        return []

    async with both(tiny, out, find) as (url, order):
        order["config"]["num_queries"] = 40
        place = (await http.post(f"{url}/tasks", json=order)).headers["location"]
        await enough.wait()
        ended = (await http.delete(url + place)).json()
        again = await http.delete(url + place)
        never.set()
    assert ended["state"] == "canceled"
    assert again.json()["state"] == "canceled"
    (run,) = list_runs(out)
    assert run.state() == "interrupted"


async def test_more_evaluations_than_there_is_room_for_are_told_to_come_back(
    http: httpx.AsyncClient, tiny: Dataset, out: Path
) -> None:
    go_on = asyncio.Event()

    async def find(query: str, top_k: int) -> list[str]:
        await go_on.wait()
        return []

    async with both(tiny, out, find, running=1, waiting=1) as (url, order):
        places = [
            (await http.post(f"{url}/tasks", json=order)).headers["location"] for _ in range(2)
        ]
        refused = await http.post(f"{url}/tasks", json=order)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 0
        over_a2a = await send(http, url, order)
        assert over_a2a["status"]["state"] == "TASK_STATE_FAILED"
        assert words(over_a2a) == "too many evaluations in progress; try again later"
        second = (await http.get(url + places[1])).json()
        assert second["state"] == "submitted"
        go_on.set()
        for place in places:
            assert (await final(http, url + place))["state"] == "completed"

"""Requests to an agent, and its streams as lists of events."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson

from assay.net.sse import EventReader

SYNC = "/agents/run/sync"
STREAM = "/agents/run/stream"


def body(request_id: str = "r1", task_type: str = "TEST", **fields: Any) -> dict[str, Any]:
    return {"request_id": request_id, "task_type": task_type, **fields}


async def events(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    reader = EventReader()
    async for chunk in answer.aiter_bytes():
        for event in reader.feed(chunk):
            data = orjson.loads(event.data)
            assert data["type"] == event.name
            yield data
    assert reader.close()
    assert reader.problems == []


async def stream(client: httpx.AsyncClient, sent: dict[str, Any]) -> list[dict[str, Any]]:
    async with client.stream("POST", STREAM, json=sent) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [event async for event in events(answer)]

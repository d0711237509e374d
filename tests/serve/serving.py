"""Applications behind a real server on a port of their own, and raw A2A calls to them."""

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

import httpx
import uvicorn
from starlette.types import ASGIApp

from assay.progress import Progress
from assay.serve.listening import GracefulServer, bind, url_of
from assay.serve.purple import Load

NEW = {"A2A-Version": "1.0"}
T = TypeVar("T")


def loads(value: T) -> Callable[[Progress], Awaitable[T]]:
    async def load(_progress: Progress) -> T:
        return value

    return load


def finds(search: Callable[[str], Awaitable[list[str]]]) -> Load:
    """The search of a purple agent: the ids that `search` finds for a query."""

    async def find(query: str, _top_k: int) -> list[str]:
        return await search(query)

    return loads(find)


@asynccontextmanager
async def serving(app: ASGIApp, port: int = 0) -> AsyncIterator[str]:
    """The address of `app`, served on the test's own event loop until the block is left."""
    with bind("127.0.0.1", port) as listener:
        server = GracefulServer(
            uvicorn.Config(app, lifespan="on", log_config=None, timeout_graceful_shutdown=2)
        )
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield url_of(listener)
        finally:
            server.should_exit = True
            await task


@contextmanager
def serving_in_thread(app: ASGIApp) -> Iterator[str]:
    ready: queue.Queue[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = queue.Queue()

    async def serve() -> None:
        end = asyncio.Event()
        async with serving(app) as url:
            ready.put((url, asyncio.get_running_loop(), end))
            await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    url, loop, end = ready.get(timeout=60)
    yield url
    loop.call_soon_threadsafe(end.set)
    thread.join(10)


def request_1_0(
    content: Any, method: str = "SendMessage", *, as_data: bool = False
) -> dict[str, Any]:
    part = {"data": content} if as_data else {"text": _text(content)}
    message = {"messageId": "m1", "role": "ROLE_USER", "parts": [part]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


def request_0_3(
    content: Any, method: str = "message/send", *, as_data: bool = False
) -> dict[str, Any]:
    part = (
        {"kind": "data", "data": content} if as_data else {"kind": "text", "text": _text(content)}
    )
    message = {"kind": "message", "messageId": "m1", "role": "user", "parts": [part]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


async def send(http: httpx.AsyncClient, url: str, content: Any, *, as_data: bool = False) -> Any:
    answer = await http.post(url, json=request_1_0(content, as_data=as_data), headers=NEW)
    return answer.json()["result"]["task"]


async def stream(http: httpx.AsyncClient, url: str, content: Any) -> AsyncIterator[Any]:
    """The events of a streaming 1.0 call, each a task, a statusUpdate or an artifactUpdate."""
    body = request_1_0(content, "SendStreamingMessage")
    async with http.stream("POST", url, json=body, headers=NEW) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield json.loads(line.removeprefix("data: "))["result"]


async def call(http: httpx.AsyncClient, url: str, method: str, /, **params: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return (await http.post(url, json=body, headers=NEW)).json()


def words(task: Any) -> str:
    return "".join(part["text"] for part in task["status"]["message"]["parts"])


def _text(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)

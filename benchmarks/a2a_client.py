"""What calling an agent over A2A costs on our side, beside the SDK's bare client.

    .venv/bin/python benchmarks/a2a_client.py [--calls 1000] [--memory-calls 10000]

The agent is a real a2a-sdk server in a process of its own, and answers at once. What is compared
is the CPU time of *this* process for each call: wall-clock says more about the server. The cheapest
round of several is kept, since other work on the machine only ever adds.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

ROUNDS = 5
CONCURRENCY = 8

Ask = Callable[[], Awaitable[object]]


def serve(port: int) -> None:
    """An agent that answers five fixed ids as a data part."""
    import logging

    import uvicorn
    from a2a.helpers import new_data_part, new_task_from_user_message
    from a2a.server.agent_execution import AgentExecutor, RequestContext
    from a2a.server.events import EventQueue
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
    from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface
    from starlette.applications import Starlette

    logging.getLogger("a2a").setLevel(logging.ERROR)

    class Fixed(AgentExecutor):
        async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
            assert context.message is not None
            task = new_task_from_user_message(context.message)
            await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            answer = new_data_part({"doc_ids": [f"MED-{i}" for i in range(5)]})
            await updater.add_artifact([answer], name="retrieval_results")
            await updater.complete()

        async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None: ...

    card = AgentCard(
        name="fixed",
        version="1",
        capabilities=AgentCapabilities(streaming=True),
        supported_interfaces=[
            AgentInterface(
                protocol_binding="JSONRPC",
                protocol_version="1.0",
                url=f"http://127.0.0.1:{port}/",
            )
        ],
    )
    handler = DefaultRequestHandler(Fixed(), InMemoryTaskStore(), card)
    routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, rpc_url="/")]
    uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="error")


def start_server() -> tuple[Any, str]:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(port,), daemon=True)
    process.start()
    for _ in range(600):
        with closing(socket.socket()) as knock:
            if knock.connect_ex(("127.0.0.1", port)) == 0:
                return process, f"http://127.0.0.1:{port}"
        time.sleep(0.05)
    raise SystemExit("the agent did not start within 30 s")


async def spend(ask: Ask, calls: int) -> float:
    """Milliseconds of CPU for each call, `CONCURRENCY` at a time."""
    left = iter(range(calls))

    async def work() -> None:
        for _ in left:
            await ask()

    started = time.process_time()
    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return (time.process_time() - started) * 1000 / calls


async def compare(url: str, calls: int) -> None:
    import httpx
    from a2a.client import ClientConfig, create_client
    from a2a.helpers import new_text_message
    from a2a.types.a2a_pb2 import Role, SendMessageRequest

    from assay.data import load_dataset
    from assay.targets import open_target
    from assay.targets.target_kinds import OpenContext

    context = OpenContext(load_dataset("notes"))
    text = json.dumps({"query": "statins and muscle pain", "top_k": 5})
    blocking = open_target(f"a2a:{url}", context)
    streaming = open_target(f"a2a:{url}#stream", context)
    await blocking.open()
    await streaming.open()
    async with httpx.AsyncClient(timeout=60) as http:
        clients = {
            mode: await create_client(url, ClientConfig(httpx_client=http, streaming=mode))
            for mode in (False, True)
        }

        async def bare(mode: bool) -> None:
            message = new_text_message(text, role=Role.ROLE_USER)
            async for _ in clients[mode].send_message(SendMessageRequest(message=message)):
                pass

        ways: dict[str, Ask] = {
            "SDK client, blocking": lambda: bare(False),
            "Assay, blocking": lambda: blocking.ask("statins and muscle pain", 5),
            "SDK client, streaming": lambda: bare(True),
            "Assay, streaming": lambda: streaming.ask("statins and muscle pain", 5),
        }
        cheapest = dict.fromkeys(ways, float("inf"))
        for _ in range(ROUNDS):
            for name, ask in ways.items():
                cheapest[name] = min(cheapest[name], await spend(ask, calls // ROUNDS))
    for name, milliseconds in cheapest.items():
        print(f"| {name} | {milliseconds:.2f} ms CPU a call |")
    await blocking.close()
    await streaming.close()


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def grow(url: str, calls: int) -> None:
    """Resident memory after a tenth of the calls, when all is warm, and after all of them."""
    from assay.data import load_dataset
    from assay.targets import open_target
    from assay.targets.target_kinds import OpenContext

    agent = open_target(f"a2a:{url}", OpenContext(load_dataset("notes")))
    await agent.open()
    await spend(lambda: agent.ask("statins and muscle pain", 5), calls // 10)
    before = resident_mb()
    await spend(lambda: agent.ask("statins and muscle pain", 5), calls)
    after = resident_mb()
    await agent.close()
    print(f"| memory over {calls:,} calls | {before:.1f} MB, then {after:.1f} MB |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--memory-calls", type=int, default=10_000)
    arguments = parser.parse_args()
    process, url = start_server()
    try:
        asyncio.run(grow(url, arguments.memory_calls))
        asyncio.run(compare(url, arguments.calls))
    finally:
        process.terminate()
        process.join()


if __name__ == "__main__":
    main()

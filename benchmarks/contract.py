"""What the agent contract costs: CPU for a sync call, 200 streams at once, memory over many calls.

    .venv/bin/python benchmarks/contract.py [--calls 100000] [--streams 200]

The server is a process of its own, so that its CPU time and memory are its alone. The bare route
that a sync call is compared with parses the same body and sends an answer of the same size.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

SYNC = "/agents/run/sync"
HEARTBEAT_S = 1.0
STREAM_S = 5.0


def request(number: int) -> dict[str, Any]:
    return {
        "request_id": f"bench-{number}",
        "task_type": "BENCH",
        "inputs": {"query": "does vitamin D lower blood pressure", "topK": 10},
    }


def serve(listener_fd: int) -> None:
    """The child process: an agent that answers at once, or after STREAM_S when asked to."""
    import socket

    import orjson
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from assay.contract.envelope import AgentRunRequest, AgentRunResponse, succeeded
    from assay.contract.server import AgentService, ReportProgress, ServingLimits, agent_routes

    chunks = [{"chunk_id": f"c{i}", "text": "word " * 40, "score": 1.0} for i in range(10)]

    async def work(run: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        if run.mode == "SLOW":
            await asyncio.sleep(STREAM_S)
        return succeeded(run, {"chunks": chunks, "count": len(chunks)})

    async def bare(http: Request) -> Response:
        sent = orjson.loads(await http.body())
        answer = {"request_id": sent["request_id"], "outputs": {"chunks": chunks}}
        return Response(orjson.dumps(answer), media_type="application/json")

    limits = ServingLimits(heartbeat_s=HEARTBEAT_S)
    routes = agent_routes(AgentService("bench", "BENCH", work, limits=limits))
    app = Starlette(routes=[*routes, Route("/bare", bare, methods=["POST"])])
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=listener_fd)])


@contextmanager
def server() -> Iterator[tuple[str, int]]:
    """The address and process id of a fresh server."""
    import socket
    import subprocess

    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        os.set_inheritable(listener.fileno(), True)
        command = [sys.executable, __file__, "--serve", str(listener.fileno())]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()])
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", process.pid
        finally:
            process.terminate()
            process.wait(10)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


async def post_many(client: httpx.AsyncClient, path: str, numbers: range) -> None:
    """Sixteen at a time, each number once."""
    left = iter(numbers)

    async def some() -> None:
        for number in left:
            answer = await client.post(path, json=request(number))
            answer.raise_for_status()

    await asyncio.gather(*(some() for _ in range(16)))


async def measure_calls(calls: int) -> None:
    with server() as (url, pid):
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            await post_many(client, "/bare", range(500))
            costs = {}
            for path in ("/bare", SYNC):
                before = cpu_seconds(pid)
                await post_many(client, path, range(5000))
                costs[path] = (cpu_seconds(pid) - before) / 5000 * 1000
            print(
                f"sync call: {costs[SYNC]:.2f} ms CPU, bare route {costs['/bare']:.2f}, "
                f"so the contract costs {costs[SYNC] - costs['/bare']:.2f} ms"
            )
            await measure_growth(client, pid, calls)


async def measure_growth(client: httpx.AsyncClient, pid: int, calls: int) -> None:
    half = calls // 2
    await post_many(client, SYNC, range(10_000, 10_000 + half))
    middle = resident_mib(pid)
    await post_many(client, SYNC, range(10_000 + half, 10_000 + calls))
    print(f"memory after {half} calls {middle:.1f} MiB, after {calls} {resident_mib(pid):.1f} MiB")


async def measure_streams(streams: int) -> None:
    limits = httpx.Limits(max_connections=None)
    with server() as (url, _pid):
        async with httpx.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
            await client.get("/health")
            started = time.perf_counter()
            found = await asyncio.gather(*(follow(client, i) for i in range(streams)))
            seconds = time.perf_counter() - started
    print(
        f"{streams} streams of {STREAM_S:g} s in {seconds:.1f} s: "
        f"{sum(ends != 1 for ends, _ in found)} without exactly one terminal event, "
        f"longest silence {max(silence for _, silence in found):.2f} s "
        f"with a heartbeat every {HEARTBEAT_S:g} s"
    )


async def follow(client: httpx.AsyncClient, number: int) -> tuple[int, float]:
    """How many terminal events came, and the longest time without a byte."""
    body = {**request(number), "mode": "SLOW"}
    received, silence = b"", 0.0
    async with client.stream("POST", "/agents/run/stream", json=body) as answer:
        last = time.perf_counter()
        async for chunk in answer.aiter_bytes():
            silence = max(silence, time.perf_counter() - last)
            last = time.perf_counter()
            received += chunk
    return received.count(b"event: final\n"), silence


async def measure_disconnect(tries: int = 50) -> None:
    """From closing the connection to the cancellation inside the work, in one process."""
    from tests.contract.running import running

    from assay.contract.envelope import AgentRunRequest, AgentRunResponse
    from assay.contract.server import AgentService, ReportProgress, agent_app

    cancelled: asyncio.Queue[float] = asyncio.Queue()

    async def work(_run: AgentRunRequest, report: ReportProgress) -> AgentRunResponse:
        report("waiting")
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.put_nowait(time.perf_counter())
        raise AssertionError

    delays = []
    async with (
        running(agent_app(AgentService("bench", "BENCH", work))) as url,
        httpx.AsyncClient(base_url=url) as client,
    ):
        for number in range(tries):
            async with client.stream("POST", "/agents/run/stream", json=request(number)) as answer:
                async for chunk in answer.aiter_bytes():
                    if b"progress" in chunk:
                        break
                left = time.perf_counter()
            delays.append((await cancelled.get() - left) * 1000)
    print(
        f"a client that leaves: work cancelled after at most {max(delays):.1f} ms ({tries} tries)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--streams", type=int, default=200)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve)
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))
    asyncio.run(measure_disconnect())
    asyncio.run(measure_streams(options.streams))
    asyncio.run(measure_calls(options.calls))


if __name__ == "__main__":
    main()

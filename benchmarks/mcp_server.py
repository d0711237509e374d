"""What the MCP server costs beside the search itself, and how it holds many sessions.

    .venv/bin/python benchmarks/mcp_server.py [--dataset nfcorpus] [--mode bm25]

Prints lines for benchmarks/README.md. CPU seconds of the server processes are compared, since wall
time on a shared machine says little: ours against a server on the same SDK whose only tool returns
a result of the same shape and size without searching, plus the search alone in this process.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from assay.data import load_dataset
from assay.serve.retrieval import Retrieval, load_retrieval

CALLS, ROUNDS, TOP_K = 200, 5, 5
SESSIONS, CYCLES, IDLE_S = 200, 3, 3
OURS = "from assay.cli.app import serve_verbs; serve_verbs()"
TRIVIAL = """
import asyncio, sys
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from assay.serve.listening import bind, url_of
from assay.serve.mcp.search import DescribedQuery, SearchResults, TopK

text = open(sys.argv[1]).read()
server = MCPServer("trivial", log_level="WARNING")

@server.tool()
async def search_nfcorpus(query: DescribedQuery, ctx: Context, top_k: TopK = 5) -> SearchResults:
    return SearchResults.model_validate_json(text)

app = server.streamable_http_app()
with bind("127.0.0.1", 0) as listener:
    print(url_of(listener), flush=True)
    config = uvicorn.Config(app, access_log=False, log_config=None)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))
"""
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "0"},
    },
}
HEADERS = {"Accept": "application/json, text/event-stream"}


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[tuple[str, int]]:
    """Address and process id of a server."""
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


async def cost_of_calls(url: str, pid: int, mode: str, queries: list[str]) -> float:
    """Milliseconds of the server's CPU for each call on a session that stays open."""
    async with (
        httpx2.AsyncClient(timeout=60) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        await client.call_tool("search_nfcorpus", {"query": queries[0], "top_k": TOP_K})
        before = cpu_seconds(pid)
        for query in queries:
            await client.call_tool("search_nfcorpus", {"query": query, "top_k": TOP_K})
        return (cpu_seconds(pid) - before) / len(queries) * 1000


async def cost_of_search(retrieval: Retrieval, queries: list[str]) -> float:
    before = time.process_time()
    for query in queries:
        await retrieval.search(query, TOP_K)
    return (time.process_time() - before) / len(queries) * 1000


async def compare(dataset: str, mode: str, canned: Path) -> None:
    retrieval = await load_retrieval(dataset, mode)
    texts = [query.text for query in load_dataset(dataset).queries.values()]
    queries = [texts[n % len(texts)] for n in range(CALLS)]
    options = ("--port", "0", "--dataset", dataset, "--mode", mode)
    with started("-c", OURS, *options) as ours:
        async with httpx2.AsyncClient(timeout=600) as http:
            body = {"query": queries[0], "top_k": TOP_K}
            found = await http.post(f"{ours[0]}/search_nfcorpus", json=body)
            canned.write_bytes(found.content)
        with started("-c", TRIVIAL, str(canned)) as trivial:
            for era in ("2026-07-28", "legacy"):
                rounds = [
                    (
                        await cost_of_calls(*ours, era, queries),
                        await cost_of_calls(*trivial, era, queries),
                        await cost_of_search(retrieval, queries),
                    )
                    for _ in range(ROUNDS)
                ]
                own, least, search = (statistics.median(each) for each in zip(*rounds, strict=True))
                ratio = own / (least + search)
                print(
                    f"| search_nfcorpus, {era} | {own:.2f} ms CPU a call | trivial tool "
                    f"{least:.2f} + search {search:.2f} ms | ratio {ratio:.2f} |",
                    flush=True,
                )


async def hold_sessions(dataset: str, mode: str) -> None:
    options = ("--port", "0", "--dataset", dataset, "--mode", mode, "--session-idle", str(IDLE_S))
    with started("-c", OURS, *options) as (url, pid):
        limits = httpx2.Limits(max_connections=50)
        async with httpx2.AsyncClient(timeout=600, limits=limits, headers=HEADERS) as http:
            await http.post(f"{url}/search_nfcorpus", json={"query": "warm"})
            print(f"| memory without sessions | {resident_mb(pid):.0f} MB |")
            for cycle in range(1, CYCLES + 1):
                await one_cycle(http, url, pid, cycle)


async def one_cycle(http: httpx2.AsyncClient, url: str, pid: int, cycle: int) -> None:
    opened = await asyncio.gather(*(http.post(f"{url}/mcp", json=HELLO) for _ in range(SESSIONS)))
    ids = [answer.headers["mcp-session-id"] for answer in opened]
    held = await asyncio.gather(*(call(http, url, each) for each in ids))
    memory = resident_mb(pid)
    if held.count(200) != SESSIONS:
        sys.exit(f"only {held.count(200)} of {SESSIONS} sessions were served")
    started_at = time.perf_counter()
    while await call(http, url, ids[-1]) != 404:  # which keeps this one alive once more
        await asyncio.sleep(IDLE_S + 1)
    gone = await asyncio.gather(*(call(http, url, each) for each in ids))
    waited = time.perf_counter() - started_at
    print(
        f"| cycle {cycle}: {SESSIONS} sessions held, each served | {memory:.0f} MB | "
        f"{gone.count(404)} dropped within {waited:.0f} s of idling | {resident_mb(pid):.0f} MB |",
        flush=True,
    )


async def call(http: httpx2.AsyncClient, url: str, session: str) -> int:
    body = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "search_nfcorpus", "arguments": {"query": "calcium", "top_k": TOP_K}},
    }
    return (
        await http.post(f"{url}/mcp", json=body, headers={"Mcp-Session-Id": session})
    ).status_code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="nfcorpus")
    parser.add_argument("--mode", default="bm25")
    arguments = parser.parse_args()
    canned = Path(os.environ.get("TMPDIR", "/tmp")) / f"canned-{os.getpid()}.json"
    try:
        asyncio.run(compare(arguments.dataset, arguments.mode, canned))
    finally:
        canned.unlink(missing_ok=True)
    asyncio.run(hold_sessions(arguments.dataset, arguments.mode))


if __name__ == "__main__":
    main()

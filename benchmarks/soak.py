"""Every server under many callers, good and hostile, and what is left in it afterwards.

    .venv/bin/python benchmarks/soak.py [--seconds 60] [--requests 4000] [--windows 4] [SERVER...]

Prints lines for benchmarks/README.md. Loopback only. Each server is a process of its own on the
data set `notes` with BM25. A caller sends one request after the other, each on a connection of its
own, in turns good ones and hostile ones (broken JSON, wrong types, other methods, a body that is
too large, a connection dropped half-way). The same traffic comes in windows, and after each, at
rest, the resources of the process are read. The first windows fill what is bounded: results kept
for callers that repeat a request, finished evaluations, arenas of the allocator. Growth is what the
last window adds. Exit code 1: a good request without a response, a response 500, or growth.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

START = """
import asyncio, os, signal, sys
def count(*_):
    with open(os.environ["SOAK_TASKS"], "w") as file:
        file.write(str(len(asyncio.all_tasks())))
signal.signal(signal.SIGUSR1, count)
from assay.cli.app import main
main()
"""
TIMEOUT_S = 60.0
REST_S = 3.0
# Beyond noise: pages that the allocator keeps, and what a late connection still holds.
GROWTH = {"MB": 3.0, "open files": 4, "tasks": 4, "threads": 4}
HOSTILE_EVERY = 3
LARGE = 20_000_000

Make = Callable[[random.Random], bytes]


@dataclass(frozen=True)
class Server:
    """How a server is started, and what good and hostile callers send to it."""

    name: str
    arguments: Sequence[str]
    good: Sequence[Make]
    path: str


@dataclass
class Figures:
    """What the callers saw."""

    statuses: Counter[int] = field(default_factory=Counter)
    overloaded: int = 0
    lost: int = 0
    dropped: int = 0
    latencies: list[float] = field(default_factory=list)

    def add(self, other: "Figures") -> None:
        """Those of a further window."""
        self.statuses += other.statuses
        self.overloaded += other.overloaded
        self.lost += other.lost
        self.dropped += other.dropped
        self.latencies += other.latencies


def request(method: str, path: str, body: object = None, **headers: str) -> bytes:
    """The bytes of a request; a body that is not bytes is sent as JSON."""
    content = b"" if body is None else body
    if not isinstance(content, bytes):
        content = json.dumps(content).encode()
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close"]
    lines += [f"Content-Length: {len(content)}", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + content


def ask_agent(path: str, task: str, inputs: Callable[[random.Random], object]) -> Make:
    """One run of a contract agent."""
    return lambda chance: request(
        "POST",
        path,
        {
            "request_id": f"{chance.getrandbits(64):x}",
            "task_type": task,
            "inputs": inputs(chance),
        },
    )


def a2a_message(chance: random.Random, content: object) -> bytes:
    """A blocking call of A2A 1.0."""
    message = {
        "messageId": f"{chance.getrandbits(64):x}",
        "role": "ROLE_USER",
        "parts": [{"text": json.dumps(content)}],
    }
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return request("POST", "/", call, A2A_Version="1.0")


def query(chance: random.Random) -> str:
    """A different one each time: nothing is answered from a cache."""
    words = ("tea", "vitamin", "sleep", "bread", "calcium", "water", "running", "iron")
    return f"{chance.choice(words)} {chance.choice(words)} {chance.getrandbits(16)}"


def queried(chance: random.Random) -> dict[str, str]:
    """The inputs of a retrieval."""
    return {"query": query(chance)}


def hostile(server: Server, chance: random.Random) -> bytes:
    """A request that must be refused, and must leave nothing behind."""
    path, good = server.path, chance.choice(server.good)(chance)
    return chance.choice(
        [
            request("POST", path, b"{" * 200),
            request("POST", path, b'{"a": ' + b"[" * 50_000),
            request("POST", path, {"task_type": 1, "query": [], "jsonrpc": None}),
            request("PATCH", path, {}),
            request("GET", "/" + "x" * 5000),
            request("POST", path, b"\xff\xfe\x00", Content_Encoding="gzip"),
            request("GET", "/", Host="evil.example", Origin="http://[x"),
            b"NONSENSE\r\n\r\n",
            good[: len(good) // 2],  # the rest never comes: the caller leaves
            request("POST", path, b"").replace(
                b"Content-Length: 0", f"Content-Length: {LARGE}".encode()
            ),
        ]
    )


SERVERS = {
    each.name: each
    for each in (
        Server(
            "agent",
            ("agent", "RAG_RETRIEVE", "RAG_INGEST", "--mode", "bm25", "--dataset", "notes"),
            [
                *[ask_agent("/rag-retrieve/agents/run/sync", "RAG_RETRIEVE", queried)] * 7,
                ask_agent(
                    "/rag-ingest/agents/run/sync",
                    "RAG_INGEST",
                    # The same again changes nothing; of these, eight at once are accepted.
                    lambda chance: {
                        "documents": [{"docId": "tea", "text": "Tea is steeped."}],
                        "knowledgeBase": "soak",
                    },
                ),
                ask_agent("/rag-retrieve/agents/run/stream", "RAG_RETRIEVE", queried),
            ],
            "/rag-retrieve/agents/run/sync",
        ),
        Server(
            "mcp",
            ("mcp", "--mode", "bm25", "--dataset", "notes"),
            [
                lambda chance: request(
                    "POST", "/search_nfcorpus", {"query": query(chance), "top_k": 5}
                )
            ],
            "/mcp",
        ),
        Server(
            "purple",
            ("purple", "--mode", "bm25", "--dataset", "notes"),
            [lambda chance: a2a_message(chance, {"query": query(chance), "top_k": 5})],
            "/",
        ),
        Server(
            "green",
            ("green", "--dataset", "notes"),
            [
                lambda chance: request("GET", "/.well-known/agent-card.json"),
                lambda chance: request("GET", f"/tasks/{chance.getrandbits(64)}"),
                # An evaluation of an agent that is not there: it fails, and frees its place.
                lambda chance: request(
                    "POST",
                    "/tasks",
                    {
                        "participants": {"retrieval_agent": "http://127.0.0.1:9"},
                        "config": {"num_queries": 1},
                    },
                ),
            ],
            "/tasks",
        ),
        Server(
            "ui",
            ("ui",),
            [
                lambda chance: request("GET", "/"),
                lambda chance: request("GET", "/evaluate"),
                lambda chance: request("GET", "/compare"),
                lambda chance: request("GET", "/health"),
            ],
            "/evaluations",
        ),
    )
}


async def send(port: int, content: bytes, figures: Figures, *, expected: bool) -> None:
    """One request; `expected`: a response must come."""
    started = time.perf_counter()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(content)
                if not expected:
                    writer.write_eof()
                await writer.drain()
                answer = await reader.read(1_000_000)
                while more := await reader.read(1_000_000):
                    answer += more
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError):
        answer = b""
    if not answer.startswith(b"HTTP/1.1 "):
        figures.lost += expected
        figures.dropped += not expected
        return
    status = int(answer[9:12])
    figures.statuses[status] += 1
    if status in (429, 503):
        figures.overloaded += 1
    if expected:
        figures.latencies.append(time.perf_counter() - started)


async def traffic(
    server: Server, port: int, callers: int, seconds: float, least: int, seed: int
) -> Figures:
    """Callers for `seconds`, and until `least` requests were sent."""
    figures, sent = Figures(), 0
    end = time.monotonic() + seconds

    async def call(number: int) -> None:
        nonlocal sent
        chance = random.Random(seed * 10_000 + number)
        turn = number
        while time.monotonic() < end or sent < least:
            sent += 1
            turn += 1
            if turn % HOSTILE_EVERY == 0:
                await send(port, hostile(server, chance), figures, expected=False)
            else:
                await send(port, chance.choice(server.good)(chance), figures, expected=True)

    await asyncio.gather(*(call(number) for number in range(callers)))
    return figures


def resources(process: int, tasks: Path) -> dict[str, float]:
    """Of the server, as the operating system and its event loop say."""
    tasks.unlink(missing_ok=True)
    os.kill(process, signal.SIGUSR1)
    for _ in range(100):
        if tasks.exists() and tasks.read_text():
            break
        time.sleep(0.05)
    status = Path(f"/proc/{process}/status").read_text()
    facts = dict(line.split(":", 1) for line in status.splitlines())
    return {
        "MB": int(facts["VmRSS"].split()[0]) / 1024,
        "open files": len(list(Path(f"/proc/{process}/fd").iterdir())),
        "tasks": int(tasks.read_text()),
        "threads": int(facts["Threads"]),
    }


async def wait_until_ready(port: int, path: str) -> None:
    """Until it is answered with 200."""
    for _ in range(600):
        figures = Figures()
        await send(port, request("GET", path), figures, expected=True)
        if figures.statuses[200]:
            return
        await asyncio.sleep(0.2)
    raise SystemExit("the server did not become ready")


def percentile(values: Sequence[float], share: float) -> float:
    """In milliseconds."""
    ordered = sorted(values)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


async def soak(server: Server, arguments: argparse.Namespace) -> bool:
    """Whether nothing was lost and nothing grew."""
    with tempfile.TemporaryDirectory(prefix="assay-soak-") as folder:
        tasks = Path(folder, "tasks")
        environment = {
            **os.environ,
            "SOAK_TASKS": str(tasks),
            "ASSAY_CACHE": str(Path(folder, "cache")),
            "ASSAY_LOG_LEVEL": "ERROR",
        }
        command = [sys.executable, "-c", START, "serve", *server.arguments, "--port", "0"]
        with Path(folder, "log").open("wb") as log:
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            port = await _port(Path(folder, "log"))
            await wait_until_ready(port, "/health/ready")
            callers = arguments.callers
            seen, found = Figures(), []
            for window in range(arguments.windows):
                least = arguments.requests // arguments.windows
                seconds = arguments.seconds / arguments.windows
                seen.add(await traffic(server, port, callers, seconds, least, window))
                await asyncio.sleep(REST_S)
                found.append(resources(process.pid, tasks))
        finally:
            process.terminate()
            process.wait(30)
    return report(server, seen, found)


async def _port(log: Path) -> int:
    for _ in range(600):
        for word in log.read_text(errors="replace").split():
            if word.startswith("http://127.0.0.1:"):
                return int(word.removeprefix("http://127.0.0.1:").split("/")[0].rstrip(".,)"))
        await asyncio.sleep(0.1)
    raise SystemExit(f"no address in the log:\n{log.read_text(errors='replace')[-2000:]}")


def report(server: Server, seen: Figures, found: list[dict[str, float]]) -> bool:
    """Print a row of the table; whether all is well."""
    before, after = found[-2:]
    grown = {name: after[name] - before[name] for name in before}
    tenth = max(1, len(seen.latencies) // 10)
    first, last = seen.latencies[:tenth], seen.latencies[-tenth:]
    total = sum(seen.statuses.values()) + seen.lost + seen.dropped
    failed = sum(count for status, count in seen.statuses.items() if status == 500)
    well = not (seen.lost or failed or any(grown[name] > GROWTH[name] for name in grown))
    memory = " → ".join(f"{each['MB']:.0f}" for each in found)
    counts = [f"{before[name]:g} → {after[name]:g}" for name in GROWTH if name != "MB"]
    print(
        f"| {server.name} | {total:,} | {seen.lost} | {seen.overloaded:,} | {failed} "
        f"| {memory} | {', '.join(counts)} "
        f"| {statistics.median(seen.latencies) * 1000:.0f} "
        f"| {percentile(first, 0.99):.0f} → {percentile(last, 0.99):.0f} |",
        flush=True,
    )
    return well


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("server", nargs="*", help=f"of {', '.join(SERVERS)}; all by default")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--requests", type=int, default=4200, help="at least, for each server")
    parser.add_argument("--windows", type=int, default=4, help="in which the traffic comes")
    parser.add_argument("--callers", type=int, default=200)
    arguments = parser.parse_args()
    print(
        "| server | requests | lost | refused as busy | 500 | MB | open files, tasks, threads "
        "| median ms | p99 ms, first → last tenth |\n|---|---|---|---|---|---|---|---|---|"
    )
    well = [asyncio.run(soak(SERVERS[name], arguments)) for name in arguments.server or SERVERS]
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())

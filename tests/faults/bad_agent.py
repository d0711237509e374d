"""An A2A agent that misbehaves on purpose: the path of its address says how.

    http://127.0.0.1:PORT/slow      a card, and an agent that takes its time

Written on bare sockets, since a web server would not let it break the rules. The dataset is that of
`tiny_dataset`: query "query 7" has documents d7 (grade 2) and d8 (grade 1).
"""

import asyncio
import json
import os
import socket
import struct
import sys
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

METADATA = "http://169.254.169.254/latest/meta-data/"
HUGE = 50_000_000
DEATH = 12
"""How many calls the mode `dies` answers before its process ends."""

Out = asyncio.StreamWriter


@dataclass
class Ask:
    """One question: where to write, its JSON-RPC id and the number of its query."""

    out: Out
    agent: "BadAgent"
    call_id: object
    number: int
    times: int

    @property
    def right(self) -> list[str]:
        return [f"d{self.number}", f"d{self.number + 1}"]

    def answer(self, data: object) -> bytes:
        task = {
            "id": "t",
            "contextId": "c",
            "status": {"state": "TASK_STATE_COMPLETED"},
            "artifacts": [{"artifactId": "a", "parts": [{"data": data}]}],
        }
        return self.envelope({"task": task})

    def envelope(self, result: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": self.call_id, "result": result}).encode()

    def ids(self, *doc_ids: str) -> bytes:
        return http(self.answer({"doc_ids": list(doc_ids)}))


Mode = Callable[[Ask], Awaitable[bytes | None]]


def http(body: bytes, status: str = "200 OK", kind: str = "application/json", *more: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    return "\r\n".join([*head, "Connection: close", *more, "", ""]).encode() + body


async def fine(ask: Ask) -> bytes:
    return ask.ids(*ask.right)


async def slow(ask: Ask) -> bytes:
    await asyncio.sleep(0.2)
    return ask.ids(*ask.right)


async def hanging(ask: Ask) -> None:
    await ask.agent.stopping.wait()


async def error_500(_ask: Ask) -> bytes:
    return http(b"Internal Server Error: query text in a stack trace", "500 Oops", "text/plain")


async def first_502(ask: Ask) -> bytes:
    if ask.times == 1:
        return http(b"bad gateway", "502 Bad Gateway", "text/html", "Retry-After: 0")
    return ask.ids(*ask.right)


async def reset(ask: Ask) -> None:
    """Closing with unsent linger makes the kernel send RST instead of FIN."""
    connection: socket.socket = ask.out.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ask.out.transport.abort()


async def first_reset(ask: Ask) -> bytes | None:
    return await (reset(ask) if ask.times == 1 else fine(ask))


async def garbage(_ask: Ask) -> bytes:
    return http(b'{"jsonrpc": "2.0", "result": {"task": ')


async def not_http(_ask: Ask) -> bytes:
    return b"220 mail.example ready\r\n\r\n"


async def bare_list(ask: Ask) -> bytes:
    return http(ask.answer(ask.right))


async def wrong_shape(ask: Ask) -> bytes:
    return http(ask.answer({"documents": ask.right}))


async def numbers(ask: Ask) -> bytes:
    return http(ask.answer({"doc_ids": [1, 2]}))


async def rpc_nonsense(ask: Ask) -> bytes:
    return http(json.dumps({"jsonrpc": "2.0", "id": ask.call_id, "results": []}).encode())


async def failed_task(ask: Ask) -> bytes:
    status = {
        "state": "TASK_STATE_FAILED",
        "message": {"parts": [{"text": "INDEX_MISSING: the secret index"}]},
    }
    return http(ask.envelope({"task": {"id": "t", "status": status}}))


async def huge(ask: Ask) -> None:
    """Fifty megabytes of one answer, with no length announced."""
    ask.out.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    start = ask.answer({"doc_ids": ask.right, "padding": ""})[:-20]
    ask.out.write(start)
    for _ in range(HUGE // 100_000):
        ask.out.write(b"x" * 100_000)
        await ask.out.drain()
        ask.agent.sent += 100_000


async def announced_huge(_ask: Ask) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {HUGE}\r\n\r\n".encode() + b"x" * 1000


async def duplicates(ask: Ask) -> bytes:
    return ask.ids(*[ask.right[0]] * 5)


async def unknown(ask: Ask) -> bytes:
    return ask.ids("nonsense", "d-1", "D0")


async def too_many(ask: Ask) -> bytes:
    return ask.ids(*ask.right, *(f"d{i}" for i in range(1000, 1500)))


async def cut_off(ask: Ask) -> bytes:
    whole = ask.ids(*ask.right)
    return whole[:-30]


async def dies(ask: Ask) -> bytes:
    if sum(ask.agent.asked.values()) > DEATH:
        os._exit(1)
    return ask.ids(*ask.right)


async def redirects(_ask: Ask) -> bytes:
    more = f"Location: {METADATA}"
    return http(b"", "307 Temporary Redirect", "text/plain", more)


async def redirects_nearby(ask: Ask) -> bytes:
    """To another port of the same machine, where a trap counts who comes."""
    return http(b"", "308 Permanent Redirect", "text/plain", f"Location: {ask.agent.trap}")


async def endless_stream(ask: Ask) -> None:
    await _stream(ask, pause=0.02, padding=0)


async def flooding_stream(ask: Ask) -> None:
    await _stream(ask, pause=0.0, padding=10_000)


async def _stream(ask: Ask, pause: float, padding: int) -> None:
    ask.out.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    working = {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}, "x": "x" * padding}
    event = b"data: " + ask.envelope({"statusUpdate": working}) + b"\n\n"
    while not ask.agent.stopping.is_set():
        ask.out.write(event)
        await ask.out.drain()
        await asyncio.sleep(pause)


async def short_stream(ask: Ask) -> bytes:
    """Ends properly, but before the task does."""
    working = {"taskId": "t", "status": {"state": "TASK_STATE_WORKING"}}
    event = b"data: " + ask.envelope({"statusUpdate": working}) + b"\n\n"
    return http(event, "200 OK", "text/event-stream")


MODES: dict[str, Mode] = {
    mode.__name__: mode
    for mode in (
        *(fine, slow, hanging, error_500, first_502, reset, first_reset, garbage, not_http),
        *(bare_list, wrong_shape, numbers, rpc_nonsense, failed_task, huge, announced_huge),
        *(duplicates, unknown, too_many, cut_off, dies, redirects, redirects_nearby),
        *(endless_stream, flooding_stream, short_stream),
    )
}


class BadAgent:
    """Serves every mode; `asked` counts questions by mode and query, `sent` bytes of `huge`."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, int]] = Counter()
        self.sent = 0
        self.trapped = 0
        self.stopping = asyncio.Event()
        self.url = ""
        self.trap = ""

    async def start(self) -> list[asyncio.Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        trap = await asyncio.start_server(self._spring, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.trap = f"http://127.0.0.1:{trap.sockets[0].getsockname()[1]}/"
        return [server, trap]

    def card(self, mode: str) -> bytes | None:
        urls = {
            "wildcard_card": self.url.replace("127.0.0.1", "0.0.0.0") + "/fine",
            "unknown_host_card": "http://no-such-host.invalid:9009/fine",
            "closed_port_card": "http://127.0.0.1:1/fine",
        }
        if mode == "broken_card":
            return b"<html>welcome</html>"
        if mode not in MODES and mode not in urls:
            return None
        interface = {
            "protocolBinding": "JSONRPC",
            "protocolVersion": "1.0",
            "url": urls.get(mode, f"{self.url}/{mode}"),
        }
        streaming = {"streaming": True}
        card = {"name": mode, "supportedInterfaces": [interface], "capabilities": streaming}
        return json.dumps(card).encode()

    async def _serve(self, reader: asyncio.StreamReader, out: Out) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            method, path = head.split()[:2]
            reply = await (self._get(path) if method == "GET" else self._post(reader, head, out))
            if reply is not None:
                out.write(reply)
                await out.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the caller has left, as it should
        finally:
            out.close()

    async def _get(self, path: str) -> bytes:
        mode, _, rest = path.strip("/").partition("/")
        if mode == "redirected_card":
            return http(b"", "302 Found", "text/plain", f"Location: {METADATA}")
        card = self.card(mode) if rest == ".well-known/agent-card.json" else None
        return http(b"", "404 Not Found") if card is None else http(card)

    async def _post(self, reader: asyncio.StreamReader, head: str, out: Out) -> bytes | None:
        length = next(
            int(line.partition(":")[2])
            for line in head.splitlines()
            if line.lower().startswith("content-length")
        )
        call: dict[str, Any] = json.loads(await reader.readexactly(length))
        question = json.loads(call["params"]["message"]["parts"][0]["text"])
        number = int(question["query"].split()[1])
        # Below the path of a mode whose card was rebased stands the mode that really answers.
        mode = head.split()[1].rstrip("/").rpartition("/")[2]
        self.asked[mode, number] += 1
        ask = Ask(out, self, call["id"], number, self.asked[mode, number])
        return await MODES[mode](ask)

    async def _spring(self, _reader: asyncio.StreamReader, out: Out) -> None:
        self.trapped += 1
        out.close()


async def _until_stopped(agent: BadAgent, started: Callable[[], None]) -> None:
    servers = await agent.start()
    started()
    await agent.stopping.wait()
    for server in servers:
        server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


@contextmanager
def bad_agent() -> Iterator[BadAgent]:
    """One that runs in a thread of its own, so that nothing it does holds up its caller."""
    agent = BadAgent()
    ready = threading.Event()
    loop = asyncio.new_event_loop()

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(_until_stopped(agent, ready.set))

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait(10)
    try:
        yield agent
    finally:
        loop.call_soon_threadsafe(agent.stopping.set)
        thread.join(10)


if __name__ == "__main__":
    alone = BadAgent()
    asyncio.run(_until_stopped(alone, lambda: print(alone.url, flush=True)))
    sys.exit(0)

"""What targets send, fail with and hide, seen from the command line and the wire."""

import json
import re
import socketserver
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.system.conftest import Assay

QUESTIONS = 12


@pytest.fixture
def questions(tmp_path: Path) -> str:
    rows = [f"question number {place},d{place}" for place in range(QUESTIONS)]
    (tmp_path / "questions.csv").write_text("\n".join(["question,expected_ids", *rows]))
    return "questions.csv"


def reply(body: bytes, status: str = "200 OK", *, more: str = "") -> bytes:
    """An HTTP response as it travels."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def ids(*doc_ids: str) -> bytes:
    """A search response with these documents."""
    return reply(json.dumps({"results": [{"id": each} for each in doc_ids]}).encode())


@contextmanager
def listening(answer: Callable[[str, str, bytes], bytes]) -> Iterator[str]:
    """A server on raw sockets: `answer` takes the request line, the head and the body."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while line := self.rfile.readline().decode():
                head = "".join(iter(lambda: self.rfile.readline().decode(), "\r\n"))
                sizes = [
                    int(each.partition(":")[2])
                    for each in head.splitlines()
                    if each.lower().startswith("content-length:")
                ]
                body = self.rfile.read(sizes[0]) if sizes else b""
                self.wfile.write(answer(line, head, body))

    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def number_in(line: str) -> int:
    """Which question a request line asks; -1 for any other request."""
    return int(line.partition("number%20")[2].split("&")[0].split(" ")[0] or -1)


def calls(folder: Path) -> list[dict[str, object]]:
    (path,) = folder.glob("runs/*/calls.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def _mcp_handshake(message: dict[str, Any]) -> bytes:
    if "id" not in message:
        return reply(b"", "202 Accepted")
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    results: dict[str, Any] = {
        "initialize": {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "search", "inputSchema": schema}]},
    }
    method = message["method"]
    error = {"code": -32601, "message": "unknown"}
    found = {"result": results[method]} if method in results else {"error": error}
    return reply(json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}).encode())


def _mcp(doc_id: str, body: bytes) -> bytes:
    text = json.dumps({"results": [{"id": doc_id}]})
    result = {"content": [{"type": "text", "text": text}]}
    answer = {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}
    return reply(json.dumps(answer).encode())


@pytest.mark.parametrize("kind", ["rest", "mcp"])
def test_a_second_response_is_not_read_as_the_answer_to_the_next_query(
    assay: Assay, questions: str, tmp_path: Path, kind: str
) -> None:
    """The stray one names the right document of no question. MCP has an HTTP client of its own."""

    def answer(line: str, _head: str, body: bytes) -> bytes:
        found = re.search(r"question(?:%20| )number(?:%20| )(\d+)", line + body.decode())
        if found is None:
            is_mcp = line.startswith("POST")
            return _mcp_handshake(json.loads(body)) if is_mcp else reply(b"{}", "404 Not Found")
        right, stray = f"d{found[1]}", "stray"
        return _mcp(right, body) + _mcp(stray, body) if kind == "mcp" else ids(right) + ids(stray)

    with listening(answer) as url:
        target = f"mcp:{url}/mcp" if kind == "mcp" else f"rest:{url}/?q={{query}}"
        result = assay("eval", target, "--dataset", questions, "--warm-up=0", "--concurrency=1")
    assert result.returncode == 0, result.stderr
    answered = {str(each["query_id"]): each["doc_ids"] for each in calls(tmp_path)}
    assert len(answered) == QUESTIONS
    assert "stray" not in str(answered)


def test_no_cookie_of_an_agent_comes_back(assay: Assay, questions: str) -> None:
    heads: list[str] = []

    def answer(line: str, head: str, _body: bytes) -> bytes:
        heads.append(head.lower())
        found = ids(f"d{number_in(line)}")
        return found.replace(
            b"Content-Length",
            b"Set-Cookie: c%d=%s\r\nContent-Length" % (len(heads), b"x" * 1000),
            1,
        )

    with listening(answer) as url:
        result = assay("eval", f"rest:{url}/?q={{query}}", "--dataset", questions, "--warm-up=0")
    assert result.returncode == 0, result.stderr
    assert len(heads) > QUESTIONS
    assert not [head for head in heads if "\ncookie:" in head]


@pytest.mark.parametrize("place", ["doc_ids", "answer", "error"])
def test_a_token_that_an_agent_repeats_is_nowhere_in_the_run(
    assay: Assay, questions: str, tmp_path: Path, place: str
) -> None:
    def answer(_line: str, head: str, _body: bytes) -> bytes:
        found = re.search(r"x-own: (\S+)", head, re.IGNORECASE)
        token = found[1] if found else ""
        if place == "error":
            return reply(json.dumps({"message": f"not {token}"}).encode(), "400 Bad Request")
        said: dict[str, object] = {"results": [{"id": "d1"}], "answer": "no"}
        said[{"doc_ids": "results"}.get(place, place)] = (
            [{"id": token}] if place == "doc_ids" else f"You sent {token}."
        )
        return reply(json.dumps(said).encode())

    with listening(answer) as url:
        result = assay(
            "eval",
            f"rest:{url}/?q={{query}}",
            *("--dataset", questions, "--header", "X-Own: $OWN_HEADER", "--warm-up=0"),
            OWN_HEADER="canary-5c1f",
        )
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert not [path for path in written if b"canary-5c1f" in path.read_bytes()]
    assert "canary-5c1f" not in result.stdout + result.stderr


@pytest.mark.parametrize("when", ["call", "import"])
def test_a_key_in_an_exception_of_a_function_is_nowhere(
    assay: Assay, questions: str, tmp_path: Path, when: str
) -> None:
    leak = "raise ValueError('refused ' + os.environ['VENDOR_API_KEY'])"
    body = f"    {leak}" if when == "call" else "    return []"
    top = leak if when == "import" else ""
    (tmp_path / "leaky.py").write_text(f"import os\n{top}\ndef find(query, top_k):\n{body}\n")
    result = assay(
        "eval", "python:leaky:find", "--dataset", questions, VENDOR_API_KEY="canary-77aa-9"
    )
    assert "refused ***" in " ".join((result.stdout + result.stderr).split())
    assert "canary-77aa-9" not in result.stdout + result.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if b"canary-77aa-9" in path.read_bytes()]


def test_a_local_module_replaces_none_of_a_child(assay: Assay, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('hijacked')\n")
    result = assay("eval", "purple:bm25", "--dataset", "notes", "--num-queries", "2")
    assert "hijacked" not in result.stderr
    assert result.returncode == 0, result.stderr


PRIVACY = """
import asyncio, json, pathlib, sys, threading
import assay

begun = {name: threading.Event() for name in ("first", "second", "public")}
go = {name: threading.Event() for name in begun}

def run(name, private):
    def search(query, top_k):
        begun[name].set()
        go[name].wait(60)
        return {"doc_ids": ["d1"], "answer": f"ANSWER-{name}"}
    assay.evaluate(search, "questions.csv", private=private, out=name)

def start(name, private):
    thread = threading.Thread(target=run, args=(name, private))
    thread.start()
    assert begun[name].wait(60)
    return thread

first, second, public = start("first", True), start("second", True), start("public", False)
for name, thread in (("first", first), ("public", public), ("second", second)):
    go[name].set()
    thread.join()
"""


def test_private_mode_belongs_to_one_run(questions: str, tmp_path: Path) -> None:
    """The first private run ends while the second goes on, and a public one starts meanwhile."""
    assert questions
    (tmp_path / "overlap.py").write_text(PRIVACY)
    done = subprocess.run(
        [sys.executable, "overlap.py"], cwd=tmp_path, capture_output=True, text=True, timeout=110
    )
    assert done.returncode == 0, done.stderr
    for name, texts in (("first", False), ("second", False), ("public", True)):
        written = [path.read_bytes() for path in (tmp_path / name).rglob("*") if path.is_file()]
        assert written
        assert any(b"question number" in each for each in written) is texts, name


FLOOD = """
import json, sys

def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")

for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                 "serverInfo": {"name": "flood", "version": "1"}}
        send({"id": asked["id"], "result": about})
    elif asked.get("method") == "tools/list":
        schema = {"type": "object", "properties": {"query": {"type": "string"}}}
        send({"id": asked["id"], "result": {"tools": [{"name": "search", "inputSchema": schema}]}})
    elif asked.get("method") == "tools/call":
        ask = {"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 1000}}],
               "maxTokens": 1}
        for number in range(20_000):
            send({"id": f"s{number}", "method": "sampling/createMessage", "params": ask})
        text = json.dumps({"results": [{"id": "d1"}]})
        send({"id": asked["id"], "result": {"content": [{"type": "text", "text": text}]}})
    sys.stdout.flush()
"""


def test_requests_without_end_are_cut_off(assay: Assay, questions: str, tmp_path: Path) -> None:
    (tmp_path / "flood.py").write_text(FLOOD)
    target = f"mcp-stdio:{sys.executable} flood.py"
    assay(
        *("eval", target, "--dataset", questions, "--num-queries=1", "--warm-up=0"),
        *("--retries=0", "--timeout=30"),
    )
    (call,) = calls(tmp_path)
    assert "requests without end" in str(call)

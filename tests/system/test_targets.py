"""What targets send, fail with and hide, seen from the command line and the wire."""

import json
import os
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
    """Twelve questions, each with one expected document."""
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


def report(folder: Path) -> dict[str, object]:
    """The report of the only run in `folder`."""
    (path,) = folder.glob("runs/*/report.json")
    found: dict[str, object] = json.loads(path.read_text())
    return found


def test_a_page_that_says_http_401_does_not_end_the_run(
    assay: Assay, questions: str, tmp_path: Path
) -> None:
    def answer(line: str, _head: str, _body: bytes) -> bytes:
        return reply(b'{"message": "HTTP 401 is explained on this page"}')

    with listening(answer) as url:
        result = assay("eval", f"rest:{url}/?q={{query}}", "--dataset", questions, "--warm-up=0")
    assert "in a row" not in result.stderr
    assert len(calls(tmp_path)) == QUESTIONS


@pytest.mark.parametrize("first", ["500 Internal Server Error", "418 I'm a teapot"])
def test_one_error_does_not_hide_refused_credentials(
    assay: Assay, questions: str, first: str
) -> None:
    def answer(line: str, _head: str, _body: bytes) -> bytes:
        return reply(b"{}", first if number_in(line) in (-1, 0) else "403 Forbidden")

    with listening(answer) as url:
        target = f"rest:{url}/?q={{query}}"
        result = assay(
            "eval", target, "--dataset", questions, "--warm-up=0", "--concurrency=1", "--seed=0"
        )
    assert result.returncode == 3
    assert "HTTP 403 for 5 queries in a row" in result.stderr


def calls(folder: Path) -> list[dict[str, object]]:
    """The call log of the only run in `folder`."""
    (path,) = folder.glob("runs/*/calls.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def _openai(doc_id: str, _body: bytes) -> bytes:
    message = {"role": "assistant", "content": "yes", "context": {"doc_ids": [doc_id]}}
    return reply(json.dumps({"choices": [{"index": 0, "message": message}]}).encode())


def _handshake(kind: str, line: str, body: bytes) -> bytes:
    """What a server of this kind answers before the first query."""
    if kind == "a2a" and "/.well-known/agent-card.json" in line:
        card = {"name": "agent", "url": "http://127.0.0.1", "protocolVersion": "0.3.0"}
        return reply(json.dumps(card).encode())
    if kind == "mcp" and line.startswith("POST"):
        return _mcp_handshake(json.loads(body))
    return reply(b'{"status": "ok"}') if kind == "http" else reply(b"{}", "404 Not Found")


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


def _a2a(doc_id: str, body: bytes) -> bytes:
    part = {"kind": "data", "data": {"doc_ids": [doc_id]}}
    message = {"kind": "message", "messageId": "1", "role": "agent", "parts": [part]}
    return reply(
        json.dumps({"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": message}).encode()
    )


def _contract(doc_id: str, body: bytes) -> bytes:
    request = json.loads(body)
    answer = {
        "request_id": request["request_id"],
        "task_type": request["task_type"],
        "status": "success",
        "outputs": {"chunks": [{"chunk_id": doc_id, "doc_id": doc_id, "text": "x"}]},
    }
    return reply(json.dumps(answer).encode())


def _rest(doc_id: str, _body: bytes) -> bytes:
    return ids(doc_id)


WIRES = {"rest": _rest, "openai": _openai, "mcp": _mcp, "a2a": _a2a, "http": _contract}


@pytest.mark.parametrize("kind", WIRES)
def test_a_second_response_is_not_read_as_the_answer_to_the_next_query(
    assay: Assay, questions: str, tmp_path: Path, kind: str
) -> None:
    """The stray response names the right document of no question."""

    def answer(line: str, _head: str, body: bytes) -> bytes:
        asked = line if kind == "rest" else body.decode()
        found = re.search(r"question(?:%20| )number(?:%20| )(\d+)", asked)
        if found is None:
            return _handshake(kind, line, body)
        doc_id = f"d{found[1]}"
        return WIRES[kind](doc_id, body) + WIRES[kind]("stray", body)

    with listening(answer) as url:
        targets = {
            "rest": f"rest:{url}/?q={{query}}",
            "openai": f"openai:{url}/v1#m",
            "mcp": f"mcp:{url}/mcp",
            "a2a": f"a2a:{url}",
            "http": f"http:{url}=RAG_RETRIEVE",
        }
        result = assay(
            "eval", targets[kind], "--dataset", questions, "--warm-up=0", "--concurrency=1"
        )
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


PLUGIN = """
class Echo:
    def __init__(self, address):
        self.address = address

    def ask(self, query, top_k):
        return [self.address + query.rpartition(" ")[2]]

def open_echo(address, context):
    from assay.targets.python_call import as_agent
    return as_agent(Echo(address), name="echo:" + address)
"""


def test_an_installed_package_adds_a_kind_of_target(questions: str, tmp_path: Path) -> None:
    (tmp_path / "echo_plugin.py").write_text(PLUGIN)
    installed = tmp_path / "echo_plugin-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: echo-plugin\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[assay.targets]\necho = echo_plugin:open_echo\n")
    done = subprocess.run(
        [sys.executable, "-m", "assay", "eval", "echo:d", "--dataset", questions],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    found = {str(each["doc_ids"]) for each in calls(tmp_path)}
    assert found == {f"['d{place}']" for place in range(QUESTIONS)}


def test_a_module_in_the_working_folder_does_not_replace_one_of_a_child(
    assay: Assay, tmp_path: Path
) -> None:
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


def test_a_server_that_sends_requests_without_end_is_cut_off(
    assay: Assay, questions: str, tmp_path: Path
) -> None:
    (tmp_path / "flood.py").write_text(FLOOD)
    target = f"mcp-stdio:{sys.executable} flood.py"
    assay(
        *("eval", target, "--dataset", questions, "--num-queries=1", "--warm-up=0"),
        *("--retries=0", "--timeout=30"),
    )
    (call,) = calls(tmp_path)
    assert "requests without end" in str(call)


def test_doctor_suggests_the_separator_of_chunk_ids_for_a_table(
    assay: Assay, questions: str
) -> None:
    def answer(line: str, _head: str, _body: bytes) -> bytes:
        return ids("d1::0", "d2::3")

    with listening(answer) as url:
        result = assay("doctor", f"rest:{url}/?q={{query}}", "--dataset", questions, "--json")
    assert "--map 'chunk=::'" in result.stdout

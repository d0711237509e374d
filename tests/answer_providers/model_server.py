"""A real HTTP server that speaks as the three services do, their errors included."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Fault = tuple[int, dict[str, str], Any]
WAITS = -1
"""In place of a status: take the request and say nothing until the server stops."""


def _reply(path: str, body: dict[str, Any], text: str) -> dict[str, Any]:
    if path == "/api/chat":
        return {
            "model": body["model"],
            "created_at": "2026-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": text},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 12,
            "eval_count": 3,
        }
    if path == "/v1/messages":
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 12, "output_tokens": 3},
        }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": body["model"],
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }


class ModelServer:
    """`faults` are answered first, one for each request; after them `text`, in each's shape.

    `reply`, where it is set, makes the text from the prompt. `patch` is laid over a good reply.
    `most_at_once` counts requests in the house together.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.faults: list[Fault] = []
        self.text = "TRUE"
        self.reply: Callable[[str], str] | None = None
        self.patch: dict[str, Any] = {}
        self.most_at_once = 0
        self._inside = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.gate: threading.Barrier | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with server._lock:
                    server.requests.append((self.path, body, headers))
                    server._inside += 1
                    server.most_at_once = max(server.most_at_once, server._inside)
                    fault = server.faults.pop(0) if server.faults else None
                if server.gate is not None:
                    server.gate.wait(10)
                with server._lock:  # before the reply: after it the client may be back already
                    server._inside -= 1
                self._answer(fault, body)

            def _answer(self, fault: Fault | None, body: dict[str, Any]) -> None:
                prompt = body["messages"][0]["content"]
                text = server.reply(prompt) if server.reply else server.text
                good = {**_reply(self.path, body, text), **server.patch}
                status, extra, content = fault or (200, {}, good)
                if status == WAITS:
                    server._closing.wait(30)
                    return
                raw = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                described = {"Content-Type": "application/json", "Content-Length": str(len(raw))}
                for name, value in {**described, **extra}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    @property
    def last_body(self) -> dict[str, Any]:
        return self.requests[-1][1]

    @contextmanager
    def running(self) -> Iterator["ModelServer"]:
        thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self._closing.set()
            self.http.shutdown()
            thread.join()
            self.http.server_close()

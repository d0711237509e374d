"""A real HTTP server that answers in JSON, which the stubs of services in the tests stand on."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Answer = tuple[int, Mapping[str, str], Any]
"""Status, further headers, and the value, or bytes that are sent as they are."""


@dataclass(frozen=True)
class JsonRequest:
    """What was asked; the names of `headers` are in lower case, `body` is {} without one."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class JsonServer:
    """Listens from its making on, and answers while it is `running`."""

    def __init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                length = int(headers.get("content-length", "0"))
                raw = self.rfile.read(length)
                if len(raw) < length:  # the client was killed while it sent
                    self.close_connection = True
                    return
                body = json.loads(raw) if raw else {}
                answer = server.answer(JsonRequest(self.command, self.path, headers, body))
                if answer is None:
                    self.close_connection = True
                    return
                status, extra, value = answer
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                usual = {"Content-Type": "application/json", "Content-Length": str(len(content))}
                self.send_response(status)
                for name, text in {**usual, **extra}.items():
                    if text:  # "" leaves out what is usual
                        self.send_header(name, text)
                with suppress(ConnectionError):  # the client was killed, or gave up
                    self.end_headers()
                    self.wfile.write(content)

            do_GET = do_PUT = do_DELETE = do_POST

            def finish(self) -> None:
                super().finish()
                self.connection.close()

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def answer(self, request: JsonRequest) -> Answer | None:
        """What is answered, in a thread for each connection; None for nothing at all."""
        raise NotImplementedError

    @contextmanager
    def running(self) -> Iterator[Self]:
        thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield self
        finally:
            self.http.shutdown()
            thread.join()
            self.http.server_close()

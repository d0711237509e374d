"""A server of files, as hubs and mirrors are: redirects, and ways to go wrong."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class FileServer(ThreadingHTTPServer):
    """Serves `files` by path; `seen` are the paths that were asked for.

    `cut` is how many bytes of a body are sent before the connection ends, and how often;
    `redirected` maps paths to addresses; `statuses` are answered instead of a file.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.seen: list[str] = []
        self.tokens: list[str | None] = []
        self.cut: tuple[int, int] = (0, 0)
        self.redirected: dict[str, str] = {}
        self.statuses: dict[str, int] = {}
        self.length = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FileServer

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.seen.append(path)
        self.server.tokens.append(self.headers.get("Authorization"))
        if path in self.server.redirected:
            self.send_response(302)
            self.send_header("Location", self.server.redirected[path])
            self.end_headers()
        elif path in self.server.statuses or path not in self.server.files:
            self.send_error(self.server.statuses.get(path, 404))
        else:
            self._send(self.server.files[path])

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        if self.server.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        after, times = self.server.cut
        if times:
            self.server.cut = (after, times - 1)
            self.wfile.write(body[:after])
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()


@contextmanager
def file_server() -> Iterator[FileServer]:
    """A running server, stopped at the end."""
    with FileServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def publish(server: FileServer, repo: str, files: dict[str, bytes], commit: str = "a" * 40) -> None:
    """Put a data set on the server as a hub has it: its list of files, and the files."""
    listing = {"id": repo, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
    server.files[f"/api/datasets/{repo}"] = json.dumps(listing).encode()
    server.files[f"/api/datasets/{repo}/revision/{commit}"] = json.dumps(listing).encode()
    for name, content in files.items():
        server.files[f"/datasets/{repo}/resolve/{commit}/{name}"] = content

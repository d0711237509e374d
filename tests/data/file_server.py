"""A server of files, as hubs and mirrors are: redirects, and ways to go wrong."""

import json
from urllib.parse import unquote, urlsplit

from tests.json_server import Answer, JsonRequest, JsonServer


class FileServer(JsonServer):
    """Serves `files` by path; `seen` are the paths that were asked for.

    `cut` is how many bytes of a body are sent before the connection ends, and how often;
    `redirected` maps paths to addresses; `statuses` are answered instead of a file; without
    `length`, the length of a body is not declared.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.seen: list[str] = []
        self.tokens: list[str | None] = []
        self.cut: tuple[int, int] = (0, 0)
        self.redirected: dict[str, str] = {}
        self.statuses: dict[str, int] = {}
        self.length = True

    def answer(self, request: JsonRequest) -> Answer:
        path = unquote(urlsplit(request.path).path)
        self.seen.append(path)
        self.tokens.append(request.headers.get("authorization"))
        if path in self.redirected:
            return 302, {"Location": self.redirected[path]}, b""
        if path in self.statuses or path not in self.files:
            return self.statuses.get(path, 404), {}, b""
        body = self.files[path]
        headers = {"Content-Length": str(len(body)) if self.length else "", "Connection": "close"}
        after, times = self.cut
        self.cut = (after, max(0, times - 1))
        return 200, headers, body[:after] if times else body


def publish(server: FileServer, repo: str, files: dict[str, bytes], commit: str = "a" * 40) -> None:
    """Put a data set on the server as a hub has it: its list of files, and the files."""
    listing = {"id": repo, "sha": commit, "siblings": [{"rfilename": name} for name in files]}
    server.files[f"/api/datasets/{repo}"] = json.dumps(listing).encode()
    server.files[f"/api/datasets/{repo}/revision/{commit}"] = json.dumps(listing).encode()
    for name, content in files.items():
        server.files[f"/datasets/{repo}/resolve/{commit}/{name}"] = content

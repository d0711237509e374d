"""Nextcloud's Notes API, version 1, as its documentation and its source describe it.

Kept: basic authentication, titles as file names (characters dropped, cut after 100, numbered when
taken), etags, listings by category with `exclude`, `pruneBefore` (which goes by when the server saw
a change, not by the note's own date), and chunks with a cursor. Also the two answers that a
Nextcloud MCP server wants from elsewhere.
"""

import base64
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from tests.json_server import Answer, JsonRequest, JsonServer

USER, PASSWORD = "ada", "very-secret-app-password"
_BASIC = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
_PATH = re.compile(r"(?:/index\.php)?/apps/notes/api/v1/(?:notes(?:/(\d+))?|(settings))")
_VERSIONS = {"X-Notes-API-Versions": "0.2, 1.4"}
_CAPABILITIES = {
    "/ocs/v2.php/cloud/capabilities": {
        "version": {"major": 31},
        "capabilities": {"notes": {"api_version": ["0.2", "1.4"]}},
    },
    "/ocs/v2.php/apps/files_sharing/api/v1/shares": [],
}


@dataclass
class StoredNote:
    id: int
    title: str
    content: str
    category: str
    modified: int
    last_update: int

    @property
    def etag(self) -> str:
        return hashlib.md5(repr((self.title, self.content, self.category)).encode()).hexdigest()

    def data(self, exclude: str = "") -> dict[str, Any]:
        whole = {"readonly": False, "favorite": False, "etag": self.etag, **vars(self)}
        left_out = {*exclude.split(","), "last_update"}
        return {name: value for name, value in whole.items() if name not in left_out}


@dataclass
class Fault:
    """The next request of this method gets this status; `done`: after it was carried out."""

    method: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    done: bool = False


class NoteStore:
    def __init__(self) -> None:
        self.notes: dict[int, StoredNote] = {}
        self.clock: Callable[[], int] = lambda: int(time.time())
        self._next_id = 100

    def add(self, title: str, content: str, category: str) -> StoredNote:
        self._next_id += 1
        title, now = self.free_title(title, category), self.clock()
        note = StoredNote(self._next_id, title, content, category, now, now)
        self.notes[note.id] = note
        return note

    def free_title(self, title: str, category: str, own: int | None = None) -> str:
        wished = re.sub(r'[*|/\\:"<>?]', "", title).strip().split("\n")[0]
        wished = re.sub(r"\s", " ", wished)[:100] or "New note"
        taken = {n.title for n in self.notes.values() if n.category == category and n.id != own}
        free, number = wished, 1
        while free in taken:
            number += 1
            suffix = f" ({number})"
            free = wished[: 100 - len(suffix)] + suffix
        return free


class NotesServer(NoteStore, JsonServer):
    """`requests` are method, path and query of each. Once more notes than
    `hold_after` are there, a creation is carried out and not answered until the server ends.
    `meddle` does something to each note that is created or changed; `cursors` lead listings on.
    """

    def __init__(self) -> None:
        NoteStore.__init__(self)
        JsonServer.__init__(self)
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.faults: list[Fault] = []
        self.hold_after: int | None = None
        self.meddle: Callable[[StoredNote], None] = lambda note: None
        self.cursors: Iterator[str] = iter(())
        self.held = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()

    def titles(self) -> list[str]:
        return sorted(note.title for note in self.notes.values())

    def count(self, method: str) -> int:
        return sum(1 for each, _, _ in self.requests if each == method)

    @contextmanager
    def running(self) -> Iterator[Self]:
        with super().running():
            try:
                yield self
            finally:
                self._stopping.set()

    def answer(self, request: JsonRequest) -> Answer:
        address = urlsplit(request.path)
        query = dict(parse_qsl(address.query))
        self.requests.append((request.method, address.path, query))
        if request.headers.get("authorization") != _BASIC:
            return 401, {}, {"message": "Current user is not logged in"}
        with self._lock:
            fault = next((each for each in self.faults if each.method == request.method), None)
            if fault is not None:
                self.faults.remove(fault)
            if fault is None or fault.done:
                status, headers, value = self._carried_out(request, address.path, query)
            if fault is not None:
                return fault.status, fault.headers, {"errorType": "x"}
        held = self.hold_after is not None and len(self.notes) > self.hold_after
        if held and request.method == "POST":
            self.held.set()
            self._stopping.wait(60)
        return status, {**headers, **_VERSIONS}, value

    def _carried_out(self, request: JsonRequest, path: str, query: Mapping[str, str]) -> Answer:
        if path in _CAPABILITIES:
            meta = {"status": "ok", "statuscode": 200}
            return 200, {}, {"ocs": {"meta": meta, "data": _CAPABILITIES[path]}}
        match, body = _PATH.fullmatch(path), request.body
        if match is None:
            return 404, {}, {}
        if match[2]:
            return 200, {}, {"notesPath": "Notes", "fileSuffix": ".md"}
        if request.method == "POST":
            note = self.add(*(body.get(name, "") for name in ("title", "content", "category")))
            self.meddle(note)
            return 200, {}, note.data()
        if match[1] is None:
            return self._list(query)
        if (found := self.notes.get(int(match[1]))) is None:
            return 404, {}, {"errorType": "NoteDoesNotExistException"}
        if request.method == "DELETE":
            del self.notes[found.id]
            return 200, {}, []
        if request.method == "PUT":
            return self._update(found, body)
        return 200, {"ETag": f'"{found.etag}"'}, found.data(query.get("exclude", ""))

    def _update(self, note: StoredNote, body: Mapping[str, Any]) -> Answer:
        note.content = body.get("content", note.content)
        if body.get("title", note.title) != note.title:
            note.title = self.free_title(body["title"], note.category, note.id)
        note.category = body.get("category", note.category)
        note.modified = body.get("modified", self.clock())
        note.last_update = self.clock()
        self.meddle(note)
        return 200, {}, note.data()

    def _list(self, query: Mapping[str, str]) -> Answer:
        category = query.get("category")
        prune, size = int(query.get("pruneBefore", 0)), int(query.get("chunkSize", 0))
        # A cursor holds when the listing began, and the note after which it goes on.
        started, *after = map(int, query.get("chunkCursor", f"{self.clock()}-0-0").split("-"))
        all_notes = [n for n in self.notes.values() if category is None or n.category == category]
        full = sorted(
            (n for n in all_notes if n.last_update >= prune and [n.last_update, n.id] > after),
            key=lambda n: (n.last_update, n.id),
        )
        part = full[:size] if size else full
        data = [n.data(query.get("exclude", "")) for n in part]
        headers = {"Last-Modified": format_datetime(datetime.fromtimestamp(started, UTC), True)}
        if len(part) < len(full):
            headers["X-Notes-Chunk-Cursor"] = f"{started}-{part[-1].last_update}-{part[-1].id}"
        else:
            sent = {n.id for n in part}
            data += [{"id": n.id} for n in all_notes if n.id not in sent]
        if cursor := next(self.cursors, None):
            headers["X-Notes-Chunk-Cursor"] = cursor
        return 200, headers, data

"""Nextcloud's Notes API, version 1, as its documentation and its source describe it.

Kept: basic authentication, titles as file names (characters dropped, cut after 100, numbered when
taken), etags and If-Match, listings by category with `exclude`, `pruneBefore` (which goes by when
the server saw a change, not by the note's own date), chunks with a cursor, and the tag of a
listing. Also the two answers that a Nextcloud MCP server wants from elsewhere.
"""

import asyncio
import base64
import hashlib
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

USER, PASSWORD = "ada", "very-secret-app-password"
API = "/index.php/apps/notes/api/v1"
_VERSIONS = {"X-Notes-API-Versions": "0.2, 1.4"}


@dataclass
class StoredNote:
    id: int
    title: str
    content: str
    category: str
    favorite: bool
    modified: int
    last_update: int = 0

    @property
    def etag(self) -> str:
        return hashlib.md5(repr((self.title, self.content, self.category)).encode()).hexdigest()

    def data(self, exclude: list[str]) -> dict[str, Any]:
        whole = {
            "id": self.id,
            "etag": self.etag,
            "readonly": False,
            "modified": self.modified,
            "title": self.title,
            "category": self.category,
            "content": self.content,
            "favorite": self.favorite,
        }
        return {name: value for name, value in whole.items() if name not in exclude}


@dataclass
class Fault:
    """The next request of this method gets this status; `done`: after it was carried out."""

    method: str
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    done: bool = False
    body: Any = field(default_factory=lambda: {"errorType": "x"})

    def response(self) -> Response:
        if self.status == 304:  # has no body
            return Response(status_code=304, headers=self.headers)
        return JSONResponse(self.body, self.status, headers=self.headers)


class NotesServer:
    """`requests` are method, path and query of each. Once more notes than
    `hold_after` are there, a creation is carried out and not answered until the server ends.
    `meddle` does something to each note that is created or changed; `cursors` lead listings on.
    """

    def __init__(self) -> None:
        self.notes: dict[int, StoredNote] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.faults: list[Fault] = []
        self.clock: Callable[[], int] = lambda: int(time.time())
        self.hold_after: int | None = None
        self.meddle: Callable[[StoredNote], None] = lambda note: None
        self.cursors: Iterator[str] = iter(())
        self.held = threading.Event()
        self.url = ""
        self._next_id = 100
        self._stopping = threading.Event()

    def titles(self) -> list[str]:
        return sorted(note.title for note in self.notes.values())

    def count(self, method: str) -> int:
        return sum(1 for each, _, _ in self.requests if each == method)

    def add(self, title: str, content: str, category: str) -> StoredNote:
        self._next_id += 1
        note = StoredNote(self._next_id, "", content, category, False, self.clock())
        note.title = self._free_title(title, category)
        note.last_update = self.clock()
        self.notes[note.id] = note
        return note

    @contextmanager
    def running(self) -> Iterator["NotesServer"]:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            self.app(), log_config=None, access_log=False, timeout_graceful_shutdown=1
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            server.should_exit = True
            thread.join()
            listener.close()

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route(f"{prefix}{path}", self._answered, methods=methods)
                for prefix in (API, API.removeprefix("/index.php"))
                for path, methods in (
                    ("/notes", ["GET", "POST"]),
                    ("/notes/{id:int}", ["GET", "PUT", "DELETE"]),
                    ("/settings", ["GET"]),
                )
            ]
            + [
                Route("/ocs/v2.php/cloud/capabilities", _capabilities),
                Route("/ocs/v2.php/apps/files_sharing/api/v1/shares", _no_shares),
            ]
        )

    async def _answered(self, request: Request) -> Response:
        query = dict(request.query_params)
        self.requests.append((request.method, request.url.path, query))
        return await self._guarded(request)

    async def _guarded(self, request: Request) -> Response:
        wanted = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {wanted}":
            return JSONResponse({"message": "Current user is not logged in"}, 401)
        fault = next((each for each in self.faults if each.method == request.method), None)
        if fault is not None:
            self.faults.remove(fault)
            if not fault.done:
                return fault.response()
        response = await self._carried_out(request)
        if fault is not None:
            return fault.response()
        response.headers.update(_VERSIONS)
        return response

    async def _carried_out(self, request: Request) -> Response:
        if request.url.path.endswith("/settings"):
            return JSONResponse({"notesPath": "Notes", "fileSuffix": ".md"})
        if "id" not in request.path_params:
            return self._list(request) if request.method == "GET" else await self._create(request)
        note = self.notes.get(request.path_params["id"])
        if note is None:
            return JSONResponse({"errorType": "NoteDoesNotExistException"}, 404)
        if request.method == "DELETE":
            del self.notes[note.id]
            return JSONResponse([])
        if request.method == "PUT":
            return await self._update(request, note)
        exclude = request.query_params.get("exclude", "").split(",")
        return _tagged(note.data(exclude), note.etag, request)

    async def _create(self, request: Request) -> Response:
        body = await request.json()
        note = self.add(body.get("title", ""), body.get("content", ""), body.get("category", ""))
        self.meddle(note)
        if self.hold_after is not None and len(self.notes) > self.hold_after:
            self.held.set()
            await asyncio.to_thread(self._stopping.wait, 60)
        return JSONResponse(note.data([]))

    async def _update(self, request: Request, note: StoredNote) -> Response:
        tags = request.headers.get("If-Match", "")
        if tags and f'"{note.etag}"' not in re.split(r",\s*", tags):
            return JSONResponse(note.data([]), 412)
        body = await request.json()
        note.content = body.get("content", note.content)
        if body.get("title", note.title) != note.title:
            note.title = self._free_title(body["title"], note.category, note.id)
        note.category = body.get("category", note.category)
        note.modified = body.get("modified", self.clock())
        note.last_update = self.clock()
        self.meddle(note)
        return JSONResponse(note.data([]))

    def _list(self, request: Request) -> Response:
        query = request.query_params
        category = query.get("category")
        prune, size = int(query.get("pruneBefore", 0)), int(query.get("chunkSize", 0))
        started, after = _cursor(query.get("chunkCursor"), self.clock())
        all_notes = [n for n in self.notes.values() if category is None or n.category == category]
        full = sorted(
            (n for n in all_notes if n.last_update >= prune and (n.last_update, n.id) > after),
            key=lambda n: (n.last_update, n.id),
        )
        part = full[:size] if size else full
        data = [n.data(query.get("exclude", "").split(",")) for n in part]
        headers = {"Last-Modified": format_datetime(datetime.fromtimestamp(started, UTC), True)}
        if len(part) < len(full):
            last = part[-1]
            headers["X-Notes-Chunk-Cursor"] = f"{started}-{last.last_update}-{last.id}"
            headers["X-Notes-Chunk-Pending"] = str(len(full) - len(part))
        else:
            sent = {n.id for n in part}
            data += [{"id": n.id} for n in all_notes if n.id not in sent]
        if cursor := next(self.cursors, None):
            headers["X-Notes-Chunk-Cursor"] = cursor
        tag = hashlib.md5(json.dumps(data).encode()).hexdigest()
        return _tagged(data, tag, request, headers)

    def _free_title(self, title: str, category: str, own: int | None = None) -> str:
        wished = re.sub(r'[*|/\\:"<>?]', "", title).strip().split("\n")[0]
        wished = re.sub(r"\s", " ", wished)[:100] or "New note"
        taken = {n.title for n in self.notes.values() if n.category == category and n.id != own}
        free, number = wished, 1
        while free in taken:
            number += 1
            suffix = f" ({number})"
            free = wished[: 100 - len(suffix)] + suffix
        return free


def _cursor(text: str | None, now: int) -> tuple[int, tuple[int, int]]:
    """When the listing began, and the note after which it goes on."""
    if not text:
        return now, (-1, -1)
    started, updated, note_id = map(int, text.split("-"))
    return started, (updated, note_id)


def _tagged(
    data: Any, tag: str, request: Request, headers: dict[str, str] | None = None
) -> Response:
    headers = {"ETag": f'"{tag}"', **(headers or {})}
    if request.headers.get("If-None-Match") == f'"{tag}"':
        return Response(status_code=304, headers=headers)
    # In ASCII, as PHP writes it: halves of surrogate pairs can be told only so.
    return Response(json.dumps(data), headers=headers, media_type="application/json")


async def _capabilities(_request: Request) -> Response:
    data = {"version": {"major": 31}, "capabilities": {"notes": {"api_version": ["0.2", "1.4"]}}}
    return JSONResponse({"ocs": {"meta": {"status": "ok", "statuscode": 200}, "data": data}})


async def _no_shares(_request: Request) -> Response:
    return JSONResponse({"ocs": {"meta": {"status": "ok", "statuscode": 200}, "data": []}})

"""The Notes API, version 1: notes listed, created, changed and deleted as one user."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from assay.errors import UsageError
from assay.nextcloud.failures import NotesError, from_status, from_transport
from assay.nextcloud.note import Note
from assay.nextcloud.patience import Patience

HOST, USERNAME, PASSWORD = "NEXTCLOUD_HOST", "NEXTCLOUD_USERNAME", "NEXTCLOUD_PASSWORD"

# Many notes in one answer make PHP slow and large; few make many round trips.
_CHUNK = 200
_TIMEOUT = httpx.Timeout(60.0, connect=10.0, pool=None)
_CURSOR = "X-Notes-Chunk-Cursor"
# Two million notes: who sends more parts than that never comes to an end.
_MOST_PARTS = 10_000
# Answers that are no success and yet mean something, each to one method only.
_MEANINGFUL = {"GET": 304, "PUT": 412}


@dataclass(frozen=True, slots=True)
class Account:
    """`host` with scheme, and with the path where Nextcloud is not at the root of its server."""

    host: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.host)
        if "@" in parts.netloc:  # not quoted: what stands before the @ is a password
            raise UsageError(
                f"{HOST} must not hold a user name or password; set {USERNAME} and {PASSWORD}"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"{HOST} must be an http(s) address such as https://cloud.example.org, "
                f"got {self.host!r}"
            )
        if ":" in self.username:  # it would end the name in HTTP's basic authentication
            raise UsageError(f"{USERNAME} must not hold a colon, got {self.username!r}")

    @property
    def api(self) -> str:
        """The address of the Notes API, version 1."""
        return f"{self.host.rstrip('/')}/index.php/apps/notes/api/v1/"


def account_from_environment(host: str | None = None, username: str | None = None) -> Account:
    """The password comes from the environment alone: a command line is seen by others."""
    values = {
        HOST: host or os.environ.get(HOST),
        USERNAME: username or os.environ.get(USERNAME),
        PASSWORD: os.environ.get(PASSWORD),
    }
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise UsageError(
            f"not set: {', '.join(missing)}. Nextcloud is reached with {HOST}, {USERNAME} and "
            f"{PASSWORD} (an app password, from Settings, Security)"
        )
    return Account(str(values[HOST]), str(values[USERNAME]), str(values[PASSWORD]))


@dataclass(frozen=True, slots=True)
class Listing:
    """The notes of a category. With `prune_before`, `notes` are only those changed since then.

    `ids` are always all of them. `etag` is None for a list that came in several parts: the tag of
    a part does not change with the rest.
    """

    notes: tuple[Note, ...]
    ids: frozenset[int]
    etag: str | None
    last_modified: int
    api_versions: str


class NotesClient:
    """One connection pool; use it as `async with NotesClient(account) as notes`."""

    def __init__(self, account: Account, patience: Patience | None = None) -> None:
        self.account = account
        self._patience = patience or Patience()
        self._met = False
        self._http = httpx.AsyncClient(
            base_url=account.api,
            auth=httpx.BasicAuth(account.username, account.password),
            headers={
                "OCS-APIRequest": "true",
                "Accept": "application/json",
                "User-Agent": "assay",
            },
            timeout=_TIMEOUT,
        )

    async def __aenter__(self) -> "NotesClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def notes_in(
        self,
        category: str,
        *,
        exclude: Sequence[str] = (),
        prune_before: int = 0,
        unless_etag: str | None = None,
    ) -> Listing | None:
        """None where nothing changed since the listing that `unless_etag` was the tag of."""
        wanted: dict[str, Any] = {"category": category, "chunkSize": _CHUNK}
        if exclude:
            wanted["exclude"] = ",".join(exclude)
        if prune_before:
            wanted["pruneBefore"] = prune_before
        headers = {"If-None-Match": f'"{unless_etag}"'} if unless_etag else {}
        response = await self._ask("GET", "notes", params=wanted, headers=headers)
        if response.status_code == 304:
            if unless_etag:
                return None
            raise self._unreadable("a list came as unchanged that was never sent")
        return self._listing(await self._parts(response, wanted))

    async def _parts(
        self, first: httpx.Response, wanted: Mapping[str, Any]
    ) -> list[httpx.Response]:
        """All parts of a listing, from a server that may lead in circles or on and on."""
        parts, seen = [first], set[str]()
        while cursor := parts[-1].headers.get(_CURSOR):
            if cursor in seen:
                raise self._unreadable("the same cursor came twice")
            if len(parts) >= _MOST_PARTS:
                raise self._unreadable(f"a list does not end after {_MOST_PARTS:,} parts")
            seen.add(cursor)
            params = {**wanted, "chunkCursor": cursor}
            parts.append(await self._ask("GET", "notes", params=params))
        return parts

    async def get(self, note_id: int) -> Note:
        return self._note(await self._ask("GET", f"notes/{note_id}"))

    async def create(self, title: str, content: str, category: str) -> Note:
        """Asked once where it may have been done: `NotesError.maybe_done` says so."""
        body = {"title": title, "content": content, "category": category}
        made = self._note(await self._ask("POST", "notes", json=body, twice=False))
        self._require_same(made, content)
        if made.category != category:
            raise NotesError(
                f"{self.account.host} put note {made.id} into category {made.category!r} instead "
                f"of {category!r}; choose a category that it keeps as it is"
            )
        return made

    async def update(self, note: Note, title: str, content: str) -> Note:
        """Refused where somebody else changed the note since it was read."""
        body = {"title": title, "content": content}
        headers = {"If-Match": f'"{note.etag}"'} if note.etag else {}
        response = await self._ask("PUT", f"notes/{note.id}", json=body, headers=headers)
        current = self._note(response)
        # Also where our own first attempt had its effect and its answer was lost.
        if response.status_code == 412 and current.content != content:
            raise NotesError(
                f"note {note.id} was changed by somebody else just now; try again",
                status=response.status_code,
            )
        self._require_same(current, content)
        return current

    async def delete(self, note_id: int) -> None:
        """That it is gone already is no failure."""
        try:
            await self._ask("DELETE", f"notes/{note_id}")
        except NotesError as error:
            if error.status != 404:
                raise

    async def _ask(
        self, method: str, path: str, *, twice: bool = True, **request: Any
    ) -> httpx.Response:
        return await self._patience.ask(lambda: self._once(method, path, request), twice=twice)

    async def _once(self, method: str, path: str, request: Mapping[str, Any]) -> httpx.Response:
        try:
            response = await self._http.request(method, path, **request)
        except httpx.TransportError as error:
            # Whom nobody ever met is more likely misspelt than away for a moment.
            raise from_transport(error, self.account.host, retryable=self._met) from None
        self._met = True
        if response.is_success or response.status_code == _MEANINGFUL.get(method):
            return response
        raise from_status(response, self.account.host, self.account.username)

    def _require_same(self, note: Note, content: str) -> None:
        if note.content != content:
            raise NotesError(
                f"{self.account.host} keeps other text in note {note.id} than was sent "
                f"({len(note.content):,} characters instead of {len(content):,}); something there "
                "changes notes as they are written"
            )

    def _note(self, response: httpx.Response) -> Note:
        value = self._json(response)
        if not isinstance(value, dict):
            raise self._unreadable("a note was expected")
        return self._read(value)

    def _read(self, value: Mapping[str, Any]) -> Note:
        try:
            return Note.from_json(value)
        except (KeyError, TypeError, ValueError):
            raise self._unreadable("a note came without its fields") from None

    def _listing(self, parts: Sequence[httpx.Response]) -> Listing:
        """A note that changed while the parts were read comes twice: the later one counts."""
        notes: dict[int, Note] = {}
        ids: set[int] = set()
        for value in (each for part in parts for each in self._items(part)):
            ids.add(value["id"])
            if len(value) > 1:  # else it is pruned, and says no more than that it is there
                notes[value["id"]] = self._read(value)
        first, last = parts[0].headers, parts[-1].headers
        return Listing(
            notes=tuple(notes.values()),
            ids=frozenset(ids),
            etag=_tag(first.get("ETag")) if len(parts) == 1 else None,
            last_modified=_timestamp(last.get("Last-Modified")),
            api_versions=first.get("X-Notes-API-Versions", ""),
        )

    def _items(self, response: httpx.Response) -> list[dict[str, Any]]:
        items = self._json(response)
        if not isinstance(items, list) or not all(
            isinstance(item, dict) and isinstance(item.get("id"), int) for item in items
        ):
            raise self._unreadable("a list of notes was expected")
        return items

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError:
            raise self._unreadable("no JSON came") from None

    def _unreadable(self, what: str) -> NotesError:
        return NotesError(
            f"what answers at {self.account.api} is not the Notes API ({what}); check the address, "
            "and that the Notes app is installed"
        )


def _tag(header: str | None) -> str | None:
    return header.removeprefix("W/").strip('"') if header else None


def _timestamp(header: str | None) -> int:
    try:
        return int(parsedate_to_datetime(header or "").timestamp())
    except (TypeError, ValueError):
        return 0

"""The Notes API, version 1: notes listed, created, changed and deleted as one user."""

import os
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from assay.errors import AssayError, UsageError
from assay.net.client import EncodingRefused, ResponseTooLarge, open_client
from assay.net.http import connect_reason
from assay.net.json import JsonObject
from assay.net.retry import RetryPolicy, parse_retry_after
from assay.nextcloud.note import Note

# Locked by another request, rate limits, and temporary failures.
_RETRYABLE = (408, 423, 429, 500, 502, 503, 504)
# The request may have been carried out before it failed: a note is a file first and has its text
# afterwards, and either step can find it locked.
_MAYBE_DONE = (408, 423, 500, 502, 503, 504)
_MAINTENANCE = "X-Nextcloud-Maintenance-Mode"


class NotesError(AssayError):
    """One failed request to the Notes API.

    Attributes:
        status: The HTTP status, or None if there was no response.
        retryable: Whether another attempt can help.
        retry_after: Seconds to wait before it, where the server said so.
        maybe_done: Whether the request may have had its effect all the same.
        attempts: How often the request was sent.
    """

    attempts = 1

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        maybe_done: bool = False,
        unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retryable = retryable
        self.retry_after = retry_after
        self.maybe_done = maybe_done
        self.exit_code = 3 if unreachable else 2

    def with_message(self, message: str) -> "NotesError":
        """The same failure with a message of a caller that knows more about it."""
        same = copy(self)
        same.args = (message,)
        return same


def from_transport(error: httpx.RequestError, host: str, *, retryable: bool) -> NotesError:
    """The failure for a request that got no response, or none that can be read."""
    if isinstance(error, ResponseTooLarge | EncodingRefused):
        return NotesError(f"{host} sent a response that cannot be read: {error}", maybe_done=True)
    never_sent = isinstance(
        error,
        httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout | httpx.UnsupportedProtocol,
    )
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        what = f"cannot be reached ({connect_reason(error)})"
    elif isinstance(error, httpx.TimeoutException):
        what = "did not respond in time"
    else:
        what = f"closed the connection ({type(error).__name__})"
    return NotesError(
        f"{host} {what}", retryable=retryable, maybe_done=not never_sent, unreachable=True
    )


def from_status(response: httpx.Response, host: str, username: str) -> NotesError:
    """The failure for a status; the response body is left out, because it may repeat a note."""
    status = response.status_code
    return NotesError(
        f"{host} responded with HTTP {status}{_remedy(response, username)}",
        status=status,
        retryable=status in _RETRYABLE,
        retry_after=parse_retry_after(response.headers.get("Retry-After")),
        maybe_done=status in _MAYBE_DONE and _MAINTENANCE not in response.headers,
    )


def _remedy(response: httpx.Response, username: str) -> str:
    status = response.status_code
    if status == 401:
        return (
            f": user {username!r} or the password was rejected; check NEXTCLOUD_USERNAME and "
            "NEXTCLOUD_PASSWORD (with two-factor authentication it must be an app password)"
        )
    if status == 403:
        return ": the note is read-only, or this user may not use the Notes app"
    if status == 404:
        return ": no Notes app found; check the URL, and that the app is installed and enabled"
    if response.has_redirect_location:
        return f": it moved to {response.headers['Location'][:200]!r}; use that address"
    if status == 507:
        return ": the user's storage is full"
    if status == 503 and response.headers.get(_MAINTENANCE) == "1":
        return ": it is in maintenance mode"
    return ""


HOST, USERNAME, PASSWORD = "NEXTCLOUD_HOST", "NEXTCLOUD_USERNAME", "NEXTCLOUD_PASSWORD"

# Many notes in one answer make PHP slow and large; few make many round trips.
_CHUNK = 200
_TIMEOUT = httpx.Timeout(60.0, connect=10.0, pool=None)
_MAX_BYTES = 256_000_000
_HEADERS = {"OCS-APIRequest": "true", "Accept": "application/json", "Accept-Encoding": "gzip"}
# Maintenance mode asks for 120 seconds.
_RETRY = RetryPolicy(attempts=6, first_delay=0.5, max_delay=10.0, max_retry_after=120.0)
_CURSOR = "X-Notes-Chunk-Cursor"
# Two million notes: a listing of more parts does not end.
_MAX_PARTS = 10_000
# Statuses that are results and not failures, each for one method only.
_EXPECTED = {"GET": 304, "PUT": 412}


@dataclass(frozen=True, slots=True)
class Account:
    """A Nextcloud and a user of it. The password is never part of a message.

    `host` has a scheme, and a path where Nextcloud is not at the root of its server.
    """

    host: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.host)
        if "@" in parts.netloc:  # not quoted: what precedes the @ is a password
            raise UsageError(
                f"{HOST} must not contain a user name or password; set {USERNAME} and {PASSWORD}"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(
                f"{HOST} must be an http(s) URL such as https://cloud.example.org, "
                f"got {self.host!r}"
            )
        if ":" in self.username:  # it would end the name in HTTP's basic authentication
            raise UsageError(f"{USERNAME} must not contain a colon, got {self.username!r}")

    @property
    def api(self) -> str:
        """The address of the Notes API, version 1."""
        return f"{self.host.rstrip('/')}/index.php/apps/notes/api/v1/"


def account_from_environment(host: str | None = None, username: str | None = None) -> Account:
    """The account of the arguments, else of the environment.

    The password comes from the environment only: other users can see a command line.
    """
    values = {
        HOST: host or os.environ.get(HOST),
        USERNAME: username or os.environ.get(USERNAME),
        PASSWORD: os.environ.get(PASSWORD),
    }
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise UsageError(
            f"not set: {', '.join(missing)}. Set {HOST}, {USERNAME} and {PASSWORD} "
            "(an app password from Settings, Security)"
        )
    return Account(str(values[HOST]), str(values[USERNAME]), str(values[PASSWORD]))


@dataclass(frozen=True, slots=True)
class Listing:
    """The notes of a category. With `prune_before`, `notes` are only those changed since then.

    `ids` are always all of them. `etag` is None for a listing in several parts: the tag of a part
    does not change with the others.
    """

    notes: tuple[Note, ...]
    ids: frozenset[int]
    etag: str | None
    last_modified: int
    api_versions: str


class NotesClient:
    """One connection pool; use it as `async with NotesClient(account) as notes`.

    `retry` says how often a request is sent again, and how long to wait in between.
    """

    def __init__(self, account: Account, retry: RetryPolicy = _RETRY) -> None:
        self.account = account
        self.retry = retry
        self._connected = False
        self._http = open_client(
            auth=httpx.BasicAuth(account.username, account.password),
            headers=_HEADERS,
            timeout=_TIMEOUT,
            max_bytes=_MAX_BYTES,
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
        """The notes of a category; None if nothing changed since the listing with `unless_etag`.

        `exclude` names fields that are not needed; `prune_before` is the `last_modified` of an
        earlier listing, so that only later changes are sent in full.
        """
        wanted: dict[str, Any] = {"category": category, "chunkSize": _CHUNK}
        if exclude:
            wanted["exclude"] = ",".join(exclude)
        if prune_before:
            wanted["pruneBefore"] = prune_before
        headers = {"If-None-Match": f'"{unless_etag}"'} if unless_etag else {}
        response = await self._request("GET", "notes", params=wanted, headers=headers)
        if response.status_code == 304:
            if unless_etag:
                return None
            raise self._unreadable("304 Not Modified for a listing that was never sent")
        return self._listing(await self._parts(response, wanted))

    async def _parts(
        self, first: httpx.Response, wanted: Mapping[str, Any]
    ) -> list[httpx.Response]:
        """All parts of a listing, from a server whose cursors may repeat or never end."""
        parts, seen = [first], set[str]()
        while cursor := parts[-1].headers.get(_CURSOR):
            if cursor in seen:
                raise self._unreadable("the same cursor twice")
            if len(parts) >= _MAX_PARTS:
                raise self._unreadable(f"the listing did not end after {_MAX_PARTS:,} parts")
            seen.add(cursor)
            params = {**wanted, "chunkCursor": cursor}
            parts.append(await self._request("GET", "notes", params=params))
        return parts

    async def get(self, note_id: int) -> Note:
        """One note with its content."""
        return self._note(await self._request("GET", f"notes/{note_id}"))

    async def create(self, title: str, content: str, category: str) -> Note:
        """Sent once only where it may have been done: `NotesError.maybe_done` says so."""
        body = {"title": title, "content": content, "category": category}
        made = self._note(await self._request("POST", "notes", json=body, idempotent=False))
        self._require_same(made, content)
        if made.category != category:
            raise NotesError(
                f"{self.account.host} put note {made.id} into category {made.category!r} instead "
                f"of {category!r}; choose a category name that Nextcloud does not change"
            )
        return made

    async def update(self, note: Note, title: str, content: str) -> Note:
        """Raises `NotesError` where someone else changed the note since it was read."""
        body = {"title": title, "content": content}
        headers = {"If-Match": f'"{note.etag}"'} if note.etag else {}
        response = await self._request("PUT", f"notes/{note.id}", json=body, headers=headers)
        current = self._note(response)
        # 412 also comes where an earlier attempt succeeded and its response was lost.
        if response.status_code == 412 and current.content != content:
            raise NotesError(
                f"note {note.id} was changed by someone else at the same time; try again",
                status=response.status_code,
            )
        self._require_same(current, content)
        return current

    async def delete(self, note_id: int) -> None:
        """Delete a note; a note that does not exist is not a failure."""
        try:
            await self._request("DELETE", f"notes/{note_id}")
        except NotesError as error:
            if error.status != 404:
                raise

    async def _request(
        self, method: str, path: str, *, idempotent: bool = True, **request: Any
    ) -> httpx.Response:
        """Retries what can help; a request that is not idempotent only where it was not done."""

        def should_retry(error: Exception) -> bool:
            if not isinstance(error, NotesError) or not error.retryable:
                return False
            return idempotent or not error.maybe_done

        try:
            return await self.retry.run(
                lambda: self._send(method, path, request), should_retry=should_retry
            )
        except NotesError as error:
            if not should_retry(error):
                raise
            wait = f"; it asked to wait {error.retry_after:g} s" if error.retry_after else ""
            raise error.with_message(f"{error} (attempts: {error.attempts}{wait})") from None

    async def _send(self, method: str, path: str, request: Mapping[str, Any]) -> httpx.Response:
        try:
            response = await self._http.request(method, self.account.api + path, **request)
        except httpx.RequestError as error:
            # A host that never responded is more likely misspelt than down for a moment.
            raise from_transport(error, self.account.host, retryable=self._connected) from None
        self._connected = True
        if response.is_success or response.status_code == _EXPECTED.get(method):
            return response
        raise from_status(response, self.account.host, self.account.username)

    def _require_same(self, note: Note, content: str) -> None:
        if note.content != content:
            raise NotesError(
                f"{self.account.host} stored different text in note {note.id} than was sent "
                f"({len(note.content):,} characters instead of {len(content):,}); another app "
                "may be changing notes as they are written"
            )

    def _note(self, response: httpx.Response) -> Note:
        value = self._json(response)
        if not isinstance(value, dict):
            raise self._unreadable("a note was expected")
        return self._read(value)

    def _read(self, value: JsonObject) -> Note:
        try:
            return Note.from_json(value)
        except (KeyError, TypeError, ValueError):
            raise self._unreadable("a note without its fields") from None

    def _listing(self, parts: Sequence[httpx.Response]) -> Listing:
        """A note that changed while the parts were read appears twice: the later one counts."""
        notes: dict[int, Note] = {}
        ids: set[int] = set()
        for value in (each for part in parts for each in self._items(part)):
            ids.add(value["id"])
            if len(value) > 1:  # a pruned note has nothing but its id
                notes[value["id"]] = self._read(value)
        first, last = parts[0].headers, parts[-1].headers
        return Listing(
            notes=tuple(notes.values()),
            ids=frozenset(ids),
            etag=_tag(first.get("ETag")) if len(parts) == 1 else None,
            last_modified=_timestamp(last.get("Last-Modified")),
            api_versions=first.get("X-Notes-API-Versions", ""),
        )

    def _items(self, response: httpx.Response) -> list[JsonObject]:
        items = self._json(response)
        if not isinstance(items, list) or not all(
            isinstance(item, dict) and isinstance(item.get("id"), int) for item in items
        ):
            raise self._unreadable("a list of notes was expected")
        return items

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError):
            raise self._unreadable("no JSON") from None

    def _unreadable(self, what: str) -> NotesError:
        return NotesError(
            f"{self.account.api} is not the Notes API ({what}); check the URL, "
            "and that the Notes app is installed"
        )


def _tag(header: str | None) -> str | None:
    return header.removeprefix("W/").strip('"') if header else None


def _timestamp(header: str | None) -> int:
    try:
        return int(parsedate_to_datetime(header or "").timestamp())
    except (TypeError, ValueError):
        return 0

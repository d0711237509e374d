"""The Notes API, version 1: notes listed, created, changed and deleted as one user.

async with NotesClient(Account.from_environment()) as notes:
    await notes.create("[MED-10] Statins", "Text.", "nfcorpus_rag_eval")
"""

import os
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from assay.errors import AgentFailure, AssayError, UsageError
from assay.net.client import EncodingRefused, ResponseTooLarge, open_client
from assay.net.http import classify_http_errors
from assay.net.json import JsonObject
from assay.net.retry import RetryPolicy, parse_retry_after

HOST, USERNAME, PASSWORD = "NEXTCLOUD_HOST", "NEXTCLOUD_USERNAME", "NEXTCLOUD_PASSWORD"

# Locked by another request, rate limits, and temporary failures.
_RETRYABLE = (408, 423, 429, 500, 502, 503, 504)
# Many notes in one answer make PHP slow and large; few make many round trips.
_CHUNK = 200
# Two million notes: a listing of more parts does not end.
_MAX_PARTS = 10_000
_TIMEOUT = httpx.Timeout(60.0, connect=10.0, pool=None)
_MAX_BYTES = 256_000_000
# Without OCS-APIRequest, Nextcloud may take a request for a browser's and want a CSRF token.
_HEADERS = {"OCS-APIRequest": "true", "Accept": "application/json", "Accept-Encoding": "gzip"}
# Maintenance mode asks for 120 seconds.
_RETRY = RetryPolicy(attempts=6, first_delay=0.5, max_delay=10.0, max_retry_after=120.0)
_REMEDIES = {
    401: ": user or password rejected; check NEXTCLOUD_USERNAME and NEXTCLOUD_PASSWORD (with "
    "two-factor authentication it must be an app password)",
    403: ": the note is read-only, or this user may not use the Notes app",
    404: ": no Notes app found; check the URL, and that the app is installed and enabled",
    507: ": the user's storage is full",
}


class NotesError(AssayError):
    """One failed request to the Notes API.

    `retryable`: another attempt can help, after `retry_after` seconds if the server said so.
    `maybe_done`: the request may have had its effect all the same.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool = False,
        retry_after: float | None = None,
        maybe_done: bool = False,
        exit_code: int = 2,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.retry_after = retry_after
        self.maybe_done = maybe_done
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Note:
    """A note as the Notes API has it."""

    id: int
    etag: str
    title: str
    content: str
    category: str

    @classmethod
    def from_json(cls, value: JsonObject) -> "Note":
        """From an object of the API; `KeyError` without an id."""
        texts = (str(value.get(name) or "") for name in ("etag", "title", "content", "category"))
        return cls(int(value["id"]), *texts)


@dataclass(frozen=True, slots=True)
class Account:
    """A Nextcloud and a user of it. The password is never part of a message.

    `host` has a scheme, and a path if Nextcloud is not at the root of its server.
    """

    host: str
    username: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.host)
        has_user = "@" in parts.netloc  # not quoted: what precedes the @ is a password
        if has_user or parts.scheme not in ("http", "https") or not parts.hostname:
            got = f"one with a user; set {USERNAME}" if has_user else repr(self.host)
            raise UsageError(
                f"{HOST} must be an http(s) URL such as https://cloud.example.org, got {got}"
            )

    @classmethod
    def from_environment(cls) -> "Account":
        """The account of the environment. Raises `UsageError`, which names what is not set."""
        if missing := missing_variables():
            raise UsageError(
                f"not set: {', '.join(missing)}. Set {HOST}, {USERNAME} and {PASSWORD} "
                "(an app password from Settings, Security)"
            )
        return cls(*(os.environ[name] for name in (HOST, USERNAME, PASSWORD)))

    @property
    def api(self) -> str:
        """The address of the Notes API, version 1."""
        return f"{self.host.rstrip('/')}/index.php/apps/notes/api/v1/"


def missing_variables() -> list[str]:
    """The variables of an account that are not set."""
    return [name for name in (HOST, USERNAME, PASSWORD) if not os.environ.get(name)]


class NotesClient:
    """One connection pool; `retry` says how often a request is sent again."""

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

    async def notes_in(self, category: str) -> list[Note]:
        """The notes of a category."""
        wanted: dict[str, Any] = {"category": category, "chunkSize": _CHUNK}
        notes: dict[int, Note] = {}  # one that changes meanwhile comes twice: the later one counts
        for _ in range(_MAX_PARTS):
            response = await self._request("GET", "notes", params=wanted)
            for note in self._read(response, many=True):
                if note.etag or note.id not in notes:  # the last part repeats ids without a note
                    notes[note.id] = note
            cursor = response.headers.get("X-Notes-Chunk-Cursor")
            if not cursor:
                return list(notes.values())
            wanted["chunkCursor"] = cursor
        raise NotesError(f"the listing of notes did not end after {_MAX_PARTS:,} parts")

    async def create(self, title: str, content: str, category: str) -> Note:
        """Sent once only if it may have been done: `NotesError.maybe_done` says so."""
        body = {"title": title, "content": content, "category": category}
        response = await self._request("POST", "notes", json=body, idempotent=False)
        (made,) = self._read(response)
        if made.category != category:
            raise NotesError(
                f"{self.account.host} put note {made.id} into category {made.category!r} instead "
                f"of {category!r}; choose a category name that Nextcloud does not change"
            )
        return made

    async def update(self, note: Note, title: str, content: str) -> Note:
        """Give a note another title and content."""
        body = {"title": title, "content": content}
        (current,) = self._read(await self._request("PUT", f"notes/{note.id}", json=body))
        return current

    async def delete(self, note_id: int) -> None:
        """Delete a note; a note that does not exist is not a failure."""
        await self._request("DELETE", f"notes/{note_id}")

    async def _request(
        self, method: str, path: str, *, idempotent: bool = True, **request: Any
    ) -> httpx.Response:
        """Retries what can help; a request that is not idempotent only if it was not done."""

        def should_retry(error: Exception) -> bool:
            if not isinstance(error, NotesError) or not error.retryable:
                return False
            return idempotent or not error.maybe_done

        async def send() -> httpx.Response:
            try:
                with classify_http_errors():
                    response = await self._http.request(method, self.account.api + path, **request)
            except AgentFailure as failure:
                raise self._from_failure(failure) from None
            self._connected = True
            is_gone = method == "DELETE" and response.status_code == 404
            if response.is_success or is_gone:
                return response
            raise self._from_status(response)

        return await self.retry.run(send, should_retry=should_retry)

    def _from_failure(self, failure: AgentFailure) -> NotesError:
        cause = failure.__context__
        never_sent = isinstance(cause, httpx.ConnectError | httpx.ConnectTimeout)
        what = f"cannot be reached ({failure})" if never_sent else f"failed: {failure}"
        # A host that never responded is more likely misspelt than down for a moment.
        again = self._connected and not isinstance(cause, ResponseTooLarge | EncodingRefused)
        message = f"{self.account.host} {what}"
        return NotesError(message, retryable=again, maybe_done=not never_sent, exit_code=3)

    def _from_status(self, response: httpx.Response) -> NotesError:
        """The response body is left out of the message, because it may repeat a note."""
        status = response.status_code
        maintenance = "X-Nextcloud-Maintenance-Mode" in response.headers
        remedy = ": it is in maintenance mode" if maintenance else _REMEDIES.get(status, "")
        if response.has_redirect_location:
            remedy = f": it moved to {response.headers['Location'][:200]!r}; use that address"
        return NotesError(
            f"{self.account.host} responded with HTTP {status}{remedy}",
            retryable=status in _RETRYABLE,
            retry_after=parse_retry_after(response.headers.get("Retry-After")),
            # A note is a file first and has its text afterwards: either step may have failed.
            maybe_done=status in _RETRYABLE and status != 429 and not maintenance,
        )

    def _read(self, response: httpx.Response, *, many: bool = False) -> list[Note]:
        """The note of a response, or the list of them."""
        try:
            value = response.json()
            if isinstance(value, list) is many:
                return [Note.from_json(each) for each in (value if many else [value])]
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            pass
        raise NotesError(
            f"{self.account.api} is not the Notes API; check the URL, and that the Notes app is "
            "installed"
        )

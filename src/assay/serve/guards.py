"""The guards in front of every server, and the one order in which a request meets them.

    request log -> access (Host and Origin, then token) -> body limit -> app

`guarded` is the only place where they are put together. Each guard is plain ASGI and answers what
it refuses as JSON, `{"error": "..."}`, without repeating anything of the request.
"""

import hmac
import os
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.errors import UsageError
from assay.net.http import REQUEST_TIMEOUT, BodyRejected, LimitedBody
from assay.net.redact import ADMIN_TOKEN_VARIABLE, SERVER_TOKEN_VARIABLE
from assay.serve.request_log import RequestLog

OPEN_PATHS = frozenset({"/health", "/health/ready"})
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
ANY_HOST = "*"
BODY_LIMIT = 1_000_000
BODY_TIMEOUT_S = 30.0

_MAX_ADDRESSES = 10_000

_NAME = r"\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+)"
_HOST = re.compile(rf"(?:{_NAME})(?::\d+)?", re.IGNORECASE)
_ORIGIN = re.compile(rf"[a-z][a-z0-9+.-]{{0,30}}://(?:{_NAME})(?::\d+)?", re.IGNORECASE)


def guarded(
    app: ASGIApp,
    *,
    token: str | None = None,
    admin_token: str | None = None,
    admin_paths: Collection[str] = (),
    open_paths: Collection[str] = OPEN_PATHS,
    hosts: Collection[str] = (),
    check_host: bool = False,
    host_hint: str = "",
    access: Callable[[ASGIApp], ASGIApp] | None = None,
    body_limit: int | None = BODY_LIMIT,
    uploads: Mapping[str, int] | None = None,
) -> ASGIApp:
    """Wrap `app` in all guards, in the order that every server shares.

    `admin_paths` need `admin_token` instead of `token`; `open_paths` can be read (GET, HEAD)
    without one. `hosts` are names, besides this machine's, whose pages may call the server from a
    browser; with `check_host` the Host header must name one of them, too. `access` replaces these
    checks, for a server that has others (the web UI has a login form). `body_limit` None leaves
    bodies to the app's routes; `uploads` are the paths that take larger ones.
    """
    if body_limit is not None:
        app = BodyLimit(app, body_limit, uploads=uploads)
    if access is not None:
        app = access(app)
    else:
        app = BearerToken(app, token, open_paths, admin_token=admin_token, admin_paths=admin_paths)
        app = AllowedHosts(app, hosts, check_host=check_host, hint=host_hint)
    return RequestLog(app)


def server_token() -> str | None:
    """The bearer token that callers need, from the environment."""
    return os.environ.get(SERVER_TOKEN_VARIABLE) or None


def admin_token() -> str | None:
    """The operator's own token, from the environment."""
    return os.environ.get(ADMIN_TOKEN_VARIABLE) or None


class AllowedHosts:
    """Refuses what a page of another site sends: 403 for its Origin, and with `check_host` 421 for
    its Host.

    A browser would let any page call a server that listens on loopback, and DNS rebinding lets a
    page make its own name resolve to this machine. Agents are not browsers and send no Origin.
    Health checks are answered whatever name they use.

    hosts: allowed besides this machine's names; `*` allows any.
    """

    def __init__(
        self, app: ASGIApp, hosts: Collection[str], *, check_host: bool = False, hint: str = ""
    ) -> None:
        self._app = app
        self._hosts = LOOPBACK_HOSTS | {host.strip("[]").lower() for host in hosts}
        self._check_host = check_host
        self._hint = f"; {hint}" if hint else ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or ANY_HOST in self._hosts or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self._check_host and _host_in(_HOST, headers.get("host", "")) not in self._hosts:
            await refuse(send, 421, f"this server does not answer to that Host{self._hint}")
        elif "origin" in headers and _host_in(_ORIGIN, headers["origin"]) not in self._hosts:
            await refuse(send, 403, f"this server does not serve that Origin{self._hint}")
        else:
            await self._app(scope, receive, send)


def parse_hosts(text: str) -> tuple[str, ...]:
    """Host names and addresses, separated by commas; without ports, which do not matter here."""
    entries = tuple(entry.strip() for entry in text.split(",") if entry.strip())
    for entry in entries:
        bare = entry.strip("[]").lower()
        form = f"[{bare}]" if bare.count(":") > 1 else bare
        if entry != ANY_HOST and _host_in(_HOST, form) != bare:
            raise UsageError(
                f"allowed host {entry!r} is not a host name or address; pass it without a port"
            )
    return entries


def _host_in(pattern: re.Pattern[str], text: str) -> str | None:
    """The host name in a header, without its port; None if the header is malformed."""
    match = pattern.fullmatch(text)
    return None if match is None else (match["v6"] or match["name"]).lower()


class GuessLimit:
    """Counts wrong tokens by the address that they came from.

    After `limit` of them within `window` seconds that address has to wait, with the right token
    too: otherwise the response would say which one is right.
    """

    def __init__(self, limit: int = 20, window: float = 60.0) -> None:
        self.window = window
        self._limit = limit
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def is_blocked(self, scope: Scope) -> bool:
        """Whether the caller has to wait."""
        wrong = self._wrong.get(_address(scope), ())
        earliest = time.monotonic() - self.window
        return sum(moment > earliest for moment in wrong) >= self._limit

    def count(self, scope: Scope) -> None:
        """Note a wrong token. Only the last addresses are kept: there may be any number."""
        wrong = self._wrong.setdefault(_address(scope), deque(maxlen=self._limit))
        wrong.append(time.monotonic())
        self._wrong.move_to_end(_address(scope))
        while len(self._wrong) > _MAX_ADDRESSES:
            self._wrong.popitem(last=False)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


async def send_too_many_guesses(send: Send, limit: GuessLimit) -> None:
    """Answer a caller that has sent too many wrong tokens."""
    headers = {"retry-after": f"{limit.window:.0f}"}
    await refuse(send, 429, "too many wrong tokens from this address; try again later", headers)


class BearerToken:
    """401 without the token, if one is set; 429 after too many wrong ones.

    open_paths: can be read (GET, HEAD) without it.
    admin_paths: need `admin_token` instead. Agents under test hold the other token: with the same
        one they could erase the count of their own searches.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        open_paths: Collection[str] = OPEN_PATHS,
        *,
        admin_token: str | None = None,
        admin_paths: Collection[str] = (),
    ) -> None:
        if admin_token is not None and admin_token == token:
            raise UsageError(
                f"{ADMIN_TOKEN_VARIABLE} and {SERVER_TOKEN_VARIABLE} are the same, so every "
                "caller could reset the counts; use a different token for the operator"
            )
        self._app = app
        self._guesses = GuessLimit()
        self._token = token
        self._open_paths = frozenset(open_paths)
        self._admin_token = admin_token
        self._admin_paths = frozenset(admin_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_admin = scope["path"] in self._admin_paths
        needed = self._admin_token if is_admin else self._token
        readable = scope["method"] in ("GET", "HEAD") and scope["path"] in self._open_paths
        if not is_admin and (readable or needed is None):
            await self._app(scope, receive, send)
        elif self._guesses.is_blocked(scope):
            await send_too_many_guesses(send, self._guesses)
        elif has_bearer_token(scope, needed):
            await self._app(scope, receive, send)
        else:
            if b"authorization" in dict(scope["headers"]):
                self._guesses.count(scope)
            await refuse(
                send,
                401,
                "missing or wrong token; send it as Authorization: Bearer TOKEN",
                {"www-authenticate": "Bearer"},
            )


def has_bearer_token(scope: Scope, token: str | None) -> bool:
    """Whether the request carries `token`; True if none is needed."""
    if token is None:
        return True
    # The name of the scheme may be written in any case (RFC 9110, 11.1), the token may not.
    scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
    return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), token.encode())


async def refuse(
    send: Send, status: int, message: str, headers: Mapping[str, str] | None = None
) -> None:
    """Answer with `{"error": message}` from in front of the application."""
    response = JSONResponse({"error": message}, status, headers)
    start = {"type": "http.response.start", "status": status, "headers": response.raw_headers}
    await send(start)
    await send({"type": "http.response.body", "body": response.body})


async def json_error(_request: Request, error: Exception) -> Response:
    """An unknown path or method of an application, in the shape of every other error."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail.lower()}, error.status_code, error.headers)


class BodyLimit:
    """413 for a body above `limit` bytes, whether it declares its length or not; 408 for one that
    is not complete within `BODY_TIMEOUT_S` seconds."""

    def __init__(
        self, app: ASGIApp, limit: int, *, uploads: Mapping[str, int] | None = None
    ) -> None:
        self._app = app
        self._limit = limit
        self._uploads = uploads or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._uploads.get(scope["path"], self._limit)
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > limit:
            await _send_rejection(send, BodyRejected(413, f"the body is larger than {limit} bytes"))
            return
        body = LimitedBody(receive, limit, BODY_TIMEOUT_S)
        started = False

        async def send_unless_rejected(message: Message) -> None:
            nonlocal started
            if body.rejection is not None and not started:
                return  # an application that caught the exception answers something else
            started = True
            await send(message)

        with suppress(BodyRejected):
            await self._app(scope, body.receive, send_unless_rejected)
        if body.rejection is not None and not started:
            await _send_rejection(send, body.rejection)


async def _send_rejection(send: Send, rejection: BodyRejected) -> None:
    """A slow client is cut off; one that sends too much may first send the rest, or it would lose
    the response with the connection."""
    headers = {"connection": "close"} if rejection.status == REQUEST_TIMEOUT else None
    await refuse(send, rejection.status, rejection.message, headers)

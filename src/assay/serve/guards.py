"""The guards in front of every server: `guarded(app, AllowedHosts(...), BearerToken(...))`.

    request log -> checks in their order (Host and Origin, then token) -> body limit -> app

What is refused is answered as JSON, `{"error": "..."}`, without repeating anything of the request.
"""

import hmac
import os
import re
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

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
SAFE_METHODS = frozenset({"GET", "HEAD"})
BODY_LIMIT = 1_000_000
# Callers who send a byte now and then would hold connections for ever (Slowloris).
BODY_TIMEOUT_S = 30.0

_LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
_ANY_HOST = "*"
# One caller may have any number of IPv6 addresses.
_MAX_ADDRESSES = 10_000
_MAX_GUESSES, _GUESS_WINDOW_S = 20, 60.0
_NAME = r"\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+)"
_HOST = re.compile(rf"(?:{_NAME})(?::\d+)?", re.IGNORECASE)
_ORIGIN = re.compile(rf"[a-z][a-z0-9+.-]{{0,30}}://(?:{_NAME})(?::\d+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the caller is answered instead of by the application."""

    status: int
    message: str
    headers: Mapping[str, str] | None = None

    async def send(self, send: Send) -> None:
        """Answer with `{"error": message}`."""
        response = JSONResponse({"error": self.message}, self.status, self.headers)
        headers = response.raw_headers
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})


# Looks at a request before the application does; None lets it pass.
Check = Callable[[Scope], Refusal | None]


def guarded(
    app: ASGIApp,
    *checks: Check,
    body_limit: int | None = BODY_LIMIT,
    headers: Mapping[str, str] | None = None,
) -> ASGIApp:
    """Put `app` behind the request log, `checks` and a limit of bodies, as every server is.

    `body_limit` None leaves bodies to the app's routes. Every response gets `headers`.
    """
    return RequestLog(Guards(app, checks, body_limit), headers or {})


def server_token() -> str | None:
    """The bearer token that callers need, from the environment."""
    return os.environ.get(SERVER_TOKEN_VARIABLE) or None


def admin_token() -> str | None:
    """The operator's own token, from the environment."""
    return os.environ.get(ADMIN_TOKEN_VARIABLE) or None


class Guards:
    """Refuses what a check objects to; 413 for a body above `body_limit` bytes, whether it declares
    its length or not; 408 for one that is not complete within `BODY_TIMEOUT_S` seconds."""

    def __init__(
        self, app: ASGIApp, checks: Collection[Check], body_limit: int | None = None
    ) -> None:
        self._app = app
        self._checks = checks
        self._limit = body_limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        for check in self._checks:
            if refusal := check(scope):
                await refusal.send(send)
                return
        if self._limit is None:
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        # Cut, as Python refuses to read a number of more than 4,300 digits.
        if declared.isdigit() and int(declared[:20]) > self._limit:
            await Refusal(413, f"the body is larger than {self._limit} bytes").send(send)
            return
        body = LimitedBody(receive, self._limit, BODY_TIMEOUT_S)
        started = False

        async def send_unless_rejected(message: Message) -> None:
            nonlocal started
            if body.rejection is not None and not started:
                return  # an application that caught the exception answers something else
            started = True
            await send(message)

        with suppress(BodyRejected):
            await self._app(scope, body.receive, send_unless_rejected)
        if (rejection := body.rejection) and not started:
            # A slow client is cut off; one that sends too much may first send the rest, or it
            # would lose the response with the connection.
            is_late = rejection.status == REQUEST_TIMEOUT
            headers = {"connection": "close"} if is_late else None
            await Refusal(rejection.status, rejection.message, headers).send(send)


class AllowedHosts:
    """Refuses what a page of another site sends: 403 for its Origin, and with `check_host` 421 for
    its Host.

    A browser would let any page call a server that listens on loopback, and DNS rebinding lets a
    page make its own name resolve to this machine. Agents are not browsers and send no Origin.
    Health checks are answered whatever name they use.

    hosts: allowed besides this machine's names; `*` allows any.
    """

    def __init__(
        self, hosts: Collection[str] = (), *, check_host: bool = False, hint: str = ""
    ) -> None:
        self._hosts = _LOOPBACK_HOSTS | {host.strip("[]").lower() for host in hosts}
        self._check_host = check_host
        self._hint = f"; {hint}" if hint else ""

    def __call__(self, scope: Scope) -> Refusal | None:
        if _ANY_HOST in self._hosts or scope["path"] in OPEN_PATHS:
            return None
        headers = Headers(scope=scope)
        if self._check_host and _host_in(_HOST, headers.get("host", "")) not in self._hosts:
            return Refusal(421, f"this server does not answer to that Host{self._hint}")
        if "origin" in headers and _host_in(_ORIGIN, headers["origin"]) not in self._hosts:
            return Refusal(403, f"this server does not serve that Origin{self._hint}")
        return None


def parse_hosts(text: str) -> tuple[str, ...]:
    """Host names and addresses, separated by commas; without ports, which do not matter here."""
    entries = tuple(entry.strip() for entry in text.split(",") if entry.strip())
    for entry in entries:
        bare = entry.strip("[]").lower()
        form = f"[{bare}]" if bare.count(":") > 1 else bare
        if entry != _ANY_HOST and _host_in(_HOST, form) != bare:
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

    After 20 of them within a minute that address has to wait, with the right token too: otherwise
    the response would say which one is right.
    """

    def __init__(self) -> None:
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def refusal(self, scope: Scope) -> Refusal | None:
        """429 for a caller that has to wait."""
        earliest = time.monotonic() - _GUESS_WINDOW_S
        wrong = self._wrong.get(_address(scope), ())
        if sum(moment > earliest for moment in wrong) < _MAX_GUESSES:
            return None
        words = "too many wrong tokens from this address; try again later"
        return Refusal(429, words, {"retry-after": f"{_GUESS_WINDOW_S:.0f}"})

    def count(self, scope: Scope) -> None:
        """Note a wrong token. Only the last addresses are kept: there may be any number."""
        wrong = self._wrong.setdefault(_address(scope), deque(maxlen=_MAX_GUESSES))
        wrong.append(time.monotonic())
        self._wrong.move_to_end(_address(scope))
        while len(self._wrong) > _MAX_ADDRESSES:
            self._wrong.popitem(last=False)


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


class BearerToken:
    """401 without the token, if one is set; 429 after too many wrong ones.

    open_paths: can be read (GET, HEAD) without it.
    admin_paths: need `admin_token` instead. Agents under test hold the other token: with the same
        one they could erase the count of their own searches.
    """

    def __init__(
        self,
        token: str | None,
        open_paths: Collection[str] = OPEN_PATHS,
        *,
        admin_token: str | None = None,
        admin_paths: Collection[str] = (),
        guesses: GuessLimit | None = None,
    ) -> None:
        if admin_token is not None and admin_token == token:
            raise UsageError(
                f"{ADMIN_TOKEN_VARIABLE} and {SERVER_TOKEN_VARIABLE} are the same, so every "
                "caller could reset the counts; use a different token for the operator"
            )
        self._guesses = guesses or GuessLimit()
        self._token = token
        self._open_paths = frozenset(open_paths)
        self._admin_token = admin_token
        self._admin_paths = frozenset(admin_paths)

    def __call__(self, scope: Scope) -> Refusal | None:
        is_admin = scope["path"] in self._admin_paths
        needed = self._admin_token if is_admin else self._token
        readable = scope["method"] in SAFE_METHODS and scope["path"] in self._open_paths
        if needed is None or (readable and not is_admin):
            return None
        if blocked := self._guesses.refusal(scope):
            return blocked
        given = dict(scope["headers"]).get(b"authorization")
        # The name of the scheme may be written in any case (RFC 9110, 11.1), the token may not.
        scheme, _, secret = (given or b"").partition(b" ")
        # In constant time: else the time of a comparison tells how much of a guess is right.
        if scheme.lower() == b"bearer" and hmac.compare_digest(secret.strip(), needed.encode()):
            return None
        if given is not None:
            self._guesses.count(scope)
        words = "missing or wrong token; send it as Authorization: Bearer TOKEN"
        return Refusal(401, words, {"www-authenticate": "Bearer"})


async def json_error(_request: Request, error: Exception) -> Response:
    """An unknown path or method of an application, in the shape of every other error."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail.lower()}, error.status_code, error.headers)

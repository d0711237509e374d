"""Access control of the web pages, and what a page may do in a browser.

On loopback there is no token, but a page of another site could still send requests through the
user's browser. So the Host must be a name of this machine, which stops DNS rebinding, and whatever
changes something must come from one of our pages (Origin), which stops cross-site requests. Beyond
loopback there is a token, given once in a form and kept in a cookie that scripts cannot read.
"""

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.serve.guards import OPEN_PATHS, GuessLimit, has_bearer_token, refuse, refuse_guesses

COOKIE = "assay_ui"
LOGIN = "/login"
STATIC = "/static/"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SAFE = ("GET", "HEAD")
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class UiAccess:
    """Lets a request pass to `app`, redirects it to the login, or refuses it.

    `token` is None on loopback, where the Host is checked instead.
    """

    def __init__(self, app: ASGIApp, token: str | None, guesses: GuessLimit | None = None) -> None:
        self._app = app
        self._guesses = guesses or GuessLimit()
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        answer = _with_headers(send)
        if self._token is None and _host_name(headers) not in _LOOPBACK_NAMES:
            await refuse(answer, 421, "open this page at localhost or 127.0.0.1", {})
        elif scope["method"] not in _SAFE and not _from_our_page(headers):
            await refuse(answer, 403, "this request does not come from a page of this server", {})
        elif self._token is None:
            await self._app(scope, receive, answer)
        elif self._guesses.is_blocked(scope) and _gives_token(scope, headers):
            await refuse_guesses(answer, self._guesses)
        elif self._is_open(scope) or self._knows_token(scope, headers):
            await self._app(scope, receive, answer)
        else:
            if "authorization" in headers:
                self._guesses.count(scope)
            await _send_to_login(scope, answer)

    def _is_open(self, scope: Scope) -> bool:
        path = scope["path"]
        if path == LOGIN:
            return True
        return scope["method"] in _SAFE and (path in OPEN_PATHS or path.startswith(STATIC))

    def _knows_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        assert self._token is not None
        if has_bearer_token(scope, self._token):
            return True
        cookie = _cookie(headers)
        return cookie is not None and hmac.compare_digest(cookie, session_of(self._token))


def _gives_token(scope: Scope, headers: dict[str, str]) -> bool:
    """Whether the request tries a token; a session that is open goes on."""
    return "authorization" in headers or (scope["path"] == LOGIN and scope["method"] == "POST")


def session_of(token: str) -> str:
    """The value of the session cookie: it proves knowledge of the token without revealing it."""
    return hmac.new(token.encode(), b"assay ui session", hashlib.sha256).hexdigest()


def local_path(text: str) -> str:
    """Where to go after the login: a path on this server, never another site."""
    return text if text.startswith("/") and not text.startswith(("//", "/\\")) else "/"


def _host_name(headers: dict[str, str]) -> str:
    try:
        return (urlsplit(f"//{headers.get('host', '')}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _from_our_page(headers: dict[str, str]) -> bool:
    """Browsers send an Origin with every POST; without one, it is not one of our forms."""
    try:
        origin = urlsplit(headers.get("origin", ""))
    except ValueError:  # such as http://[x
        return False
    return origin.netloc != "" and origin.netloc == headers.get("host")


def _cookie(headers: dict[str, str]) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return None
    return found.value if found and found.value.isascii() else None


def _with_headers(send: Send) -> Send:
    added = [(key.encode(), value.encode()) for key, value in _HEADERS.items()]

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return answer


async def _send_to_login(scope: Scope, send: Send) -> None:
    if scope["method"] not in _SAFE:
        await refuse(send, 401, "this server requires a token", {"www-authenticate": "Bearer"})
        return
    wanted = scope["path"] + (
        f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else ""
    )
    await refuse(
        send, 303, "this server requires a token", {"location": f"{LOGIN}?next={quote(wanted)}"}
    )

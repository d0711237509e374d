"""The web UI in six pages: runs, a run, a comparison, trends, evaluations and grading.

Every page works without JavaScript, which only updates progress and saves clicks. GET changes
nothing, and nothing is loaded from other hosts.

On loopback there is no token, but a page of another site could still send requests through the
user's browser. So the Host must be a name of this machine, which stops DNS rebinding, and whatever
changes something must come from one of our pages (Origin), which stops cross-site requests. Beyond
loopback there is a token, given once in a form and kept in a cookie that scripts cannot read.
"""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assay.errors import AssayError
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.report.html import style_sheet
from assay.run.config import RunConfig
from assay.serve.guards import (
    LOOPBACK_HOSTS,
    OPEN_PATHS,
    GuessLimit,
    guarded,
    has_bearer_token,
    refuse,
    send_too_many_guesses,
)
from assay.serve.readiness import health_routes
from assay.serve.ui.context import Ui, ui_of
from assay.serve.ui.evaluate import evaluation_routes
from assay.serve.ui.grade import grade_routes
from assay.serve.ui.run_pages import run_routes
from assay.serve.ui.runs import run_list_routes

BODY_LIMIT = 64 * 1024
COOKIE = "assay_ui"
LOGIN = "/login"
_STATIC = "/static"
_WRONG_TOKEN_PAUSE_S = 1.0
_SAFE = frozenset({"GET", "HEAD"})
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def ui_app(
    runs: Path,
    *,
    token: str | None = None,
    policy: OutboundPolicy = UNRESTRICTED,
    read_only: bool = False,
    named: Mapping[str, RunConfig] | None = None,
) -> ASGIApp:
    """The web UI over a folder of runs.

    Parameters:
        runs: the folder that holds the run folders.
        token: what visitors must know; None is for loopback only.
        policy: which hosts a target or a judge may be at.
        read_only: whether visitors may only look: nothing is started, changed or graded.
        named: the targets of assay.toml with their settings, for the form.
    """
    ui = Ui(runs, policy=policy, read_only=read_only, named=named)
    guesses = GuessLimit()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.ui, app.state.token, app.state.guesses = ui, token, guesses
        await ui.refresh()
        yield
        await ui.evaluations.close()

    async def forbid_change(request: Request) -> Response:
        words = "these pages are read-only; to start or grade, run your own: assay serve ui"
        raise HTTPException(403, words)

    routes = ui_routes()
    if read_only:  # what /chosen leads to is refused by itself
        pages = [r for r in routes if isinstance(r, Route) and r.path not in (LOGIN, "/chosen")]
        closed = {route.path for route in pages if set(route.methods or ()) - _SAFE}
        refused = [Route(path, forbid_change, methods=["GET", "POST"]) for path in closed]
        routes = [*refused, *routes]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _show_error,
            AssayError: _show_error,
            FileNotFoundError: _show_error,
        },
    )
    access = partial(UiAccess, token=token, guesses=guesses)
    return guarded(app, access=access, body_limit=BODY_LIMIT)


def ui_routes() -> list[BaseRoute]:
    """Every page and form."""
    return [
        *health_routes("ui"),
        *run_list_routes(),
        *run_routes(),
        *grade_routes(),
        *evaluation_routes(),
        Route(LOGIN, show_login, methods=["GET"]),
        Route(LOGIN, log_in, methods=["POST"]),
        Route(f"{_STATIC}/style.css", _style),
        Mount(_STATIC, StaticFiles(directory=Path(__file__).parent / "static")),
    ]


async def show_login(request: Request) -> Response:
    """The form that asks for the token."""
    wanted = local_path(request.query_params.get("next", "/"))
    return ui_of(request).page(request, "login.html", wanted=wanted, problem="")


async def log_in(request: Request) -> Response:
    """Set the session cookie if the token is right."""
    ui, token = ui_of(request), request.app.state.token
    given = await ui.form(request)
    wanted = local_path(given.get("next", "/"))
    answer = RedirectResponse(wanted, 303)
    if token is None:
        return answer
    if not hmac.compare_digest(given.get("token", "").encode(), token.encode()):
        request.app.state.guesses.count(request.scope)
        await asyncio.sleep(_WRONG_TOKEN_PAUSE_S)
        return ui.page(request, "login.html", status=401, wanted=wanted, problem="Wrong token.")
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, session_of(token), httponly=True, samesite="lax", secure=secure)
    return answer


async def _style(_request: Request) -> Response:
    return Response(style_sheet(), media_type="text/css")


async def _show_error(request: Request, error: Exception) -> Response:
    status, message = 422, str(error)
    if isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
    elif isinstance(error, FileNotFoundError):
        status, message = 404, "a run of this page has no report yet, or was deleted meanwhile"
    page = ui_of(request).page(request, "message.html", status=status, message=message)
    page.headers.update(getattr(error, "headers", None) or {})
    return page


class UiAccess:
    """Lets a request pass to `app`, redirects it to the login, or refuses it.

    `token` is None on loopback; the Host is checked instead.
    """

    def __init__(self, app: ASGIApp, token: str | None, guesses: GuessLimit | None = None) -> None:
        self._app = app
        self._guesses = guesses or GuessLimit()
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer, path, is_safe = _with_headers(send), scope["path"], scope["method"] in _SAFE
        is_asset = is_safe and (path in OPEN_PATHS or path.startswith(f"{_STATIC}/"))
        if self._token is None and _host_name(headers) not in LOOPBACK_HOSTS:
            await refuse(answer, 421, "open this page at localhost or 127.0.0.1")
        elif not is_safe and not _is_from_our_page(headers):
            await refuse(answer, 403, "this request does not come from a page of this server")
        elif self._token is None:
            await self._app(scope, receive, answer)
        elif self._guesses.is_blocked(scope) and (
            # A session that is open goes on.
            "authorization" in headers or (path == LOGIN and not is_safe)
        ):
            await send_too_many_guesses(answer, self._guesses)
        elif path == LOGIN or is_asset or self._knows_token(scope):
            await self._app(scope, receive, answer)
        else:
            if "authorization" in headers:
                self._guesses.count(scope)
            await _send_to_login(scope, answer)

    def _knows_token(self, scope: Scope) -> bool:
        assert self._token is not None
        given = Request(scope).cookies.get(COOKIE, "").encode()
        is_session = hmac.compare_digest(given, session_of(self._token).encode())
        return is_session or has_bearer_token(scope, self._token)


def session_of(token: str) -> str:
    """The value of the session cookie: it proves knowledge of the token without revealing it."""
    return hmac.new(token.encode(), b"assay ui session", hashlib.sha256).hexdigest()


def local_path(text: str) -> str:
    """Where to go after the login: a path on this server, never another site."""
    return text if text.startswith("/") and not text.startswith(("//", "/\\")) else "/"


def _host_name(headers: Headers) -> str:
    try:
        return (urlsplit(f"//{headers.get('host', '')}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_from_our_page(headers: Headers) -> bool:
    """Browsers send an Origin with every POST; without one, it is not one of our forms."""
    host = headers.get("origin", "").partition("://")[2]
    return host != "" and host == headers.get("host")


def _with_headers(send: Send) -> Send:
    added = [(key.encode(), value.encode()) for key, value in _HEADERS.items()]

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return answer


async def _send_to_login(scope: Scope, send: Send) -> None:
    words = "this server requires a token"
    if scope["method"] not in _SAFE:
        await refuse(send, 401, words, {"www-authenticate": "Bearer"})
        return
    query = scope["query_string"].decode("latin-1")
    wanted = quote(f"{scope['path']}?{query}" if query else scope["path"])
    await refuse(send, 303, words, {"location": f"{LOGIN}?next={wanted}"})

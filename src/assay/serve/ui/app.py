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
from pathlib import Path
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

from assay.errors import AssayError
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.report.html import style_sheet
from assay.run.config import RunConfig
from assay.serve.guards import SAFE_METHODS, AllowedHosts, BearerToken, GuessLimit, Refusal, guarded
from assay.serve.readiness import health_routes
from assay.serve.ui import evaluate, grade, run_pages, runs
from assay.serve.ui.context import Ui, forbid_change, posted, ui_of

BODY_LIMIT = 64 * 1024
COOKIE = "assay_ui"
LOGIN = "/login"
_STATIC = "/static"
_WRONG_TOKEN_PAUSE_S = 1.0
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
    folder: Path,
    *,
    token: str | None = None,
    policy: OutboundPolicy = UNRESTRICTED,
    read_only: bool = False,
    named: Mapping[str, RunConfig] | None = None,
) -> ASGIApp:
    """The web UI over a folder of runs.

    Parameters:
        folder: holds the run folders.
        token: what visitors must know; None is for loopback only.
        policy: which hosts a target or a judge may be at.
        read_only: whether visitors may only look: nothing is started, changed or graded.
        named: the targets of assay.toml with their settings, for the form.
    """
    ui = Ui(folder, policy=policy, read_only=read_only, named=named)
    guesses = GuessLimit()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.ui, app.state.token, app.state.guesses = ui, token, guesses
        await asyncio.to_thread(ui.index.refresh)
        yield
        await ui.evaluations.close()

    app = Starlette(
        routes=[
            *health_routes("ui"),
            *page_routes(),
            *changing_routes(read_only=read_only),
            Route(LOGIN, show_login, methods=["GET"]),
            Route(LOGIN, log_in, methods=["POST"]),
            Route(f"{_STATIC}/style.css", lambda _: Response(style_sheet(), media_type="text/css")),
            Mount(_STATIC, StaticFiles(directory=Path(__file__).parent / "static")),
        ],
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((HTTPException, AssayError, FileNotFoundError), _error),
    )
    hosts = AllowedHosts(check_host=True, hint="open this page at localhost or 127.0.0.1")
    access = Session(token, guesses) if token else hosts
    return guarded(app, refuse_other_sites, access, body_limit=BODY_LIMIT, headers=_HEADERS)


def page_routes() -> list[Route]:
    """What visitors may look at."""
    return [
        Route("/", runs.runs_page),
        Route("/chosen", runs.act_on_chosen, methods=["POST"]),
        Route("/trends", runs.trends_page),
        Route("/runs/{name}", run_pages.run_page),
        Route("/runs/{name}/events", run_pages.run_events),
        Route("/runs/{name}/report.html", run_pages.html_file),
        Route("/compare", run_pages.comparison_page),
        Route("/compare.html", run_pages.comparison_file),
        Route("/grade", grade.pools_page),
        Route("/grade/{pool}", grade.pool_page),
        Route("/grade/{pool}/labels.qrels", grade.qrels_file),
        Route("/grade/{pool}/table.csv", grade.table_file),
    ]


def changing_routes(*, read_only: bool = False) -> list[Route]:
    """What starts, ends or grades something; each is refused if the pages are `read_only`."""
    routes = [
        Route("/evaluate", evaluate.evaluate_page, methods=["GET"]),
        Route("/evaluate", evaluate.start_evaluation, methods=["POST"]),
        Route("/evaluations/new", lambda request: RedirectResponse("/evaluate", 308)),
        Route("/evaluations/{id}", evaluate.evaluation_page),
        Route("/evaluations/{id}/events", evaluate.evaluation_events),
        Route("/evaluations/{id}/cancel", evaluate.cancel_evaluation, methods=["POST"]),
        Route("/grade/{pool}/grade", grade.grade_page, methods=["GET"]),
        Route("/grade/{pool}/grade", grade.save_grade, methods=["POST"]),
    ]
    if not read_only:
        return routes

    paths = dict.fromkeys(route.path for route in routes)
    return [Route(path, forbid_change, methods=["GET", "POST"]) for path in paths]


def show_login(request: Request) -> Response:
    """The form that asks for the token."""
    wanted = local_path(request.query_params.get("next", "/"))
    return ui_of(request).page(request, "login.html", wanted=wanted, problem="")


async def log_in(request: Request) -> Response:
    """Set the session cookie if the token is right."""
    state, given = request.app.state, dict(await posted(request))
    wanted = local_path(given.get("next", "/"))
    answer = RedirectResponse(wanted, 303)
    if state.token is None:
        return answer
    if blocked := state.guesses.refusal(request.scope):
        raise HTTPException(blocked.status, blocked.message, blocked.headers)
    if not hmac.compare_digest(given.get("token", "").encode(), state.token.encode()):
        state.guesses.count(request.scope)
        # A guess takes a second, also of those that the limit by address lets through.
        await asyncio.sleep(_WRONG_TOKEN_PAUSE_S)
        ui = ui_of(request)
        return ui.page(request, "login.html", status=401, wanted=wanted, problem="Wrong token.")
    # A browser sends a secure cookie over HTTPS alone, which loopback and many intranets lack.
    secure = request.url.scheme == "https"
    session = session_of(state.token)
    answer.set_cookie(COOKIE, session, httponly=True, samesite="lax", secure=secure)
    return answer


def _error(request: Request, error: Exception) -> Response:
    status, message = 422, str(error)
    if isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
    elif isinstance(error, FileNotFoundError):
        status, message = 404, "a run of this page has no report yet, or was deleted meanwhile"
    page = ui_of(request).page(request, "message.html", status=status, message=message)
    page.headers.update(getattr(error, "headers", None) or {})
    return page


def refuse_other_sites(scope: Scope) -> Refusal | None:
    """403 for a change that is not sent by one of our pages.

    Browsers send an Origin with every POST; without one, it is not one of our forms.
    """
    headers = Headers(scope=scope)
    host = headers.get("origin", "").partition("://")[2]
    if scope["method"] in SAFE_METHODS or (host and host == headers.get("host")):
        return None
    return Refusal(403, "this request does not come from a page of this server")


class Session:
    """Leads a visitor without the session cookie or the bearer token to the login."""

    def __init__(self, token: str, guesses: GuessLimit) -> None:
        self._cookie = session_of(token).encode()
        self._bearer = BearerToken(token, guesses=guesses)

    def __call__(self, scope: Scope) -> Refusal | None:
        given, path = Request(scope).cookies.get(COOKIE, "").encode(), scope["path"]
        is_open = path == LOGIN or path.startswith(f"{_STATIC}/")
        if is_open or hmac.compare_digest(given, self._cookie):
            return None
        refusal = self._bearer(scope)
        if refusal is None or refusal.status != 401 or scope["method"] not in SAFE_METHODS:
            return refusal
        query = scope["query_string"].decode("latin-1")
        wanted = quote(f"{path}?{query}" if query else path)
        return Refusal(303, "this server requires a token", {"location": f"{LOGIN}?next={wanted}"})


def session_of(token: str) -> str:
    """The value of the session cookie: it proves knowledge of the token without revealing it."""
    return hmac.new(token.encode(), b"assay ui session", hashlib.sha256).hexdigest()


def local_path(text: str) -> str:
    """Where to go after the login: a path on this server, never another site."""
    # Browsers take `//host` and `/\host` for the address of another site.
    return text if text.startswith("/") and not text.startswith(("//", "/\\")) else "/"

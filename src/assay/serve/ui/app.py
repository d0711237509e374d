"""The web UI: runs, reports, comparisons, leaderboard, evaluations, grading, search and checks.

Every page works without JavaScript, which only updates progress and saves clicks. GET changes
nothing, and nothing is loaded from other hosts.
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from assay.errors import AssayError
from assay.net.outbound import UNRESTRICTED, OutboundPolicy
from assay.report.html_templates import style_sheet
from assay.run.config import RunConfig
from assay.serve.guards import GuessLimit, guarded
from assay.serve.readiness import health_routes
from assay.serve.ui.access import COOKIE, LOGIN, UiAccess, local_path, session_of
from assay.serve.ui.check import check_routes
from assay.serve.ui.context import Ui, ui_of
from assay.serve.ui.evaluation_pages import evaluation_routes
from assay.serve.ui.judging import UPLOAD_LIMIT, UPLOAD_PATH, Pools, judging_routes
from assay.serve.ui.leaderboard import leaderboard_routes
from assay.serve.ui.matrix import matrix_routes
from assay.serve.ui.queries import query_routes
from assay.serve.ui.runs import run_routes
from assay.serve.ui.search import SearchService, search_routes
from assay.serve.ui.trends import trend_routes

BODY_LIMIT = 64 * 1024
_STATIC = Path(__file__).parent / "static"
_WRONG_TOKEN_PAUSE_S = 1.0
_READ = {"GET", "HEAD"}

_logger = logging.getLogger(__name__)


def ui_app(
    runs: Path,
    *,
    token: str | None = None,
    policy: OutboundPolicy = UNRESTRICTED,
    dataset: str = "nfcorpus",
    read_only: bool = False,
    named: Mapping[str, RunConfig] | None = None,
) -> ASGIApp:
    """The web UI over a folder of runs.

    Parameters:
        runs: the folder that holds the run folders.
        token: what visitors must know; None is for loopback only.
        policy: which hosts a target or a judge may be at.
        dataset: what the search box searches.
        read_only: whether visitors may only look: nothing is started, changed or deleted.
        named: the targets of assay.toml with their settings, for the form.
    """
    ui = Ui(runs, policy=policy, read_only=read_only, named=named)
    search, guesses = SearchService(dataset), GuessLimit()

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        app.state.ui, app.state.search, app.state.pools = ui, search, Pools(runs)
        app.state.token, app.state.guesses = token, guesses
        await ui.refresh()
        yield
        await ui.evaluations.close()
        await search.close()

    app = Starlette(
        routes=without_changes(ui_routes()) if read_only else ui_routes(),
        lifespan=lifespan,
        exception_handlers={
            HTTPException: _http_error,
            AssayError: _assay_error,
            FileNotFoundError: _file_gone,
        },
    )
    access = partial(UiAccess, token=token, guesses=guesses)
    uploads = {UPLOAD_PATH: UPLOAD_LIMIT}
    return guarded(app, access=access, body_limit=BODY_LIMIT, uploads=uploads)


def ui_routes() -> list[BaseRoute]:
    """Every page and form."""
    return [
        *health_routes("ui"),
        *run_routes(),
        *leaderboard_routes(),
        *trend_routes(),
        *query_routes(),
        *matrix_routes(),
        *judging_routes(),
        *evaluation_routes(),
        *search_routes(),
        *check_routes(),
        Route(LOGIN, show_login, methods=["GET"]),
        Route(LOGIN, log_in, methods=["POST"]),
        Route("/static/report.css", _report_style),
        Mount("/static", StaticFiles(directory=_STATIC)),
    ]


def without_changes(routes: Iterable[BaseRoute]) -> list[BaseRoute]:
    """The same routes, but those that change something, and the forms for it, answer 403."""
    every = list(routes)
    changing = {"/evaluations/new"} | {
        route.path
        for route in every
        if isinstance(route, Route) and route.path != LOGIN and set(route.methods or ()) - _READ
    }
    return [
        Route(route.path, _refuse_change, methods=list(route.methods or ()))
        if isinstance(route, Route) and route.path in changing
        else route
        for route in every
    ]


async def _refuse_change(request: Request) -> Response:
    raise HTTPException(
        403,
        "these pages are read-only: nothing can be started, changed, graded or deleted here; ask "
        "whoever runs the server, or start one of your own with: assay serve ui",
    )


async def show_login(request: Request) -> Response:
    """The form that asks for the token."""
    wanted = request.query_params.get("next", "/")
    return ui_of(request).page(request, "login.html", wanted=local_path(wanted), problem="")


async def log_in(request: Request) -> Response:
    """Set the session cookie, where the token is right."""
    ui, token = ui_of(request), request.app.state.token
    given = await ui.form(request)
    wanted = local_path(given.get("next", "/"))
    if token is None:
        return RedirectResponse(wanted, 303)
    if not hmac.compare_digest(given.get("token", "").encode(), token.encode()):
        request.app.state.guesses.count(request.scope)
        await asyncio.sleep(_WRONG_TOKEN_PAUSE_S)
        problem = "Wrong token."
        return ui.page(request, "login.html", status=401, wanted=wanted, problem=problem)
    answer = RedirectResponse(wanted, 303)
    secure = request.url.scheme == "https"
    answer.set_cookie(COOKIE, session_of(token), httponly=True, samesite="lax", secure=secure)
    return answer


async def _report_style(_request: Request) -> Response:
    return Response(style_sheet(), media_type="text/css")


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    page = ui_of(request).page(
        request, "message.html", status=error.status_code, message=error.detail
    )
    page.headers.update(error.headers or {})
    return page


async def _file_gone(request: Request, _error: Exception) -> Response:
    """A run has no report yet, or was deleted while its page was made."""
    what = "a run of this page has no report yet, or was deleted in the meantime"
    return ui_of(request).page(request, "message.html", status=404, message=what)


async def _assay_error(request: Request, error: Exception) -> Response:
    return ui_of(request).page(request, "message.html", status=422, message=str(error))

"""What both A2A servers are made of: card, JSON-RPC at `/`, REST, health, and their guards."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp

from assay.serve.a2a.card import PATHS, REST_PREFIX, Profile, build_card, card_routes
from assay.serve.a2a.one_message import OneMessageHandler
from assay.serve.a2a.tasks import BoundedTaskStore
from assay.serve.a2a.well_formed import WellFormed
from assay.serve.admission import Admission
from assay.serve.guards import OPEN_PATHS, guarded
from assay.serve.listening import END_WORK
from assay.serve.readiness import Loading, health_routes
from assay.serve.safe_errors import SafeErrors

STREAM_GRACE_S = 4.0
"""For streams to tell of the end when the server stops; less than it waits for them."""


def a2a_app(
    profile: Profile,
    executor: AgentExecutor,
    loading: Loading[Any],
    *,
    service: str,
    card_url: str | None,
    token: str | None,
    kept_tasks: int,
    is_full: Callable[[], bool],
    retry_after: int,
    routes: Sequence[BaseRoute] = (),
    end_work: Callable[[], Awaitable[None]] | None = None,
    on_stop: Callable[[], Awaitable[None]] | None = None,
) -> ASGIApp:
    """Card and health are open to anyone; the rest asks for the token, where one is set.

    `end_work` comes first when the server stops, while callers can still be told of the end;
    `on_stop` when the last of them has gone.
    """
    handler = OneMessageHandler(
        executor,
        BoundedTaskStore(kept_tasks, listable=token is not None),
        build_card(profile, card_url or "http://localhost", needs_token=token is not None),
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, Any]]:
        loading.start()
        yield {END_WORK: end_work}
        if on_stop is not None:
            await on_stop()
        await handler.aclose()
        await loading.stop()

    app: ASGIApp = Starlette(
        routes=[
            *health_routes(service, loading),
            *card_routes(profile, card_url, needs_token=token is not None),
            *routes,
            *_protocol_routes(handler),
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _error},
    )
    app = Admission(SafeErrors(app), is_full, retry_after)
    app = WellFormed(app, REST_PREFIX)
    own = urlsplit(card_url or "").hostname
    return guarded(
        app,
        token=token,
        open_paths=OPEN_PATHS | set(PATHS),
        hosts={own} if own else (),
    )


async def _error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def _protocol_routes(handler: DefaultRequestHandler) -> list[BaseRoute]:
    """The SDK's REST routes come with a mount of `/{tenant}` at the root, which would swallow
    every other path of two segments; nothing here has tenants."""
    rest = create_rest_routes(
        handler,
        path_prefix=REST_PREFIX,
        enable_v0_3_compat=True,
        shutdown_grace_period=STREAM_GRACE_S,
    )
    return [
        *create_jsonrpc_routes(
            handler,
            rpc_url="/",
            enable_v0_3_compat=True,
            shutdown_grace_period=STREAM_GRACE_S,
        ),
        *(route for route in rest if not isinstance(route, Mount)),
    ]

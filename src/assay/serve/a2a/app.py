"""The application of both A2A agents: card, JSON-RPC at `/`, REST, health, behind the guards."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes, create_rest_routes
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp

from assay.net.outbound import OutboundPolicy
from assay.serve.a2a.card import PATHS, REST_PREFIX, AgentProfile, build_card, card_routes
from assay.serve.a2a.push import PushSender, WebhookStore
from assay.serve.a2a.tasks import BoundedTaskStore, Recall, SingleMessageHandler, TaskExecutor
from assay.serve.a2a.validation import AdmissionControl, RequestValidation
from assay.serve.error_redaction import ErrorRedaction, redact_a2a_error
from assay.serve.guards import OPEN_PATHS, guarded
from assay.serve.listening import END_WORK
from assay.serve.readiness import Loading, health_routes

STREAM_GRACE_S = 4.0
"""How long streams have to send their last event when the server stops."""


def a2a_app(
    profile: AgentProfile,
    executor: TaskExecutor,
    loading: Loading[Any],
    *,
    service: str,
    card_url: str | None,
    token: str | None,
    kept_tasks: int,
    retry_after: int,
    policy: OutboundPolicy | None = None,
    recall: Recall | None = None,
    routes: Sequence[BaseRoute] = (),
    end_work: Callable[[], Awaitable[None]] | None = None,
    on_stop: Callable[[], Awaitable[None]] | None = None,
) -> ASGIApp:
    """An A2A agent. Card and health are open to anyone; the rest needs `token`, if one is set.

    loading: what the agent needs before it can work; starts with the server.
    card_url: the address that the card names; None names the one by which it was requested.
    kept_tasks: how many finished tasks are remembered.
    retry_after: after how many seconds to try again where `executor` admits no more work.
    policy: which addresses push notifications may be sent to; None offers no notifications.
    recall: finds tasks of an earlier process of the agent; reads the disk.
    routes: further routes beside the protocol's.
    end_work: called first when the server stops, while clients can still be sent the end.
    on_stop: called when the last client has disconnected.
    """
    webhooks = None if policy is None else WebhookStore(policy)
    store = BoundedTaskStore(
        kept_tasks, listable=token is not None, webhooks=webhooks, recall=recall
    )
    sender = None if webhooks is None else PushSender(webhooks, store)
    declared = {"needs_token": token is not None, "push_notifications": policy is not None}
    handler = SingleMessageHandler(
        executor,
        store,
        build_card(profile, card_url or "http://localhost", **declared),
        push_config_store=webhooks,
        push_sender=sender,
    )

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[dict[str, Any]]:
        loading.start()
        yield {END_WORK: end_work}
        if on_stop is not None:
            await on_stop()
        await handler.aclose()
        if sender is not None:
            await sender.close()
        await loading.stop()

    app: ASGIApp = Starlette(
        routes=[
            *health_routes(service, loading),
            *card_routes(profile, card_url, **declared),
            *routes,
            *_protocol_routes(handler),
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _error},
    )
    app = AdmissionControl(ErrorRedaction(app, redact_a2a_error), executor.admit, retry_after)
    app = RequestValidation(app, REST_PREFIX)
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
    """Without the mount of `/{tenant}` among the SDK's REST routes, which would catch every other
    path of two segments; nothing here has tenants."""
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

"""The MCP server over HTTP: MCP at `/` and `/mcp`, and the same tools as REST, all guarded."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import orjson
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from assay.errors import AssayError
from assay.net.json import parse_json
from assay.net.redact import ADMIN_TOKEN_VARIABLE
from assay.serve.guards import AllowedHosts, BearerToken, guarded, json_error
from assay.serve.mcp.search import DocumentSearch, LoadRetrieval, SearchRequest
from assay.serve.mcp.server import all_problems, mcp_server
from assay.serve.readiness import health_routes
from assay.serve.retrieval import load_retrieval

RESET_PATH = "/stats/reset"
SESSION_IDLE_S = 1800.0
MAX_SESSIONS = 1000

HOSTS_VARIABLE = "MCP_ALLOWED_HOSTS"
SERVICES = ("mcp-server", "green-agent", "purple-agent", "host.docker.internal")

_BODY_LIMIT = 1024 * 1024
# `guarded` checks Host and Origin, for REST as well: the SDK would check /mcp alone.
_NO_SECOND_CHECK = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def mcp_app(
    load: LoadRetrieval,
    *,
    token: str | None = None,
    admin_token: str | None = None,
    hosts: Sequence[str] = SERVICES,
    record: Path | None = None,
    session_idle_s: float = SESSION_IDLE_S,
    max_sessions: int = MAX_SESSIONS,
) -> ASGIApp:
    """MCP and REST over HTTP.

    `load` loads the documents; it starts with the server and may take minutes, calls wait for it.
    Resetting the counts needs `admin_token`. `hosts` are names by which clients may reach the
    server, besides this machine's. Every search is appended to the file `record`.
    """
    documents = DocumentSearch(load, record)
    server = mcp_server(documents)
    inner = server.streamable_http_app(
        transport_security=_NO_SECOND_CHECK,
        session_idle_timeout=session_idle_s,
        max_sessions=max_sessions,
        max_request_body_size=_BODY_LIMIT,
    )
    routes = [
        *inner.routes,
        # Documents and clients name the server without a path as well.
        *(Route("/", route.endpoint) for route in inner.routes if isinstance(route, Route)),
        *rest_routes(documents, may_reset=admin_token is not None),
    ]
    app: ASGIApp = Starlette(
        routes=routes,
        # Without it every call to /mcp fails.
        lifespan=lambda _app: server.session_manager.run(),
        exception_handlers={HTTPException: json_error},
    )
    return guarded(
        app,
        AllowedHosts(hosts, check_host=True, hint=f"allow it with {HOSTS_VARIABLE}"),
        BearerToken(token, admin_token=admin_token, admin_paths={RESET_PATH}),
        body_limit=_BODY_LIMIT,
    )


async def serve_stdio(dataset: str, mode: str) -> None:
    """Serve one client on stdin and stdout, until it closes them."""
    search = DocumentSearch(partial(load_retrieval, dataset, mode))
    await mcp_server(search).run_stdio_async()


def rest_routes(documents: DocumentSearch, *, may_reset: bool) -> list[BaseRoute]:
    """The tools as plain REST, for agents that do not speak MCP."""

    async def search(request: Request) -> Response:
        try:
            wanted = SearchRequest.model_validate(parse_json(await request.body()))
        except orjson.JSONDecodeError:
            return _refusal(400, "the body is not valid JSON")
        except ValidationError as error:
            return _refusal(422, all_problems(error))
        try:
            trace = request.headers.get("traceparent", "")
            found = await documents.found_documents(wanted.query, wanted.top_k, trace)
        except AssayError as error:
            return _refusal(503, str(error))
        return _json(found.model_dump_json())

    async def health_check(_request: Request) -> Response:
        health = documents.health()
        return _json(health.model_dump_json(), 200 if health.ready else 503)

    async def stats(_request: Request) -> Response:
        return JSONResponse({"search_call_count": documents.search_calls})

    async def reset(_request: Request) -> Response:
        if not may_reset:
            message = (
                f"set {ADMIN_TOKEN_VARIABLE} on the server to allow resets, and send that token: "
                "with the search token, an agent under test could reset its own count"
            )
            return _refusal(403, message)
        documents.search_calls = 0
        return JSONResponse({"search_call_count": 0})

    return [
        Route("/search_nfcorpus", search, methods=["POST"]),
        Route("/health_check", health_check, methods=["GET", "POST"]),
        Route("/stats", stats, methods=["GET"]),
        Route(RESET_PATH, reset, methods=["POST"]),
        *health_routes("mcp", documents.loading),
    ]


def _json(body: str, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def _refusal(status: int, message: str) -> Response:
    return JSONResponse({"error": message}, status)

"""The MCP server over HTTP: MCP at /mcp and REST beside it, behind the same guards."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from assay.answer.passages import Answerer
from assay.serve.guards import BodyLimit
from assay.serve.mcp.admin import TwoTokens
from assay.serve.mcp.hosts import LOCAL, SERVICES, AllowedHosts
from assay.serve.mcp.library import Library, Load
from assay.serve.mcp.rest import RESET, refused, rest_routes
from assay.serve.mcp.server import mcp_server
from assay.serve.request_log import RequestLog
from assay.serve.safe_errors import SafeErrors, safe_mcp_error

SESSION_IDLE_S = 1800.0
MAX_SESSIONS = 1000

_BODY_LIMIT = 1024 * 1024
# Checked by AllowedHosts, for REST as well.
_NO_SECOND_CHECK = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def mcp_app(
    load: Load,
    *,
    token: str | None = None,
    admin_token: str | None = None,
    hosts: Sequence[str] = (*LOCAL, *SERVICES),
    answerer: Answerer | None = None,
    session_idle_s: float = SESSION_IDLE_S,
    max_sessions: int = MAX_SESSIONS,
) -> ASGIApp:
    """`load` starts with the server and may take minutes; calls wait for it. `token` is what every
    caller needs, `admin_token` what resetting the counts needs."""
    library = Library(load)
    server = mcp_server(library, answerer)
    inner = server.streamable_http_app(
        transport_security=_NO_SECOND_CHECK,
        session_idle_timeout=session_idle_s,
        max_sessions=max_sessions,
        max_request_body_size=_BODY_LIMIT,
    )
    routes = [*inner.routes, *rest_routes(library, may_reset=admin_token is not None)]
    app: ASGIApp = Starlette(
        routes=routes,
        lifespan=lambda _app: _sessions(server),
        exception_handlers={HTTPException: refused},
    )
    app = TwoTokens(SafeErrors(app, safe_mcp_error), token, admin_token, {RESET})
    app = AllowedHosts(app, hosts)
    return RequestLog(BodyLimit(_TrimmedHeaders(app), _BODY_LIMIT))


async def serve_stdio(load: Load, answerer: Answerer | None = None) -> None:
    """One client on stdin and stdout, until it closes them."""
    await mcp_server(Library(load), answerer).run_stdio_async()


class _TrimmedHeaders:
    """Blanks around a header's value are no part of it (RFC 9110, 5.5); httptools leaves some."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["headers"] = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        await self._app(scope, receive, send)


@asynccontextmanager
async def _sessions(server: MCPServer[None]) -> AsyncIterator[None]:
    """A host application has to enter this itself: without it every call to /mcp fails."""
    async with server.session_manager.run():
        yield

"""The MCP server over HTTP: MCP at /mcp and REST beside it, behind the same guards."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from assay.answer.passages import Answerer
from assay.serve.guards import guarded, parse_hosts
from assay.serve.mcp.library import Library, Load
from assay.serve.mcp.rest import RESET, refused, rest_routes
from assay.serve.mcp.server import mcp_server
from assay.serve.safe_errors import SafeErrors, safe_mcp_error

SESSION_IDLE_S = 1800.0
MAX_SESSIONS = 1000

HOSTS_VARIABLE = "MCP_ALLOWED_HOSTS"
SERVICES = ("mcp-server", "green-agent", "purple-agent", "host.docker.internal")

_BODY_LIMIT = 1024 * 1024
# `guarded` checks Host and Origin, for REST as well: the SDK would check /mcp alone.
_NO_SECOND_CHECK = TransportSecuritySettings(enable_dns_rebinding_protection=False)


def mcp_app(
    load: Load,
    *,
    token: str | None = None,
    admin_token: str | None = None,
    hosts: Sequence[str] = SERVICES,
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
    return guarded(
        SafeErrors(app, safe_mcp_error),
        token=token,
        admin_token=admin_token,
        admin_paths={RESET},
        hosts=hosts,
        check_host=True,
        host_hint=f"allow it with --allow-hosts or {HOSTS_VARIABLE}",
        body_limit=_BODY_LIMIT,
    )


def allowed_hosts(listen_host: str, more: str = "") -> tuple[str, ...]:
    """The services of a Compose file, where the server listens, and what the operator adds."""
    return (*SERVICES, listen_host, *parse_hosts(more))


async def serve_stdio(load: Load, answerer: Answerer | None = None) -> None:
    """One client on stdin and stdout, until it closes them."""
    await mcp_server(Library(load), answerer).run_stdio_async()


@asynccontextmanager
async def _sessions(server: MCPServer[None]) -> AsyncIterator[None]:
    """A host application has to enter this itself: without it every call to /mcp fails."""
    async with server.session_manager.run():
        yield

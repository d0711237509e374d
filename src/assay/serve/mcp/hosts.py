"""Who may name this server: Host and Origin are checked for every request.

A page in somebody's browser can make its own name resolve to this machine and talk to a server that
listens on loopback only (DNS rebinding). The SDK checks /mcp alone; REST would be left open.
"""

import re
from collections.abc import Iterable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from assay.errors import UsageError
from assay.serve.guards import OPEN_PATHS, refuse

VARIABLE = "MCP_ALLOWED_HOSTS"
LOCAL = ("localhost", "127.0.0.1", "::1")
SERVICES = ("mcp-server", "green-agent", "purple-agent", "host.docker.internal")
ANY = "*"

_NAME = r"\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+)"
_HOST = re.compile(rf"(?:{_NAME})(?::\d+)?", re.IGNORECASE)
_ORIGIN = re.compile(rf"[a-z][a-z0-9+.-]*://(?:{_NAME})(?::\d+)?", re.IGNORECASE)
_HINT = f"allow it with --allow-hosts or {VARIABLE}"


class AllowedHosts:
    """421 for a Host and 403 for an Origin that is not allowed. Health can be asked by any name."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(_checked(host) for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or ANY in self._hosts or scope["path"] in OPEN_PATHS:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if _named(_HOST, headers.get("host", "")) not in self._hosts:
            await refuse(send, 421, f"this server does not answer to that Host; {_HINT}", {})
        elif "origin" in headers and _named(_ORIGIN, headers["origin"]) not in self._hosts:
            await refuse(send, 403, f"this server does not serve that Origin; {_HINT}", {})
        else:
            await self._app(scope, receive, send)


def allowed_hosts(listen_host: str, more: str = "") -> tuple[str, ...]:
    """Loopback, the services of a Compose file, where it listens, and what the operator adds."""
    added = tuple(entry.strip() for entry in more.split(",") if entry.strip())
    return (*LOCAL, *SERVICES, listen_host, *added)


def _named(form: re.Pattern[str], text: str) -> str | None:
    """The host in it, whatever its port; None where it has another form."""
    match = form.fullmatch(text)
    return None if match is None else (match["v6"] or match["name"]).lower()


def _checked(entry: str) -> str:
    """A bare name or address; `host:port` is not one, since the port does not matter here."""
    bare = entry.strip("[]").lower()
    if entry == ANY or _named(_HOST, f"[{bare}]" if bare.count(":") > 1 else bare) == bare:
        return bare
    raise UsageError(f"allowed host {entry!r} is not a host name or address, without a port")

"""The HTTP client that agents are called with: one for a run, guarded where the policy asks."""

import os
from collections.abc import Generator, Mapping
from typing import Any

import httpx

from assay.agents.outbound import (
    OutboundPolicy,
    Resolve,
    as_address,
    permitted_addresses,
    split_address,
)
from assay.errors import UsageError

TOKEN_VARIABLE = "AGENT_TOKEN"
CONNECT_SECONDS = 10.0
_WRITE_SECONDS = 30.0
# Servers commonly drop an idle connection after 5 s; leave first, or a call meets a closed door.
_KEEP_ALIVE_SECONDS = 4.0

_LIMITS = httpx.Limits(
    max_connections=None, max_keepalive_connections=100, keepalive_expiry=_KEEP_ALIVE_SECONDS
)
# How long an answer may take is the caller's to say: it bounds the whole call, not each read.
_TIMEOUT = httpx.Timeout(None, connect=CONNECT_SECONDS, write=_WRITE_SECONDS)
_HEADERS = {
    "User-Agent": "assay",
    # Without compression, what is counted against the size limit is what is held in memory.
    "Accept-Encoding": "identity",
}
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")


class TokenFor(httpx.Auth):
    """A bearer token for the agent that the user named, and for nobody else: an agent's card may
    send its callers anywhere.
    """

    def __init__(self, base: str, token: str) -> None:
        self._origin = _origin(httpx.URL(base))
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if _origin(request.url) == self._origin and "Authorization" not in request.headers:
            request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def token_for(base: str, policy: OutboundPolicy, *variables: str) -> TokenFor | None:
    """From the first variable that is set; None where a stranger named the agent, and not we."""
    if policy.public_only:
        return None
    token = next((value for name in variables if (value := os.environ.get(name))), None)
    if token is not None and not (token.isascii() and token.isprintable()):
        raise UsageError(f"{variables[0]} holds characters that no header can carry")
    return None if token is None else TokenFor(base, token)


def open_client(
    policy: OutboundPolicy, resolve: Resolve | None = None, *, auth: TokenFor | None = None
) -> httpx.AsyncClient:
    """Follows no redirect by itself. A guarded client ignores proxies: they would resolve names."""
    options: dict[str, Any] = {
        "timeout": _TIMEOUT,
        "headers": _HEADERS,
        "limits": _LIMITS,
        "auth": auth,
    }
    if policy.public_only:
        guarded = GuardedTransport(policy, httpx.AsyncHTTPTransport(limits=_LIMITS), resolve)
        return httpx.AsyncClient(transport=guarded, trust_env=False, **options)
    direct: Mapping[str, None] = dict.fromkeys(_LOOPBACK)
    return httpx.AsyncClient(mounts=direct, **options)


class GuardedTransport(httpx.AsyncBaseTransport):
    """Resolves the host itself and connects to an address that was checked, and to no other.

    A name that answers with a public address first and a private one later (DNS rebinding) gets
    nowhere, because nothing resolves it a second time.
    """

    def __init__(
        self,
        policy: OutboundPolicy,
        inner: httpx.AsyncBaseTransport,
        resolve: Resolve | None = None,
    ) -> None:
        self._policy = policy
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._policy.check_url(str(request.url))
        host, port = split_address(str(request.url))
        addresses = await permitted_addresses(self._policy, host, port, self._resolve)
        for address in addresses[:-1]:
            try:
                return await self._inner.handle_async_request(_pinned(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
        return await self._inner.handle_async_request(_pinned(request, addresses[-1]))

    async def aclose(self) -> None:
        await self._inner.aclose()


def _pinned(request: httpx.Request, address: str) -> httpx.Request:
    """The same request sent to `address`: Host header and TLS name stay those of the URL."""
    extensions = dict(request.extensions)
    if as_address(request.url.host) is None:
        extensions["sni_hostname"] = request.url.raw_host.decode("ascii")
    return httpx.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )

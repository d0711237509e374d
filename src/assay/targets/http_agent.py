"""What agents over HTTP share: one client from `open` to `close`, and the check of readiness.

Agents over MCP have none of this: their SDK has an HTTP client of its own.
"""

import asyncio

import httpx

from assay.errors import AgentFailure, FailureKind, TargetError
from assay.net.client import CLIENT_MAX_BYTES, open_client, token_for
from assay.net.http import exchange
from assay.net.outbound import OutboundPolicy, OutboundRefused
from assay.net.redact import redact_url
from assay.net.variables import AGENT_TOKEN_VARIABLE
from assay.targets.protocol import CURRENT_SEARCH
from assay.targets.readiness import AgentReadiness, ask_readiness

_CONNECT_SECONDS = 10.0


class HttpAgent:
    """An agent that is called over HTTP.

    A subclass sets `policy` and `ready_url` when it is made, and calls `connect` when it is opened.
    """

    policy: OutboundPolicy
    ready_url: str
    _connection: httpx.AsyncClient | None = None

    @property
    def http(self) -> httpx.AsyncClient:
        """The client of an open agent."""
        assert self._connection is not None, "call open() first"
        return self._connection

    async def connect(
        self, url: str, *, token: bool = True, max_bytes: int = CLIENT_MAX_BYTES
    ) -> None:
        """Open the client, closing any previous one.

        Parameters:
            url: an address of the agent; `TargetError` if it may not be called.
            token: whether AGENT_TOKEN is sent there.
            max_bytes: the largest response that may be read.
        """
        await self.close()
        try:
            self.policy.check_url(_front_page(url))
        except OutboundRefused as error:
            raise TargetError(str(error)) from None
        auth = token_for(url, self.policy, AGENT_TOKEN_VARIABLE) if token else None
        self._connection = open_client(self.policy, auth=auth, max_bytes=max_bytes)
        self._connection.event_hooks = {"request": [_add_traceparent]}

    async def require_listener(self, url: str) -> None:
        """Raise `TargetError` if no connection can be made to the host of `url`."""
        page = _front_page(url)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS), exchange(self.http, "GET", page):
                pass
        except TimeoutError:
            return  # it listens, and its front page is slow: the queries will show
        except AgentFailure as failure:
            if failure.kind is FailureKind.CONNECTION:
                raise TargetError(
                    f"nothing responds at {redact_url(page)}: {failure}; is the service running, "
                    "and is this its host and port?"
                ) from None

    async def readiness(self) -> AgentReadiness:
        """What the agent's `/health/ready` says, where there is such an address."""
        return await ask_readiness(self.http, self.ready_url)

    async def close(self) -> None:
        """Close the connections."""
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None


async def _add_traceparent(request: httpx.Request) -> None:
    """Tell the agent which question its searches are for, unless the user sends another trace."""
    if search := CURRENT_SEARCH.get():
        request.headers.setdefault("traceparent", search.traceparent)


def _front_page(url: str) -> str:
    """The root of the host. The path and query may hold placeholders, which are no address."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/"

"""What agents over HTTP share: one client from `open` to `close`, and the check of readiness.

Readiness is `GET .../health/ready`: a server that loads a model or an index answers 503 there until
it can work. Of agents without the address it is unknown, which is not a failure.
"""

import asyncio
import logging
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

import httpx

from assay.errors import GATEWAY_ERRORS, RATE_LIMITED, AgentFailure, FailureKind, TargetError
from assay.net.client import open_client, token_for
from assay.net.http import exchange, fetch
from assay.net.json import JsonObject, parse_object
from assay.net.outbound import OutboundPolicy, OutboundRefused
from assay.net.redact import AGENT_TOKEN_VARIABLE, redact_secrets, redact_url
from assay.targets.protocol import CURRENT_SEARCH

READY_PATH = "/health/ready"

_CONNECT_SECONDS = 10.0
_READY_SECONDS = 10.0
_READY_BYTES = 100_000
_SHOWN_LENGTH = 200


class ReadyState(StrEnum):
    """What an agent says about itself; unknown if it has no address for it."""

    READY = "ready"
    LOADING = "loading"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AgentReadiness:
    """What an agent says about itself; `why` is what it is waiting for, or why it cannot be asked,
    and `progress` what it loads, how much of it is done, and the total.
    """

    state: ReadyState
    why: str = ""
    progress: tuple[str, int, int | None] | None = None


UNKNOWN = AgentReadiness(ReadyState.UNKNOWN)


@runtime_checkable
class ReportsReadiness(Protocol):
    """An agent that runs elsewhere and may still be loading when it is opened."""

    async def readiness(self) -> AgentReadiness:
        """Ask once. Never raises for an agent that does not answer: that is `LOADING`."""
        ...


class HttpAgent:
    """An agent that is called over HTTP.

    A subclass sets `policy` and `ready_url` when it is made, and calls `connect` when it is opened.
    """

    policy: OutboundPolicy
    ready_url: str
    _connection: httpx.AsyncClient | None = None

    @property
    def http(self) -> httpx.AsyncClient:
        assert self._connection is not None, "call open() first"
        return self._connection

    async def connect(self, url: str, *, token: bool = True) -> None:
        """Open the client, closing any previous one. Raises `TargetError` if `url` is not allowed.

        With `token`, AGENT_TOKEN is sent there.
        """
        await self.close()
        try:
            self.policy.check_url(front_page(url))
        except OutboundRefused as error:
            raise TargetError(str(error)) from None
        for name in ("httpx", "httpcore"):  # which log whole addresses, with the query, at INFO
            if (logger := logging.getLogger(name)).level == logging.NOTSET:
                logger.setLevel(logging.WARNING)
        auth = token_for(url, self.policy, AGENT_TOKEN_VARIABLE) if token else None
        self._connection = open_client(self.policy, auth=auth)
        self._connection.event_hooks = {"request": [_add_traceparent]}

    async def require_listener(self, page: str) -> None:
        """Raise `TargetError` if no connection can be made to a page."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS), exchange(self.http, "GET", page):
                pass
        except TimeoutError:
            return  # it listens, and its front page is slow: the queries will show
        except AgentFailure as failure:
            if failure.kind is FailureKind.CONNECTION:
                raise unreachable(page, failure) from None

    async def readiness(self) -> AgentReadiness:
        return await ask_readiness(self.http, self.ready_url)

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.aclose()
            self._connection = None


def unreachable(url: str, failure: AgentFailure) -> TargetError:
    """The error for a host that accepts no connection."""
    return TargetError(
        f"nothing responds at {redact_url(url)}: {failure}; is it running, and is this its host "
        "and port?"
    )


async def _add_traceparent(request: httpx.Request) -> None:
    # Which question its searches are for, unless the user sends another trace.
    if search := CURRENT_SEARCH.get():
        request.headers.setdefault("traceparent", search.traceparent)


def front_page(url: str) -> str:
    """The root of the host. The path and query may hold placeholders, which are no address."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}/"


def ready_url(url: str, *, below: str | None = None) -> str:
    """The address to ask about readiness, below the path of `url` or the one that is given."""
    parts = urlsplit(url)
    path = (parts.path if below is None else below).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path + READY_PATH, "", ""))


async def ask_readiness(http: httpx.AsyncClient, url: str) -> AgentReadiness:
    """What the server says at `url`, which `ready_url` made."""
    try:
        reply = await fetch(http, "GET", url, timeout=_READY_SECONDS, max_bytes=_READY_BYTES)
    except AgentFailure as failure:
        if failure.retryable:  # it was there when it was opened
            return AgentReadiness(ReadyState.LOADING, str(failure))
        return UNKNOWN
    if reply.status_code in (*GATEWAY_ERRORS, RATE_LIMITED):
        return _not_ready(reply.status_code, parse_object(reply.content) or {})
    # A front end that answers every path with its page says nothing about the agent.
    is_page = str(reply.headers.get("content-type", "")).startswith("text/html")
    is_ready = reply.status_code == 200 and not is_page
    return AgentReadiness(ReadyState.READY) if is_ready else UNKNOWN


def _not_ready(status: int, body: JsonObject) -> AgentReadiness:
    texts = [each for each in body.values() if isinstance(each, str)]
    failed = next((each for each in texts if each.startswith("failed")), None)
    if failed is not None:
        return AgentReadiness(ReadyState.FAILED, redact_secrets(failed, length=_SHOWN_LENGTH))
    what, progress = f"HTTP {status} from {READY_PATH}", None
    match body.get("stage"):
        case {"what": str(what), "done": int(done), "total": int() | None as total}:
            progress = what, done, total
    return AgentReadiness(
        ReadyState.LOADING, redact_secrets(what, length=_SHOWN_LENGTH), progress=progress
    )

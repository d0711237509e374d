"""Readiness probe of an agent.

That is `GET .../health/ready`: a server that loads a model or an index answers 503 there until it
can work. Agents without the address say nothing, which is no failure: an evaluation then sends a
call that it does not time.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit, urlunsplit

import httpx

from assay.errors import GATEWAY_ERRORS, RATE_LIMITED, AgentFailure
from assay.net.http import fetch
from assay.net.json import JsonObject, parse_object
from assay.net.redact import redact_secrets

READY_PATH = "/health/ready"

_TIMEOUT_S = 10.0
_MAX_BYTES = 100_000
_SHOWN_LENGTH = 200


class ReadyState(StrEnum):
    """What an agent says about itself."""

    READY = "ready"
    LOADING = "loading"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AgentReadiness:
    """What an agent says about itself; `why` is what it is waiting for, or why it cannot be asked.

    `stage` changes as long as the loading makes progress; it is empty where the agent does not say.
    `progress` is the same for a progress bar, where the agent counts as Assay's servers do.
    """

    state: ReadyState
    why: str = ""
    stage: str = ""
    progress: tuple[str, int, int | None] | None = None


UNKNOWN = AgentReadiness(ReadyState.UNKNOWN)
"""Of an agent that has no address for it."""


@runtime_checkable
class ReportsReadiness(Protocol):
    """An agent that runs elsewhere and may still be loading when it is opened."""

    async def readiness(self) -> AgentReadiness:
        """Ask once. Never raises for an agent that does not answer: that is `LOADING`."""
        ...


def ready_url(url: str, *, below: str | None = None) -> str:
    """The address to ask about readiness, below the path of `url` or the one that is given."""
    parts = urlsplit(url)
    path = (parts.path if below is None else below).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path + READY_PATH, "", ""))


async def ask_readiness(http: httpx.AsyncClient, url: str) -> AgentReadiness:
    """What the server says at `url`, which `ready_url` made."""
    try:
        reply = await fetch(http, "GET", url, timeout=_TIMEOUT_S, limit=_MAX_BYTES)
    except AgentFailure as failure:
        if failure.retryable:  # it was there when it was opened
            return AgentReadiness(ReadyState.LOADING, str(failure))
        return UNKNOWN
    if reply.status in (*GATEWAY_ERRORS, RATE_LIMITED):
        return _not_ready(reply.status, parse_object(reply.body) or {})
    # A front end that answers every path with its page says nothing about the agent.
    is_page = str(reply.headers.get("content-type", "")).startswith("text/html")
    return AgentReadiness(ReadyState.READY) if reply.status == 200 and not is_page else UNKNOWN


def _not_ready(status: int, body: JsonObject) -> AgentReadiness:
    words = [each for each in body.values() if isinstance(each, str)]
    failed = next((each for each in words if each.startswith("failed")), None)
    if failed is not None:
        return AgentReadiness(ReadyState.FAILED, redact_secrets(failed, length=_SHOWN_LENGTH))
    what, stage, progress = f"HTTP {status} from {READY_PATH}", body.get("stage"), None
    match stage:
        case {"what": str(what), "done": int(done), "total": int() | None as total}:
            progress = what, done, total
        case {"what": str(what)}:
            pass
    return AgentReadiness(
        ReadyState.LOADING,
        redact_secrets(what, length=_SHOWN_LENGTH),
        repr(stage)[:_SHOWN_LENGTH] if isinstance(stage, dict) else "",
        progress,
    )

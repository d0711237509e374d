"""Finds an agent's card, at the places where agents of all generations put it."""

import asyncio
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import httpx
import orjson

from assay.agents.a2a.card import Card, CardError, read_card
from assay.errors import AgentFailure, FailureKind, TargetError
from assay.net.http import exchange, failure_of_status, read_body
from assay.net.outbound import split_address
from assay.net.redact import redact_url

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")

_CARD_SECONDS = 10.0
_ACCEPT = {"Accept": "application/json"}


class NobodyThere(TargetError):
    """Nothing answers at the address at all, in any protocol."""


@dataclass(frozen=True, slots=True)
class FoundCard:
    card: Card
    place: str
    document: bytes
    tried: tuple[str, ...]


def base_address(url: str) -> str:
    """What the user gave, less a path to the card, a fragment and a closing slash."""
    split_address(url)
    parts = urlsplit(url)
    path = parts.path
    for suffix in WELL_KNOWN:
        path = path.removesuffix(suffix)
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), parts.query, ""))


def places(base: str) -> list[str]:
    """Where the card may be, likeliest first. A query (some gateways want a key there) stays at
    the end of each."""
    own = urlsplit(base).path
    paths = [own + path for path in WELL_KNOWN]
    paths.append(own or "/")
    if own:
        paths += WELL_KNOWN
    return [at_path(base, path) for path in paths]


def at_path(base: str, path: str) -> str:
    return urlunsplit(urlsplit(base)._replace(path=path))


async def find_card(http: httpx.AsyncClient, base: str) -> FoundCard:
    """Raise `TargetError` with everything that was tried where there is no card."""
    tried: list[str] = []
    for place in places(base):
        try:
            async with asyncio.timeout(_CARD_SECONDS):
                document = await _fetch(http, place)
            return FoundCard(read_card(_json(document)), place, document, tuple(tried))
        except (AgentFailure, CardError, TimeoutError) as error:
            reason = str(error) or f"no answer in {_CARD_SECONDS:g} s"
            if _is_gone(error):
                raise _nobody(base, reason) from None
            tried.append(f"{redact_url(place)}: {reason}")
    lines = "".join(f"\n  {line}" for line in tried)
    raise TargetError(
        f"no agent card found for {redact_url(base)}; tried:{lines}\n"
        "Is this the address of an A2A agent? `assay doctor URL` tells what answers there."
    )


def _nobody(base: str, reason: str) -> NobodyThere:
    return NobodyThere(
        f"nothing answers at {redact_url(base)}: {reason}; "
        "is the agent running, and is this its host and port?"
    )


async def _fetch(http: httpx.AsyncClient, place: str) -> bytes:
    async with exchange(http, "GET", place, headers=_ACCEPT) as response:
        if failure := failure_of_status(response):
            raise failure
        if response.status_code != 200:
            raise CardError(f"HTTP {response.status_code}")
        return await read_body(response)


def _json(document: bytes) -> object:
    try:
        return orjson.loads(document)
    except orjson.JSONDecodeError:
        raise CardError("not JSON") from None


def _is_gone(error: Exception) -> bool:
    """Where nothing listens, the other places need no knock."""
    if isinstance(error, AgentFailure):
        return error.kind is FailureKind.CONNECTION and not str(error).startswith("HTTP")
    return isinstance(error, TimeoutError)

"""An agent's card: where it is found, what it says, and the addresses in it that can be called.

Cards of protocol 0.3 (`url`, `preferredTransport`, `additionalInterfaces`) and 1.0
(`supportedInterfaces`) are read, and common mistakes in them are corrected and reported.

Behind Docker or a proxy the addresses in a card are often wrong: the wildcard that the server
listens on, a loopback address of another machine, the name of a container. The user's own address
did reach the agent, so it replaces a card address that cannot be right, and the replacement is
reported.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx
import orjson

from assay.errors import AgentFailure, FailureKind, TargetError, TargetLoading, UsageError
from assay.net.http import exchange, failure_of_status, read_body
from assay.net.json import parse_json
from assay.net.outbound import (
    OutboundPolicy,
    OutboundRefused,
    is_loopback,
    is_wildcard,
    permitted_addresses,
    split_address,
)
from assay.net.redact import printable, redact_url
from assay.targets.a2a.reply import HTTP_JSON, JSON_RPC, V03, V10

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")

_BINDINGS = (JSON_RPC, HTTP_JSON)
_TEXT_LIMIT = 200
_CARD_SECONDS = 15.0  # more than it takes to tell that nobody listens
_CONNECT_SECONDS = 3.0
_ACCEPT = {"Accept": "application/json"}
_REMEDY = "put the URL that clients use into the card; many agents take it as --card-url URL"


class CardError(ValueError):
    """Why a document is not a usable agent card."""


class ConnectionUnavailable(TargetError):
    """No connection to the address can be made, whatever the protocol."""


class AgentNotCallable(TargetError):
    """An A2A agent is there, but it offers no protocol binding that is supported here."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake of an agent that could be worked around: what is wrong, and how to fix it."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Interface:
    """One way to call the agent. `declared` is the version as the card has it.

    `tenant` is sent with every request, if the card names one.
    """

    binding: str
    version: str
    url: str
    declared: str = ""
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """An agent card as far as it is used.

    `interfaces` are in the agent's order of preference, without bindings that are not supported.
    """

    name: str
    version: str
    streaming: bool
    interfaces: tuple[Interface, ...]
    findings: tuple[Finding, ...] = ()

    def preferred(self, asked: str) -> Interface:
        """The interface whose address the user gave (`asked`), else the first one.

        Of its binding, the newest version. An address without a path names no interface: every
        card is there.
        """
        named = [each for each in self.interfaces if each.url.rstrip("/") == asked]
        first = (named if urlsplit(asked).path and named else self.interfaces)[0]
        same = [each for each in self.interfaces if each.binding == first.binding]
        return max(same, key=lambda each: each.version == V10)


def read_card(document: object) -> Card:
    """Parse the JSON of a card of any protocol version. Raises `CardError`."""
    if not isinstance(document, Mapping):
        raise CardError(f"a {type(document).__name__}, not an agent card")
    everything = list(_interfaces(document))
    if not everything:
        raise CardError(
            "a JSON object without 'supportedInterfaces' or 'url', so not an agent card"
        )
    spoken = tuple(dict.fromkeys(each for each in everything if each.binding in _BINDINGS))
    if not spoken:
        offered = ", ".join(sorted({printable(each.binding[:40]) for each in everything}))
        raise AgentNotCallable(
            f"its card offers only {offered}, which Assay does not speak; add an interface with "
            f"the protocol binding {' or '.join(_BINDINGS)} to the agent"
        )
    capabilities = document.get("capabilities")
    streaming = isinstance(capabilities, Mapping) and capabilities.get("streaming") is True
    return Card(
        name=_text(document.get("name")),
        version=_text(document.get("version")),
        streaming=streaming,
        interfaces=spoken,
        findings=tuple(dict.fromkeys(_findings(spoken))),
    )


def _interfaces(card: Mapping[str, Any]) -> Iterator[Interface]:
    """All interfaces. Where a card has those of both versions, the newer list is complete."""
    newer = card.get("supportedInterfaces")
    if isinstance(newer, list) and newer:
        for each in newer:
            if isinstance(each, Mapping):
                yield _interface(each.get("protocolBinding"), each, each.get("protocolVersion"))
        return
    if not isinstance(card.get("url"), str):
        return
    declared = card.get("protocolVersion")
    yield _interface(card.get("preferredTransport"), card, declared)
    others = card.get("additionalInterfaces")
    for each in others if isinstance(others, list) else ():
        if isinstance(each, Mapping):
            yield _interface(each.get("transport"), each, declared)


def _interface(binding: object, entry: Mapping[str, Any], declared: object) -> Interface:
    version = _text(declared)
    url = entry.get("url")
    return Interface(
        binding=_text(binding).upper() or JSON_RPC,
        version=normal_version(version),
        url=url if isinstance(url, str) else "",
        declared=version,
        tenant=_text(entry.get("tenant")),
    )


def normal_version(declared: str) -> str:
    """1.0 for a version of 1 or more; 0.3 for an older one, for '' and for anything else.

    A server of SDK 1.x that declares no version is announced to old clients as 0.3, and
    agents on 0.2.x speak what 0.3 speaks.
    """
    major = declared.strip().lstrip("vV").partition(".")[0]
    return V10 if major.isdecimal() and major.strip("0") else V03


def _findings(interfaces: tuple[Interface, ...]) -> Iterator[Finding]:
    for each in interfaces:
        declared = each.declared
        if declared and (declared.startswith((V03, "1.")) or declared == "1"):
            continue
        said = f"protocol version {declared!r}" if declared else "no protocol version"
        yield Finding(
            f"the card declares {said}; assuming {each.version}",
            f"declare '{V10}' or '{V03}' for each interface in the card",
        )


def _text(value: object) -> str:
    return value[:_TEXT_LIMIT] if isinstance(value, str) else ""


@dataclass(frozen=True, slots=True)
class FoundCard:
    """A card with the place where it was found, and its raw JSON."""

    card: Card
    place: str
    document: bytes


def base_address(url: str) -> str:
    """The agent's address without the path of a card, a fragment and a trailing slash."""
    split_address(url)
    parts = urlsplit(url)
    path = parts.path
    for suffix in WELL_KNOWN:
        path = path.removesuffix(suffix)
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), parts.query, ""))


def places(base: str) -> list[str]:
    """Where the card may be, likeliest first. A query (some gateways need a key there) is kept."""
    own = urlsplit(base).path
    paths = [own + path for path in WELL_KNOWN]
    paths.append(own or "/")
    if own:
        paths += WELL_KNOWN
    return [at_path(base, path) for path in paths]


def at_path(base: str, path: str) -> str:
    """`base` with another path."""
    return urlunsplit(urlsplit(base)._replace(path=path))


async def find_card(http: httpx.AsyncClient, base: str) -> FoundCard:
    """The first card at the usual places. Raises `TargetError` with every place that was tried."""
    tried: list[str] = []
    for place in places(base):
        shown = redact_url(place)
        try:
            async with asyncio.timeout(_CARD_SECONDS):
                document = await _fetch(http, place)
            return FoundCard(read_card(parse_json(document)), place, document)
        except AgentNotCallable as error:
            raise AgentNotCallable(f"{redact_url(base)} is an A2A agent, but {error}") from None
        except TimeoutError:
            raise TargetLoading(
                f"{shown} accepts connections, but does not respond within {_CARD_SECONDS:g} s: "
                "the agent is still starting, or hangs"
            ) from None
        except AgentFailure as failure:
            if failure.kind is FailureKind.CONNECTION and failure.status is None:
                raise ConnectionUnavailable(
                    f"nothing responds at {redact_url(base)}: {failure}; "
                    "is the agent running, and is this its host and port?"
                ) from None
            if failure.kind is FailureKind.CONNECTION:
                raise TargetLoading(
                    f"{shown} responds with {failure}: the agent has not started yet, or its "
                    "proxy cannot reach it"
                ) from None
            tried.append(f"{shown}: {failure}")
        except orjson.JSONDecodeError:
            tried.append(f"{shown}: not JSON")
        except CardError as error:
            tried.append(f"{shown}: {error}")
    lines = "".join(f"\n  {line}" for line in tried)
    raise TargetError(
        f"no agent card found for {redact_url(base)}; tried:{lines}\n"
        "Is this the URL of an A2A agent? To see what responds there, run: assay doctor URL"
    )


async def _fetch(http: httpx.AsyncClient, place: str) -> bytes:
    async with exchange(http, "GET", place, headers=_ACCEPT) as response:
        if failure := failure_of_status(response):
            raise failure
        if response.status_code != 200:
            raise CardError(f"HTTP {response.status_code}")
        return await read_body(response)


async def correct_addresses(
    card: Card, base: str, policy: OutboundPolicy
) -> tuple[Card, tuple[Finding, ...]]:
    """The card with addresses that can be called, and a finding for each that was replaced.

    `base` is the address at which the card was found.
    """
    settled: list[Interface] = []
    findings: list[Finding] = []
    reasons: dict[str, str | None] = {}
    for each in card.interfaces:
        origin = each.url.partition("://")[2].partition("/")[0]
        if origin not in reasons:
            reasons[origin] = await _why_wrong(each.url, base, policy)
        reason = reasons[origin]
        if reason is None:
            settled.append(each)
            continue
        url = rebase(each.url, base)
        settled.append(replace(each, url=url))
        if reason:
            there, here = redact_url(each.url)[:200], redact_url(url)
            what = f"the card's address {there!r} {reason}; calling {here!r} instead"
            findings.append(Finding(what, _REMEDY))
    return replace(card, interfaces=tuple(settled)), tuple(dict.fromkeys(findings))


def rebase(url: str, base: str) -> str:
    """`url` with scheme, host and port of `base`, and below the path of `base` if it has one."""
    ours = urlsplit(base)
    try:
        path = urlsplit(url).path if "://" in url else urlsplit(urljoin("x://x/", url)).path
    except ValueError:  # a bracket without its end
        path = ""
    prefix = ours.path.rstrip("/")
    if path in ("", "/"):
        path = prefix or "/"
    elif prefix and not f"{path}/".startswith(f"{prefix}/"):
        path = prefix + path
    return urlunsplit((ours.scheme, ours.netloc, path, "", ""))


async def _why_wrong(url: str, base: str, policy: OutboundPolicy) -> str | None:
    """None if the address is kept, '' if it is replaced silently, else the reason."""
    try:
        host, port = split_address(url)
    except UsageError:
        return "is not an http(s) URL"
    our_host, our_port = split_address(base)
    if (host, port) == (our_host, our_port):
        return None
    here = is_loopback(our_host) or is_wildcard(our_host)
    if here and is_loopback(host) and port == our_port:
        return ""  # another name for the same
    if is_wildcard(host):
        return "is a wildcard listen address"
    if is_loopback(host) and not here:
        return "is a loopback address, reachable only from its own machine"
    return await _why_unreachable(host, port, policy)


async def _why_unreachable(host: str, port: int, policy: OutboundPolicy) -> str | None:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            addresses = await permitted_addresses(policy, host, port)
            _, writer = await asyncio.open_connection(addresses[0], port)
    except OutboundRefused:
        return "is not allowed by this server"
    except (OSError, httpx.ConnectError):  # a TimeoutError is an OSError
        return "cannot be reached"
    writer.close()
    return None

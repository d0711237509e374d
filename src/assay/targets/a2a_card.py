"""An A2A agent's card: where it is found, what it says, and which of its addresses can be called.

Cards of protocol 0.3 (`url`, `additionalInterfaces`) and 1.0 (`supportedInterfaces`) are read; of
the bindings JSON-RPC, which every SDK serves. Behind Docker or a proxy their addresses are often
wrong: the wildcard that the server listens on, a loopback address of another machine, the name of a
container. The user's own address did reach the agent, so it replaces a card address that cannot be
right, and the replacement is reported.
"""

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx
import orjson

from assay.errors import AgentFailure, FailureKind, TargetError, TargetLoading, UsageError
from assay.net.http import exchange, failure_of_status, read_body
from assay.net.json import JsonObject, parse_json
from assay.net.outbound import (
    OutboundPolicy,
    OutboundRefused,
    is_loopback,
    is_wildcard,
    permitted_addresses,
    split_address,
)
from assay.net.redact import printable, redact_url

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
V03 = "0.3"
V10 = "1.0"

_JSON_RPC = "JSONRPC"
_METHODS = {
    V10: {"send": "SendMessage", "stream": "SendStreamingMessage", "get": "GetTask"},
    V03: {"send": "message/send", "stream": "message/stream", "get": "tasks/get"},
}
_TEXT_LIMIT = 200
_CARD_SECONDS = 15.0  # more than it takes to tell that nobody listens
_CONNECT_SECONDS = 3.0
_REMEDY = "put the URL that clients use into the card; many agents take it as --card-url URL"


class CardNotFound(TargetError):
    """The host responds, and has no agent card at any of the usual places."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake of an agent that could be worked around: what is wrong, and how to fix it."""

    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Interface:
    """An address that takes JSON-RPC of one protocol version, and the requests in its form."""

    version: str
    url: str

    def __str__(self) -> str:
        return f"A2A {self.version} over JSON-RPC"

    @property
    def send_name(self) -> str:
        """The name of the method that sends a message, for error messages."""
        return _METHODS[self.version]["send"]

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {
            "A2A-Version": self.version,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }

    def other_version(self) -> "Interface":
        """The same interface in the other protocol version."""
        return replace(self, version=V03 if self.version == V10 else V10)

    def question(self, text: str, *, stream: bool) -> bytes:
        """The request that sends `text`. Newer libraries keep the numbers of a data part as
        floats, so it is one text part.
        """
        message: JsonObject = {"messageId": uuid.uuid4().hex}
        if self.version == V03:
            message |= {"kind": "message", "role": "user"}
            message["parts"] = [{"kind": "text", "text": text}]
            params: JsonObject = {"message": message, "configuration": {"blocking": True}}
        else:  # 1.0 blocks by default
            message |= {"role": "ROLE_USER", "parts": [{"text": text}]}
            params = {"message": message}
        return self._call("stream" if stream else "send", params)

    def task(self, task_id: str) -> bytes:
        """The request for the state of a task that was returned before it was done."""
        return self._call("get", {"id": task_id})

    def _call(self, name: str, params: JsonObject) -> bytes:
        method = _METHODS[self.version][name]
        call = {"jsonrpc": "2.0", "id": uuid.uuid4().hex, "method": method, "params": params}
        return orjson.dumps(call)


@dataclass(frozen=True, slots=True)
class Card:
    """An agent card as far as it is used, with the place where it was found and its raw JSON.

    `interfaces` are those that take JSON-RPC, in the agent's order of preference.
    """

    name: str
    version: str
    streaming: bool
    interfaces: tuple[Interface, ...]
    place: str = ""
    document: bytes = b""

    def preferred(self, asked: str) -> Interface:
        """The newest interface at the address that the user gave (`asked`), else the newest."""
        named = [each for each in self.interfaces if each.url.rstrip("/") == asked]
        # An address without a path names no interface: every card is there.
        candidates = named if urlsplit(asked).path and named else self.interfaces
        return max(candidates, key=lambda interface: interface.version)


def read_card(document: object) -> Card:
    """Parse the JSON of a card of any protocol version.

    Raises `ValueError` if it is not a card, `TargetError` if its agent cannot be called.
    """
    if not isinstance(document, Mapping) or not (offered := list(_interfaces(document))):
        raise ValueError("not an agent card: it has neither 'supportedInterfaces' nor 'url'")
    usable = tuple(interface for binding, interface in offered if binding == _JSON_RPC)
    if not usable:
        bindings = ", ".join(sorted({printable(binding[:40]) for binding, _ in offered}))
        raise TargetError(
            f"the agent's card offers only {bindings}, which Assay does not speak; add an "
            f"interface with the protocol binding {_JSON_RPC} to the agent"
        )
    capabilities = document.get("capabilities")
    streaming = isinstance(capabilities, Mapping) and capabilities.get("streaming") is True
    name, version = _text(document.get("name")), _text(document.get("version"))
    return Card(name, version, streaming, tuple(dict.fromkeys(usable)))


def _interfaces(card: Mapping[str, Any]) -> Iterator[tuple[str, Interface]]:
    """All interfaces by binding. If a card has those of both versions, the newer list is
    complete.
    """
    newer = card.get("supportedInterfaces")
    if isinstance(newer, list) and newer:
        entries = [(entry, "protocolBinding") for entry in newer]
    elif isinstance(card.get("url"), str):
        others = card.get("additionalInterfaces")
        entries = [(card, "preferredTransport")]
        entries += [(entry, "transport") for entry in (others if isinstance(others, list) else ())]
    else:
        return
    for entry, binding in entries:
        if isinstance(entry, Mapping):
            declaring = card if binding == "transport" else entry
            version = normal_version(_text(declaring.get("protocolVersion")))
            url = entry.get("url")
            interface = Interface(version, url if isinstance(url, str) else "")
            yield _text(entry.get(binding)).upper() or _JSON_RPC, interface


def normal_version(declared: str) -> str:
    """1.0 for a version of 1 or more; 0.3 for an older one, for '' and for anything else.

    A server of SDK 1.x that declares no version is announced to old clients as 0.3, and
    agents on 0.2.x speak what 0.3 speaks.
    """
    major = declared.partition(".")[0]
    return V10 if major.isdecimal() and major.strip("0") else V03


def _text(value: object) -> str:
    return value[:_TEXT_LIMIT] if isinstance(value, str) else ""


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
    paths = [*(own + path for path in WELL_KNOWN), own or "/", *(WELL_KNOWN if own else ())]
    return [at_path(base, path) for path in paths]


def at_path(base: str, path: str) -> str:
    """`base` with another path."""
    return urlunsplit(urlsplit(base)._replace(path=path))


async def find_card(http: httpx.AsyncClient, base: str) -> Card:
    """The first card at the usual places. Raises `TargetError` with every place that was tried."""
    tried: list[str] = []
    for place in places(base):
        shown = redact_url(place)
        try:
            async with (
                asyncio.timeout(_CARD_SECONDS),
                exchange(http, "GET", place, headers={"Accept": "application/json"}) as response,
            ):
                if failed := failure_of_status(response):
                    raise failed
                if response.status_code != 200:
                    raise ValueError(f"HTTP {response.status_code}")
                document = await read_body(response)
            return replace(read_card(parse_json(document)), place=place, document=document)
        except TimeoutError:
            raise TargetLoading(
                f"{shown} accepts connections, but does not respond within {_CARD_SECONDS:g} s: "
                "the agent is still starting, or hangs"
            ) from None
        except AgentFailure as failure:
            if failure.kind is FailureKind.CONNECTION and failure.status is not None:
                raise TargetLoading(
                    f"{shown} responds with {failure}: the agent has not started yet, or its proxy "
                    "cannot reach it"
                ) from None
            if failure.kind is FailureKind.CONNECTION:
                raise TargetError(
                    f"nothing responds at {redact_url(base)}: {failure}; is the agent running, and "
                    "is this its host and port?"
                ) from None
            tried.append(f"{shown}: {failure}")
        except ValueError as error:
            reason = "not JSON" if isinstance(error, orjson.JSONDecodeError) else error
            tried.append(f"{shown}: {reason}")
    lines = "".join(f"\n  {line}" for line in tried)
    raise CardNotFound(
        f"no agent card found for {redact_url(base)}; tried:{lines}\n"
        "Is this the URL of an A2A agent? To see what responds there, run: assay doctor URL"
    )


async def correct_addresses(card: Card, policy: OutboundPolicy) -> tuple[Card, tuple[Finding, ...]]:
    """The card with addresses that can be called, and a finding for each that was replaced."""
    base = base_address(card.place)
    corrected: list[Interface] = []
    findings: dict[Finding, None] = {}
    reasons: dict[str, str | None] = {}  # by origin: connecting to one that is away takes seconds
    for interface in card.interfaces:
        origin = interface.url.partition("://")[2].partition("/")[0]
        if origin not in reasons:
            reasons[origin] = await _why_wrong(interface.url, base, policy)
        reason = reasons[origin]
        url = interface.url if reason is None else rebase(interface.url, base)
        corrected.append(replace(interface, url=url))
        if reason:
            there, here = redact_url(interface.url)[:200], redact_url(url)
            what = f"the card's address {there!r} {reason}; calling {here!r} instead"
            findings[Finding(what, _REMEDY)] = None
    return replace(card, interfaces=tuple(corrected)), tuple(findings)


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

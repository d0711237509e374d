"""An A2A agent's card: where it is found, what it says, and how to call the addresses in it.

Cards of protocol 0.3 (`url`, `preferredTransport`, `additionalInterfaces`) and 1.0
(`supportedInterfaces`) are read. Behind Docker or a proxy their addresses are often wrong: the
wildcard that the server listens on, a loopback address of another machine, the name of a container.
The user's own address did reach the agent, so it replaces a card address that cannot be right, and
the replacement is reported.
"""

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote as percent_encode
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
from assay.targets.http_agent import WireCall

WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")
JSON_RPC = "JSONRPC"
HTTP_JSON = "HTTP+JSON"
V03 = "0.3"
V10 = "1.0"

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
    """One way to call the agent, and the requests in its form.

    The forms are JSON-RPC or HTTP+JSON, version 0.3 or 1.0. A question always travels as one text
    part: newer libraries keep the numbers of a data part as floats.
    """

    binding: str
    version: str
    url: str
    tenant: str = ""

    def __str__(self) -> str:
        name = "JSON-RPC" if self.binding == JSON_RPC else self.binding
        return f"A2A {self.version} over {name}"

    @property
    def send_name(self) -> str:
        """The name of the method that sends a message, for error messages."""
        if self.binding == JSON_RPC:
            return _METHODS[self.version]["send"]
        return f"POST {self._path('/message:send')}"

    def other_version(self) -> "Interface":
        """The same interface in the other protocol version."""
        return replace(self, version=V03 if self.version == V10 else V10)

    def question(self, text: str, *, stream: bool) -> WireCall:
        """The request that sends `text` as a message of one text part."""
        old = self.version == V03
        message: JsonObject = {"messageId": uuid.uuid4().hex}
        if old and self.binding == JSON_RPC:
            message |= {"kind": "message", "role": "user"}
            message["parts"] = [{"kind": "text", "text": text}]
        else:  # the 0.3 library sends its protobuf form over HTTP+JSON, which has other names
            message |= {"role": "ROLE_USER", "content" if old else "parts": [{"text": text}]}
        body: JsonObject = {"message": message}
        if old:
            name = "message" if self.binding == JSON_RPC else "request"
            body = {name: message, "configuration": {"blocking": True}}  # 1.0 blocks by default
        if self.binding == JSON_RPC:
            return self._rpc("stream" if stream else "send", body)
        return self._request("POST", "/message:stream" if stream else "/message:send", body)

    def task(self, task_id: str) -> WireCall:
        """The request for the state of a task that was returned before it was done."""
        if self.binding == JSON_RPC:
            return self._rpc("get", {"id": task_id})
        return self._request("GET", f"/tasks/{percent_encode(task_id, safe='')}", None)

    def _rpc(self, name: str, params: JsonObject) -> WireCall:
        # HTTP+JSON has the tenant in the path, and version 0.3 nowhere.
        if self.tenant and self.version == V10:
            params = {"tenant": self.tenant, **params}
        method = _METHODS[self.version][name]
        call = {"jsonrpc": "2.0", "id": uuid.uuid4().hex, "method": method, "params": params}
        return WireCall("POST", self.url, self._headers(), orjson.dumps(call))

    def _request(self, method: str, path: str, body: JsonObject | None) -> WireCall:
        content = None if body is None else orjson.dumps(body)
        url = self.url.rstrip("/") + self._path(path)
        return WireCall(method, url, self._headers(), content)

    def _path(self, path: str) -> str:
        if self.version == V03:
            return f"/v1{path}"
        return f"/{percent_encode(self.tenant, safe='')}{path}" if self.tenant else path

    def _headers(self) -> dict[str, str]:
        return {
            "A2A-Version": self.version,
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json",
        }


@dataclass(frozen=True, slots=True)
class Card:
    """An agent card as far as it is used, with the place where it was found and its raw JSON.

    `interfaces` are in the agent's order of preference, without bindings that are not supported.
    """

    name: str
    version: str
    streaming: bool
    interfaces: tuple[Interface, ...]
    place: str = ""
    document: bytes = b""

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
    """Parse the JSON of a card of any protocol version.

    Raises `ValueError` if it is not a card, `TargetError` if its agent cannot be called.
    """
    if not isinstance(document, Mapping) or not (everything := list(_interfaces(document))):
        raise ValueError("not an agent card: it has neither 'supportedInterfaces' nor 'url'")
    usable = tuple(
        dict.fromkeys(each for each in everything if each.binding in (JSON_RPC, HTTP_JSON))
    )
    if not usable:
        offered = ", ".join(sorted({printable(each.binding[:40]) for each in everything}))
        raise TargetError(
            f"the agent's card offers only {offered}, which Assay does not speak; add an interface "
            f"with the protocol binding {JSON_RPC} or {HTTP_JSON} to the agent"
        )
    capabilities = document.get("capabilities")
    streaming = isinstance(capabilities, Mapping) and capabilities.get("streaming") is True
    name, version = _text(document.get("name")), _text(document.get("version"))
    return Card(name, version, streaming, usable)


def _interfaces(card: Mapping[str, Any]) -> Iterator[Interface]:
    """All interfaces. If a card has those of both versions, the newer list is complete."""
    newer = card.get("supportedInterfaces")
    if isinstance(newer, list) and newer:
        entries = [(each, "protocolBinding", each) for each in newer if isinstance(each, Mapping)]
    elif isinstance(card.get("url"), str):
        others = card.get("additionalInterfaces")
        entries = [(card, "preferredTransport", card)]
        for each in others if isinstance(others, list) else ():
            entries += [(each, "transport", card)] if isinstance(each, Mapping) else []
    else:
        return
    for entry, binding, declaring in entries:
        url = entry.get("url")
        yield Interface(
            binding=_text(entry.get(binding)).upper() or JSON_RPC,
            version=normal_version(_text(declaring.get("protocolVersion"))),
            url=url if isinstance(url, str) else "",
            tenant=_text(entry.get("tenant")),
        )


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
            if failure.kind is not FailureKind.CONNECTION:
                tried.append(f"{shown}: {failure}")
            elif failure.status is None:
                raise TargetError(
                    f"nothing responds at {redact_url(base)}: {failure}; is the agent running, and "
                    "is this its host and port?"
                ) from None
            else:
                raise TargetLoading(
                    f"{shown} responds with {failure}: the agent has not started yet, or its proxy "
                    "cannot reach it"
                ) from None
        except orjson.JSONDecodeError:
            tried.append(f"{shown}: not JSON")
        except ValueError as error:
            tried.append(f"{shown}: {error}")
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
    reasons: dict[str, str | None] = {}
    for each in card.interfaces:
        origin = each.url.partition("://")[2].partition("/")[0]
        if origin not in reasons:
            reasons[origin] = await _why_wrong(each.url, base, policy)
        reason = reasons[origin]
        url = each.url if reason is None else rebase(each.url, base)
        corrected.append(replace(each, url=url))
        if reason:
            there, here = redact_url(each.url)[:200], redact_url(url)
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

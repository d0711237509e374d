"""Puts right the addresses in a card.

A card tells where to send calls, and behind Docker or a proxy it is often wrong: the wildcard the
server listens on, a loopback address of another machine, a container's name. The user's own address
did reach the agent, so a card address that cannot be right gives way to it, loudly.
"""

import asyncio
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx

from assay.agents.a2a.card import Card, Finding, Interface
from assay.errors import UsageError
from assay.net.outbound import (
    OutboundPolicy,
    OutboundRefused,
    is_loopback,
    is_wildcard,
    permitted_addresses,
    split_address,
)
from assay.net.redact import redact_url

_CONNECT_SECONDS = 3.0
_REMEDY = (
    "have the card name the address that callers use; agents commonly take it as --card-url URL"
)


async def correct_addresses(
    card: Card, base: str, policy: OutboundPolicy
) -> tuple[Card, tuple[Finding, ...]]:
    """The card with addresses that can be called, and a finding for each that was replaced."""
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
        settled.append(Interface(each.binding, each.version, url, each.declared))
        if reason:
            there, here = redact_url(each.url)[:200], redact_url(url)
            what = f"the card's address {there!r} {reason}; calling {here!r} instead"
            findings.append(Finding(what, _REMEDY))
    return card.at(tuple(settled)), tuple(dict.fromkeys(findings))


def rebase(url: str, base: str) -> str:
    """`url` with scheme, host and port of `base`, and below the path of `base` if it has one."""
    ours = urlsplit(base)
    path = urlsplit(url).path if "://" in url else urlsplit(urljoin("x://x/", url)).path
    prefix = ours.path.rstrip("/")
    if path in ("", "/"):
        path = prefix or "/"
    elif prefix and not f"{path}/".startswith(f"{prefix}/"):
        path = prefix + path
    return urlunsplit((ours.scheme, ours.netloc, path, "", ""))


async def _why_wrong(url: str, base: str, policy: OutboundPolicy) -> str | None:
    """None where the address may stand, '' where it changes without a word, else the reason."""
    try:
        host, port = split_address(url)
    except UsageError:
        return "is no http(s) address"
    our_host, our_port = split_address(base)
    if (host, port) == (our_host, our_port):
        return None
    here = is_loopback(our_host) or is_wildcard(our_host)
    if here and is_loopback(host) and port == our_port:
        return ""  # another name for the same
    if is_wildcard(host):
        return "is the wildcard that a server listens on"
    if is_loopback(host) and not here:
        return "is a loopback address, so one of its own machine"
    return await _why_unreachable(host, port, policy)


async def _why_unreachable(host: str, port: int, policy: OutboundPolicy) -> str | None:
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            addresses = await permitted_addresses(policy, host, port)
            _, writer = await asyncio.open_connection(addresses[0], port)
    except OutboundRefused:
        return "may not be called by this server"
    except (OSError, httpx.ConnectError):  # a TimeoutError is an OSError
        return "cannot be reached"
    writer.close()
    return None

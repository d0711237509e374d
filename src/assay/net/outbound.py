"""Which addresses a server may call on behalf of its clients.

On the command line the user names the target, and everything is allowed. Clients of a server could
have it fetch what only it can see, such as the cloud's metadata service. Names may resolve to
anything: what counts are the addresses at the moment of connecting.
"""

import asyncio
import ipaddress
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

import httpx

from assay.errors import UsageError
from assay.net.redact import redact_url

VARIABLE = "ASSAY_ALLOWED_HOSTS"
# How a server hands its policy to a process that it starts: the allowed hosts, if restricted.
POLICY_VARIABLE = "ASSAY_OUTBOUND_POLICY"

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[list[str]]]

# What Python (or an older Python) takes for public: Azure's platform service, the block from which
# Oracle's metadata service answers, and the local form of NAT64.
_SPECIAL = tuple(
    ipaddress.ip_network(block) for block in ("168.63.129.16/32", "192.0.0.0/24", "64:ff9b:1::/48")
)
# Prefixes before an IPv4 address that a translator takes off again: NAT64 (RFC 6052) and SIIT.
_TRANSLATED = tuple(ipaddress.ip_network(block) for block in ("64:ff9b::/96", "::ffff:0:0:0/96"))


class OutboundRefused(httpx.RequestError):
    """The policy does not let this address be called. Asking again does not help."""


@dataclass(frozen=True)
class OutboundPolicy:
    """`allow_hosts` are exceptions from `public_only`: `host`, `host:port`, address or CIDR."""

    allow_hosts: tuple[str, ...] = ()
    public_only: bool = False

    def __post_init__(self) -> None:
        for entry in self.allow_hosts:
            _allowed(entry)  # refuses a wrong one

    @classmethod
    def for_server(
        cls, listen_host: str, allow_hosts: str | Iterable[str] = ()
    ) -> "OutboundPolicy":
        """What a server that listens on `listen_host` may call; loopback serves only its user."""
        hosts = allow_hosts if isinstance(allow_hosts, str) else ",".join(allow_hosts)
        return cls(_split(hosts), public_only=not is_loopback(listen_host))

    @property
    def environment(self) -> dict[str, str]:
        """Variables that put a child process under this policy; see `policy_of_process`."""
        return {POLICY_VARIABLE: ",".join(self.allow_hosts)} if self.public_only else {}

    def check_url(self, url: str) -> None:
        """Refuse what can be seen from the address alone; names are judged when connecting."""
        host, port = split_address(url)
        if not self.public_only:
            return
        if "@" in urlsplit(url).netloc:
            raise OutboundRefused("URLs with a user name or password are not allowed")
        literal = as_address(host)
        if literal is not None:
            self.check(host, port, literal)
        elif is_loopback(host) and not self.names(host, port):
            raise self._refusal(host, "a name of this machine")

    def names(self, host: str, port: int) -> bool:
        """Whether the host is allowed by name, regardless of its address."""
        name = host.lower().rstrip(".")
        return any(_allowed(entry) in ((name, None), (name, port)) for entry in self.allow_hosts)

    def check(self, host: str, port: int, address: Address) -> None:
        """Refuse one address that `host` resolves to."""
        if not self.public_only or self.names(host, port):
            return
        plain = _unwrapped(address)
        for allowed in map(_allowed, self.allow_hosts):
            if not isinstance(allowed, tuple) and (plain in allowed or address in allowed):
                return
        special = any(plain in block for block in _SPECIAL)
        if special or not plain.is_global or plain.is_multicast or plain.is_reserved:
            raise self._refusal(host, "an address of a private or special network")

    def _refusal(self, host: str, what: str) -> OutboundRefused:
        return OutboundRefused(
            f"{host!r} is {what}, which this server may not "
            f"call; its operator can allow it with --allow-hosts or {VARIABLE}"
        )


UNRESTRICTED = OutboundPolicy()


def policy_of_process() -> OutboundPolicy:
    """What this process may call: everything, unless the server that started it is restricted."""
    hosts = os.environ.get(POLICY_VARIABLE)
    return UNRESTRICTED if hosts is None else OutboundPolicy(_split(hosts), public_only=True)


def _split(hosts: str) -> tuple[str, ...]:
    return tuple(host.strip() for host in hosts.split(",") if host.strip())


async def permitted_addresses(
    policy: OutboundPolicy, host: str, port: int, resolve: Resolve | None = None
) -> list[str]:
    """The addresses behind `host` that may be called. Raise if there is none."""
    if as_address(host) is not None:
        found = [host]
    elif resolve is not None:
        found = await resolve(host, port)
    else:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpx.ConnectError(f"host name {host!r} cannot be resolved") from error
        found = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    permitted = []
    refused: OutboundRefused | None = None
    for text in found:
        try:
            policy.check(host, port, ipaddress.ip_address(text))
            permitted.append(text)
        except OutboundRefused as refusal:
            refused = refusal
    if not permitted:
        raise refused or httpx.ConnectError(f"{host!r} has no address")
    return permitted


def split_address(url: str) -> tuple[str, int]:
    """Host and port of an http(s) URL."""
    with suppress(ValueError):  # of a port beyond 65535, for example
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname:
            return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    raise UsageError(f"{redact_url(url)[:200]!r} is not an http(s) URL such as http://host:9010")


def as_address(host: str) -> Address | None:
    """Only the usual notation: 0x7f.1 or 2130706433 are left to the resolver, then judged."""
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    address = as_address(host)
    if address is not None:
        return _unwrapped(address).is_loopback
    name = host.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost")


def is_wildcard(host: str) -> bool:
    """Whether the host means all network interfaces."""
    address = as_address(host)
    return address is not None and _unwrapped(address).is_unspecified


def _unwrapped(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one, which is where a packet would end up."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    inner = address.ipv4_mapped or address.sixtofour
    if inner is None and any(address in prefix for prefix in _TRANSLATED):
        inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if inner is None and 0 < int(address) >> 1 < 2**31:  # ::a.b.c.d, out of use but still routed
        inner = ipaddress.IPv4Address(int(address))
    return inner or address


@cache
def _allowed(entry: str) -> Network | tuple[str, int | None]:
    """A network, or a host with its port, of `allow_hosts`."""
    with suppress(ValueError):
        return ipaddress.ip_network(entry.strip("[]"), strict=False)
    try:
        parts = urlsplit(f"//{entry}")
        name, port = parts.hostname, parts.port
    except ValueError:
        name = port = None
    if not name or parts.path or parts.username is not None:
        raise UsageError(
            f"allowed host {entry!r} is not a host, host:port or network such as 10.0.0.0/8"
        )
    return name.rstrip("."), port

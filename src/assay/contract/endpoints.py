"""Which agent lives where: names from AGENT_ENDPOINTS_JSON, addresses as they are."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx
import orjson

from assay.errors import UsageError

VARIABLE = "AGENT_ENDPOINTS_JSON"
TOKEN_VARIABLE = "AGENT_TOKEN"


def read_endpoints(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """{"agent-name": "http://..."}; empty when the variable is not set."""
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{VARIABLE} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise UsageError(f'{VARIABLE} must be an object, {{"agent-name": "http://..."}}')
    return {name: base_address(url, f"{VARIABLE}, {name!r}") for name, url in value.items()}


def resolve(agent: str, endpoints: Mapping[str, str]) -> str:
    """The address of an agent that is given by name or by address."""
    if "://" in agent:
        return base_address(agent, "agent")
    if agent in endpoints:
        return endpoints[agent]
    known = ", ".join(sorted(endpoints)) or "none"
    raise UsageError(f"no agent is called {agent!r}; {VARIABLE} names: {known}")


def base_address(url: object, what: str) -> str:
    if not isinstance(url, str):
        raise UsageError(f"{what}: expected an http(s) address, got {type(url).__name__}")
    try:
        parts, parsed = urlsplit(url), httpx.URL(url)
        is_base = parts.scheme in ("http", "https") and bool(parsed.host)
        is_base = is_base and not (parts.query or parts.fragment) and parts.port != 0
    except (ValueError, httpx.InvalidURL):  # a broken IPv6 address, a port that is none, ...
        is_base = False
    if not is_base:
        said = "it" if "@" in url else repr(url)  # before an @ there may be a password
        raise UsageError(f"{what}: {said} is not an http(s) address such as http://host:8000")
    return url.rstrip("/")


def shown_address(base: str) -> str:
    """For people and reports: without the user name and password that it may hold."""
    scheme, _, rest = base.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def token_from_environment(environment: Mapping[str, str] = os.environ) -> str | None:
    """The bearer token that agents are called with, where they ask for one."""
    token = environment.get(TOKEN_VARIABLE) or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise UsageError(f"{TOKEN_VARIABLE} holds characters that no header can carry")
    return token


def authorization(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}

"""Which agent lives where: names from AGENT_ENDPOINTS_JSON, addresses as they are."""

import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import orjson

from assay.errors import UsageError

VARIABLE = "AGENT_ENDPOINTS_JSON"


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
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
        raise UsageError(f"{what}: {url!r} is not an http(s) address such as http://host:8000")
    return url.rstrip("/")

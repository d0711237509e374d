"""`CURRENT_SEARCH`: every kind of target tells its agent where to search."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import jmespath
import pytest
from tests.targets.every_kind import KINDS, Service, ask

from assay.errors import AgentFailure, UsageError
from assay.targets.protocol import CURRENT_SEARCH, SearchAddress
from assay.targets.python_call import PythonAgent

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
URL, MCP = "http://127.0.0.1:7/q/t0/search", "http://127.0.0.1:7/q/t0/mcp"


async def find(query: str, top_k: int = 5) -> list[dict[str, Any]]:
    return [{"doc_id": f"{query}-{n}"} for n in range(top_k)]


@pytest.fixture
def search() -> Iterator[None]:
    token = CURRENT_SEARCH.set(SearchAddress(URL, MCP, TRACE, find))
    yield
    CURRENT_SEARCH.reset(token)


async def sent(kind: str, **request: Any) -> tuple[dict[str, str], dict[str, Any]]:
    agent = Service({"doc_ids": ["d1"], "answer": "Yes."})
    await ask(agent, kind, **request)
    texts = [(headers, body) for headers, body in agent.sent if "coffee" in json.dumps(body)]
    return texts[-1] if texts else agent.sent[-1]


ASKED = {"query": "coffee", "top_k": 5, "search_url": URL, "mcp_server_url": MCP}


@pytest.mark.parametrize(
    ("kind", "place", "found"),
    [
        ("rest", "nowhere", None),
        ("openai", "nowhere", None),
        ("a2a", "params.message.parts[0].text", json.dumps(ASKED, separators=(",", ":"))),
        ("http", "inputs.search_url", URL),
        ("mcp", 'params."_meta".traceparent', TRACE),
    ],
)
async def test_every_kind_sends_the_trace_and_the_address_in_its_way(
    kind: str, place: str, found: str | None, search: None
) -> None:
    headers, body = await sent(kind)
    assert headers["traceparent"] == TRACE
    assert jmespath.search(place, body) == found


@pytest.mark.parametrize("kind", KINDS)
async def test_nothing_is_added_without_a_search(kind: str) -> None:
    headers, body = await sent(kind)
    assert "traceparent" not in headers
    assert not any(word in json.dumps(body) for word in ("search_url", "mcp_server", "traceparent"))


@pytest.mark.parametrize("kind", ["rest", "openai"])
async def test_a_request_has_places_for_the_addresses(kind: str, search: None) -> None:
    request = json.dumps({"q": "{query}", "tools": ["{mcp_server_url}"], "at": "see {search_url}"})
    headers, body = await sent(kind, body=request, headers=("X-Search: {search_url}",))
    assert (body["tools"], body["at"], headers["x-search"]) == ([MCP], f"see {URL}", URL)


@pytest.mark.parametrize("kind", ["rest", "openai"])
@pytest.mark.parametrize(
    "request_settings",
    [{"body": '{"q": "{query}", "at": "{search_url}"}'}, {"headers": ("X: {mcp_server_url}",)}],
)
async def test_an_address_needs_a_search(kind: str, request_settings: dict[str, Any]) -> None:
    with pytest.raises((AgentFailure, UsageError), match="only during a run with --search"):
        await sent(kind, **request_settings)


async def later(query: str, top_k: int, *, search: Any) -> list[str]:
    return [each["doc_id"] for each in await search(query, top_k=top_k)]


def now(query: str, top_k: int, search: Any = None) -> list[str]:
    return [each["doc_id"] for each in search(query, top_k=top_k)] if search else []


@pytest.mark.parametrize("function", [later, now, SimpleNamespace(ask=now)])
async def test_a_function_gets_a_callable(function: Any, search: None) -> None:
    assert (await PythonAgent(function, name="f").ask("q", 2)).doc_ids == ("q-0", "q-1")


async def test_a_function_without_a_search() -> None:
    assert (await PythonAgent(now, name="f").ask("q", 2)).doc_ids == ()
    with pytest.raises(AgentFailure, match="add --search TARGET"):
        await PythonAgent(later, name="f").ask("q", 2)

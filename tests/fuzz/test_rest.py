"""Requests made from the published OpenAPI documents, right and wrong, to the real servers.

Each response must have a status, a type and a body that the document describes; none is a 500.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp
from tests.contract_agents.sample_agents import make_resources
from tests.fuzz.mutation import examples
from tests.serve.serving import serving
from tests.serve_mcp.serving import load_tiny

from assay.contract.openapi import OPENAPI_PATH, Operation, agent_operations, openapi_document
from assay.contract.server import AgentService, agent_routes
from assay.data import Dataset, Document, Query
from assay.net.outbound import OutboundPolicy
from assay.progress import Progress
from assay.serve.contract_agents.apps import agents_app
from assay.serve.green import agent as green_agent
from assay.serve.green.agent import green_app
from assay.serve.green.jobs import JobQueue
from assay.serve.mcp import app as mcp_module
from assay.serve.mcp.app import mcp_app
from assay.targets.a2a.agent import A2AAgent

TINY = Dataset(
    "tiny",
    {"d1": Document("d1", "", "text")},
    {"q1": Query("q1", "query")},
    {"test": {"q1": {"d1": 1}}},
)


def _green(folder: Path) -> ASGIApp:
    async def load(_progress: Progress) -> Dataset:
        return TINY

    # No agent can be called, wherever a generated address leads.
    policy = OutboundPolicy(public_only=True)
    jobs = JobQueue(lambda url: A2AAgent(url, policy=policy), folder)
    return green_app(load, source="tiny", out=folder, policy=policy, token=None, queue=jobs)


def _agent(folder: Path) -> ASGIApp:
    return agents_app(["RAG_RETRIEVE"], make_resources(folder))


SERVERS: dict[str, Callable[[Path], ASGIApp]] = {
    "agent": _agent,
    "green": _green,
    "mcp": lambda _folder: mcp_app(load_tiny),
}


@contextmanager
def _running(app: ASGIApp) -> Iterator[str]:
    """The server on a thread of its own: the requests of a generated test are synchronous."""
    started: queue.Queue[tuple[str, Callable[[], object]]] = queue.Queue()

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        async with serving(app) as address:
            started.put((address, lambda: loop.call_soon_threadsafe(ended.set)))
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    url, end = started.get(timeout=20)
    try:
        yield url
    finally:
        end()
        thread.join()


@pytest.mark.parametrize("name", SERVERS)
def test_every_response_is_as_the_document_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import schemathesis
    from schemathesis.generation import GenerationMode
    from schemathesis.specs.openapi import checks

    # What JSON Schema cannot say: a query needs a word, an address needs a host.
    beyond_the_schema = [checks.positive_data_acceptance]
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    with _running(SERVERS[name](tmp_path)) as url:
        schema = schemathesis.openapi.from_dict(httpx.get(url + OPENAPI_PATH).json())
        schema.config.update(base_url=url)
        tried = 0
        for found in schema.get_all_operations():
            operation: Any = found.ok()
            strategies = [
                operation.as_strategy(generation_mode=mode)
                for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
            ]

            @given(case=st.one_of(*strategies))
            @settings(max_examples=examples(8), suppress_health_check=list(HealthCheck))
            def ask(case: Any) -> None:
                nonlocal tried
                tried += 1
                case.call_and_validate(timeout=20, excluded_checks=beyond_the_schema)

            ask()
        assert tried > 8


async def _never(*_: object) -> Any:
    raise AssertionError("never run")


def _agent_routes() -> list[BaseRoute]:
    return agent_routes(AgentService("agent", "RAG_RETRIEVE", _never))


@pytest.mark.parametrize(
    ("operations", "routes"),
    [
        (agent_operations("RAG_RETRIEVE"), _agent_routes),
        (green_agent.OPERATIONS, lambda: green_agent.task_routes(mock.Mock())),
        (mcp_module.OPERATIONS, lambda: mcp_module.rest_routes(mock.Mock(), may_reset=True)),
    ],
)
def test_the_document_describes_the_routes_that_there_are(
    operations: Sequence[Operation], routes: Callable[[], list[BaseRoute]]
) -> None:
    described = {(each.method, each.path) for each in operations}
    served = {
        (method, route.path)
        for route in routes()
        if isinstance(route, Route) and route.path != OPENAPI_PATH
        for method in route.methods or ()
        if method != "HEAD"
    }
    assert served | {("GET", "/health"), ("GET", "/health/ready")} == described


def test_an_agent_says_which_task_it_does() -> None:
    document = openapi_document("agent", agent_operations("POLICY_REVIEW"))
    body = document["paths"]["/agents/run/sync"]["post"]["requestBody"]["content"]
    fixed = body["application/json"]["schema"]["allOf"][1]["properties"]
    assert fixed == {"task_type": {"const": "POLICY_REVIEW"}}
    assert "AgentRunRequest" in document["components"]["schemas"]

"""Bodies that are almost right, sent to the real servers: none is a crash, each answer is JSON."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from starlette.types import ASGIApp
from tests.contract_agents.sample_agents import make_knowledge
from tests.fuzz.mutation import almost, examples
from tests.serve.serving import loads, serving
from tests.serve_mcp.serving import load_tiny
from tests.tiny_dataset import tiny_dataset

from assay.net.outbound import OutboundPolicy
from assay.serve.contract_agents.apps import agents_app
from assay.serve.green.agent import green_app
from assay.serve.mcp.server import mcp_app

RUN = b"""{"request_id": "r", "task_type": "RAG_RETRIEVE", "budgets": {"timeout_ms": 900},
"inputs": {"query": "tea", "topK": 3, "metadataFilters": {"year": {"gte": 2019}}}}"""
EVALUATE = b"""{"participants": {"retrieval_agent": "http://10.0.0.1:9010"},
"config": {"num_queries": 10, "top_k": 5, "random_seed": 42, "verbose": true}}"""
RPC = b"""{"jsonrpc": "2.0", "id": 1, "method": "message/send",
"params": {"message": {"role": "user", "kind": "message", "messageId": "m",
"parts": [{"kind": "text", "text": "{}"}]}}}"""


def green(folder: Path) -> ASGIApp:
    # No agent can be called, wherever a generated address leads.
    policy = OutboundPolicy(public_only=True)
    return green_app(loads(tiny_dataset(1)), source="tiny", out=folder, policy=policy)


SERVERS: dict[str, tuple[Callable[[Path], ASGIApp], bytes]] = {
    "/agents/run/sync": (lambda folder: agents_app(["RAG_RETRIEVE"], make_knowledge(folder)), RUN),
    "/search_nfcorpus": (lambda _folder: mcp_app(load_tiny), b'{"query": "tea", "top_k": 3}'),
    "/tasks": (green, EVALUATE),
    "/": (green, RPC),
}


@pytest.mark.parametrize("path", SERVERS)
async def test_any_body(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    make, good = SERVERS[path]
    async with serving(make(tmp_path)) as url:
        client = httpx.Client(base_url=url, timeout=20, trust_env=False)

        @given(body=almost(good))
        @example(body=good)
        @settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
        def ask(body: bytes) -> None:
            headers = {"Content-Type": "application/json"}
            answer = client.post(path, content=body, headers=headers)
            assert answer.status_code < 500
            assert isinstance(answer.json(), dict)

        with client:
            await asyncio.to_thread(ask)  # generated tests are synchronous, the server is not

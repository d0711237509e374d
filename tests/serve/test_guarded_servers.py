"""Every server stands behind the same guards, in the same order, and refuses in the same way."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.types import ASGIApp
from tests.contract_agents.sample_agents import make_knowledge
from tests.serve.serving import finds, loads, serving
from tests.serve_mcp.serving import load_tiny

from assay.contract.server import ServingLimits
from assay.data import Dataset
from assay.net.outbound import UNRESTRICTED
from assay.serve import guards
from assay.serve.contract_agents import apps
from assay.serve.green.agent import green_app
from assay.serve.mcp.server import mcp_app
from assay.serve.purple import purple_app
from assay.serve.ui.app import ui_app

TOKEN = "t0ken"
TOO_LARGE = 2_000_000
SHORT_S = 0.2

# What a browser or client of each server posts to, and would be served at.
PATHS = {
    "green": "/tasks",
    "purple": "/",
    "mcp": "/search_nfcorpus",
    "agent": "/agents/run/sync",
    "ui": "/evaluate",
}

Build = Callable[..., ASGIApp]


@pytest.fixture(params=PATHS)
def server(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def build(server: str, tmp_path: Path, tiny: Dataset) -> Build:
    async def find_nothing(_query: str) -> list[str]:
        return []

    builders: dict[str, Build] = {
        "green": partial(
            green_app, loads(tiny), source="tiny", out=tmp_path / "runs", policy=UNRESTRICTED
        ),
        "purple": partial(purple_app, finds(find_nothing)),
        "mcp": partial(mcp_app, load_tiny),
        "agent": partial(apps.agents_app, ["POLICY_REVIEW"], make_knowledge(tmp_path)),
        "ui": partial(ui_app, tmp_path / "runs"),
    }
    return builders[server]


async def test_the_order_of_the_guards(server: str, build: Build, http: httpx.AsyncClient) -> None:
    """Origin before token, token before body; each refusal is JSON and carries a request id."""
    async with serving(build(token=TOKEN)) as url:

        async def post(origin: str, token: str | None, content: Any) -> httpx.Response:
            headers = {"Origin": origin, "X-Request-ID": "r-7"}
            if token is not None:
                headers["Authorization"] = f"Bearer {token}"
            return await http.post(url + PATHS[server], content=content, headers=headers)

        foreign = await post("http://evil.example", None, b"x" * TOO_LARGE)
        unknown = await post(url, None, b"x" * TOO_LARGE)
        wrong = await post(url, "guess", b"x" * TOO_LARGE)
        declared = await post(url, TOKEN, b"x" * TOO_LARGE)
        streamed = await post(url, TOKEN, _chunks())
        health = await http.get(f"{url}/health")
    assert foreign.status_code == 403
    assert (unknown.status_code, wrong.status_code) == (401, 401)
    assert unknown.headers["www-authenticate"] == "Bearer"
    assert (declared.status_code, streamed.status_code) == (413, 413)
    for refusal in (foreign, unknown, wrong, declared, streamed):
        assert refusal.headers["content-type"] == "application/json"
        assert refusal.headers["x-request-id"] == "r-7"
        assert refusal.json()["error"]
    assert health.status_code == 200
    assert health.headers["x-request-id"]


async def test_a_late_body(server: str, build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "BODY_TIMEOUT_S", SHORT_S)
    monkeypatch.setattr(apps, "ServingLimits", partial(ServingLimits, body_timeout_s=SHORT_S))
    async with serving(build()) as url:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        head = f"POST {PATHS[server]} HTTP/1.1\r\nHost: {address.netloc}\r\nOrigin: {url}\r\n"
        kind = "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 5\r\n\r\nx"
        writer.write((head + kind).encode())
        async with asyncio.timeout(20):
            answer = (await reader.read()).lower()
        writer.close()
    assert answer.startswith(b"http/1.1 408 ")
    assert b"connection: close" in answer
    assert b"x-request-id: " in answer


async def _chunks() -> AsyncIterator[bytes]:
    for _ in range(TOO_LARGE // 10_000):
        yield b"x" * 10_000

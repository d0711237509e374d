"""Who may come in and how much they may carry, whatever application stands behind."""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.serve.serving import serving

from assay.serve.guards import AllowedHosts, BearerToken, guarded


async def _size(request: Request) -> PlainTextResponse:
    return PlainTextResponse(str(len(await request.body())))


async def _stubborn(request: Request) -> PlainTextResponse:
    """As SDKs do: every exception becomes an answer of its own."""
    try:
        return await _size(request)
    except Exception:
        return PlainTextResponse("something else went wrong")


APP = Starlette(
    routes=[
        Route("/", _size, methods=["GET", "POST"]),
        Route("/stubborn", _stubborn, methods=["POST"]),
    ]
)


async def _chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * 10


@pytest.mark.parametrize("path", ["/", "/stubborn"])
async def test_a_body_is_measured_as_it_comes(http: httpx.AsyncClient, path: str) -> None:
    async with serving(guarded(APP, body_limit=100)) as url:
        assert (await http.post(url + path, content=b"x" * 100)).text == "100"
        assert (await http.post(url + path, content=b"x" * 101)).status_code == 413
        assert (await http.post(url + path, content=_chunks(10))).text == "100"
        assert (await http.post(url + path, content=_chunks(11))).status_code == 413


async def test_only_the_scheme_has_any_case(http: httpx.AsyncClient) -> None:
    async with serving(guarded(APP, BearerToken("Sesame"))) as url:
        given = {"Authorization": "BEARER Sesame"}
        assert (await http.post(url, headers=given)).status_code == 200
        for wrong in ("BEARER sesame", "BEARER", "Basic Sesame", "Sesame"):
            answer = await http.post(url, headers={"Authorization": wrong})
            assert answer.status_code == 401


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:9000", 200),
        ("https://agent.example", 200),
        ("http://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("http://[", 403),
    ],
)
async def test_pages_of_foreign_sites_are_refused(origin: str, status: int) -> None:
    transport = httpx.ASGITransport(app=guarded(APP, AllowedHosts({"agent.example"})))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        assert (await client.post("/", headers={"Origin": origin})).status_code == status


async def test_wrong_tokens_are_limited_by_address(http: httpx.AsyncClient) -> None:
    async with serving(guarded(APP, BearerToken("sesame"))) as url:
        for _ in range(30):  # no token is no guess
            assert (await http.get(url)).status_code == 401
        for _ in range(20):
            wrong = await http.get(url, headers={"Authorization": "Bearer guess"})
            assert wrong.status_code == 401
        right = await http.get(url, headers={"Authorization": "Bearer sesame"})
        assert (right.status_code, right.headers["retry-after"]) == (429, "60")

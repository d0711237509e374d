"""Who may come in and how much they may carry, whatever application stands behind."""

from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.serve.serving import serving

from assay.serve.guards import BearerToken, BodyLimit


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
async def test_a_body_is_measured_whether_it_declares_its_length_or_not(
    http: httpx.AsyncClient, path: str
) -> None:
    async with serving(BodyLimit(APP, 100)) as url:
        assert (await http.post(url + path, content=b"x" * 100)).text == "100"
        assert (await http.post(url + path, content=b"x" * 101)).status_code == 413
        assert (await http.post(url + path, content=_chunks(10))).text == "100"
        assert (await http.post(url + path, content=_chunks(11))).status_code == 413


async def test_open_paths_can_be_read_but_not_written_without_the_token(
    http: httpx.AsyncClient,
) -> None:
    async with serving(BearerToken(APP, "sesame", {"/"})) as url:
        assert (await http.get(url)).status_code == 200
        assert (await http.post(url)).status_code == 401
        wrong = await http.post(url, headers={"Authorization": "Bearer sesam"})
        assert wrong.status_code == 401
        right = await http.post(url, headers={"Authorization": "Bearer sesame"})
        assert right.status_code == 200

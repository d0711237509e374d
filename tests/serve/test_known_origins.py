import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from assay.serve.guards import KnownOrigins

APP = KnownOrigins(
    Starlette(routes=[Route("/", lambda _: PlainTextResponse("in"), methods=["POST"])]),
    {"agent.example"},
)


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://localhost:9000", 200),
        ("https://agent.example", 200),
        ("http://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("null", 403),
        ("http://[", 403),
    ],
)
async def test_pages_of_foreign_sites_are_refused(origin: str | None, status: int) -> None:
    headers = {} if origin is None else {"Origin": origin}
    transport = httpx.ASGITransport(app=APP)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
        assert (await client.post("/", headers=headers)).status_code == status

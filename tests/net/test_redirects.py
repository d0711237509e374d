"""Where a redirect may lead: another path of the same host, or the same host with TLS."""

import httpx
import pytest

from assay.errors import AgentFailure, FailureKind
from assay.net.client import open_client
from assay.net.http import exchange

HERE, TLS = "http://agent.example/a", "https://agent.example/a"
OTHER_PORT = "http://agent.example:8080/a"


@pytest.mark.parametrize(
    ("first", "status", "location", "final"),
    [
        (HERE, 307, "/b", "http://agent.example/b"),
        ("http://agent.example:80/a", 307, "http://agent.example/b", "http://agent.example/b"),
        (HERE, 307, TLS, TLS),
        (TLS, 307, "https://AGENT.example:443/b", "https://agent.example/b"),
        (HERE, 307, "https://other.example/a", None),
        (HERE, 307, "http://agent.example:443/a", None),
        (OTHER_PORT, 307, TLS, None),
        (OTHER_PORT, 307, HERE, None),
        (TLS, 307, HERE, None),
        (TLS, 307, "https://agent.example:8443/a", None),
        # These turn POST into GET.
        (HERE, 301, "/b", None),
        (HERE, 303, "/b", None),
        # httpx decodes the host of a redirect before anybody can refuse to follow it.
        (HERE, 307, "http://xn--/", None),
        (HERE, 307, "http://[::1", None),
        (HERE, 307, "http://a:99999999/", None),
    ],
)
async def test_the_same_host(first: str, status: int, location: str, final: str | None) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        is_first = request.url == httpx.URL(first)
        return httpx.Response(status if is_first else 200, headers={"location": location})

    async def follow() -> str:
        async with (
            open_client(transport=httpx.MockTransport(answer)) as http,
            exchange(http, "POST", first, content=b"{}") as response,
        ):
            return str(response.url)

    if final is not None:
        assert await follow() == final
        return
    with pytest.raises(AgentFailure) as caught:
        await follow()
    assert caught.value.kind is FailureKind.PROTOCOL

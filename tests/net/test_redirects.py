"""Where a redirect may lead: another path of the same host, or the same host with TLS."""

import httpx
import pytest

from assay.contract.probes import SentRequest, record_exchange
from assay.errors import AgentFailure, FailureKind
from assay.net.client import open_client
from assay.net.http import exchange


async def final_address(first: str, location: str, *, status: int = 307) -> str:
    """Which address answers in the end."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url == httpx.URL(first):
            return httpx.Response(status, headers={"location": location})
        return httpx.Response(200)

    async with (
        httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http,
        exchange(http, "POST", first, content=b"{}") as response,
    ):
        return str(response.url)


@pytest.mark.parametrize(
    ("first", "location", "final"),
    [
        ("http://agent.example/a", "/b", "http://agent.example/b"),
        ("http://agent.example:80/a", "http://agent.example/b", "http://agent.example/b"),
        ("http://agent.example/a", "https://agent.example/a", "https://agent.example/a"),
        ("https://agent.example/a", "https://AGENT.example:443/b", "https://agent.example/b"),
        ("http://agent.example/a", "https://other.example/a", None),
        ("http://agent.example/a", "http://agent.example:443/a", None),
        ("http://agent.example:8080/a", "https://agent.example/a", None),
        ("http://agent.example:8080/a", "http://agent.example/a", None),
        ("https://agent.example/a", "http://agent.example/a", None),
        ("https://agent.example/a", "https://agent.example:8443/a", None),
    ],
)
async def test_the_same_host_is_followed_and_no_other(
    first: str, location: str, final: str | None
) -> None:
    if final:
        assert await final_address(first, location) == final
        return
    with pytest.raises(AgentFailure, match="HTTP 307 redirects") as caught:
        await final_address(first, location)
    assert caught.value.kind is FailureKind.PROTOCOL


@pytest.mark.parametrize("status", [301, 303])
async def test_a_redirect_that_turns_post_into_get_is_not_followed(status: int) -> None:
    with pytest.raises(AgentFailure, match=f"HTTP {status} for a POST"):
        await final_address("http://agent.example/a", "/b", status=status)


@pytest.mark.parametrize("location", ["http://xn--/", "http://[::1", "http://a:99999999/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_redirect_to_a_host_that_is_no_name_is_a_failure(
    location: str, method: str
) -> None:
    """httpx decodes the host of a redirect before anybody can refuse to follow it."""

    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(307, headers={"location": location})

    url = "http://agent.example/a"
    async with open_client(transport=httpx.MockTransport(answer)) as http:
        with pytest.raises(AgentFailure) as caught:
            async with exchange(http, method, url):
                raise AssertionError("nothing answered")
        assert caught.value.kind is FailureKind.PROTOCOL
        seen = await record_exchange(http, SentRequest(method, url), timeout=5)
    assert seen.failure or seen.status == 307

"""Every client is bounded: sizes on the wire and after decoding, whoever reads."""

import asyncio
import gzip
import random
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import httpx
import pytest

from assay.errors import AgentFailure, FailureKind, UsageError
from assay.net.client import (
    CLIENT_MAX_BYTES,
    MAX_BYTES_EXTENSION,
    EncodingRefused,
    ResponseTooLarge,
    TokenFor,
    open_client,
    token_for,
)
from assay.net.http import fetch
from assay.net.outbound import UNRESTRICTED, OutboundPolicy

URL = "http://agent.test/"


class Drip(httpx.AsyncByteStream):
    """A body that comes in small pieces, for ever or for a while."""

    def __init__(self, piece: bytes, times: int, pause: float = 0.0) -> None:
        self._piece, self._times, self._pause = piece, times, pause

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for _ in range(self._times):
            await asyncio.sleep(self._pause)
            yield self._piece


def answering(
    body: bytes | httpx.AsyncByteStream,
    headers: dict[str, str] | None = None,
    max_bytes: int = CLIENT_MAX_BYTES,
) -> httpx.AsyncClient:
    def handle(_request: httpx.Request) -> httpx.Response:
        stream = Drip(body, 1) if isinstance(body, bytes) else body
        return httpx.Response(200, headers=headers, stream=stream)

    return open_client(transport=httpx.MockTransport(handle), max_bytes=max_bytes)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        *(("gzip, gzip", b"x"), ("br", b"x")),
        *(("gzip", b"plain"), ("gzip", zlib.compress(b"deflated"))),
    ],
)
async def test_other_encodings_and_lies_are_refused(encoding: str, body: bytes) -> None:
    async with answering(body, {"content-encoding": encoding}) as client:
        with pytest.raises(EncodingRefused):
            await client.get(URL)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (gzip.compress(bytes(50_000_000)), {"content-encoding": "gzip"}),
        (Drip(b"x" * 1000, 10**9), {}),
        (b"", {"content-length": "1000001"}),
        (b"", {"content-length": "9" * 5000}),
    ],
    ids=["bomb", "endless", "declared", "declared beyond reason"],
)
async def test_bodies_end(body: bytes | httpx.AsyncByteStream, headers: dict[str, str]) -> None:
    async with answering(body, headers, max_bytes=1_000_000) as client:
        with pytest.raises(ResponseTooLarge, match="larger than 1,000,000 bytes"):
            await client.get(URL)


NOISE = random.Random(1).randbytes(900)


@pytest.mark.parametrize(
    ("sent", "encoding", "limit", "content"),
    [
        (NOISE, "identity", 900, NOISE),
        (zlib.compress(NOISE), "deflate", len(zlib.compress(NOISE)), NOISE),
        # Of a compressed body, both what comes and what it unpacks to count.
        (gzip.compress(NOISE), "gzip", len(gzip.compress(NOISE)), NOISE),
        (gzip.compress(bytes(1000)), "gzip", 1000, bytes(1000)),
        (gzip.compress(bytes(1000)), "gzip", 999, None),
    ],
    ids=["plain", "deflate", "packed", "unpacked", "one too many"],
)
async def test_the_limit_is_exact(
    sent: bytes, encoding: str, limit: int, content: bytes | None
) -> None:
    async with answering(sent, {"content-encoding": encoding}, max_bytes=limit) as client:
        with nullcontext() if content else pytest.raises(ResponseTooLarge):
            assert (await client.get(URL)).content == content


async def test_a_request_may_have_a_limit_of_its_own() -> None:
    async with answering(b"x" * 2000, max_bytes=1000) as client:
        got = await client.get(URL, extensions={MAX_BYTES_EXTENSION: 3000})
    assert len(got.content) == 2000


async def test_one_deadline_for_the_whole_exchange() -> None:
    """A byte now and then keeps every single read short, and the whole endless."""
    async with answering(Drip(b"x", 10**9, 0.01)) as client:
        with pytest.raises(AgentFailure, match=r"within 0\.2 s") as caught:
            await fetch(client, "GET", URL, timeout=0.2)
    assert caught.value.kind is FailureKind.TIMEOUT


async def test_proxies_of_the_environment_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("NO_PROXY", "direct.test")
    async with open_client() as client:
        mounts = client._mounts.values()
        assert {type(mounted).__name__ for mounted in mounts if mounted} == {"_Transport"}
        assert None in mounts


def _pool(client: httpx.AsyncClient) -> Any:
    return client._transport._inner._pool  # type: ignore[attr-defined]


async def test_connecting_and_sending_are_limited_and_idle_connections_end_early() -> None:
    async with open_client() as usual, open_client(keep_alive=False) as other:
        kept = [(_pool(each)._max_keepalive_connections) for each in (usual, other)]
        assert (kept, _pool(usual)._keepalive_expiry) == ([100, 0], 4.0)
        assert _pool(usual)._ssl_context.verify_mode is ssl.CERT_REQUIRED
        assert usual.timeout == httpx.Timeout(None, connect=10.0, write=30.0)
    async with open_client(timeout=5.0) as client:
        assert client.timeout == httpx.Timeout(5.0)
        assert not client.follow_redirects


@pytest.mark.parametrize(
    ("url", "own", "sent"),
    [
        ("http://agent.test/card", None, "Bearer t0ken"),
        ("http://agent.test/", "Basic x", "Basic x"),
        ("http://other.test/", None, None),
        ("https://agent.test/", None, None),
        ("http://agent.test:81/", None, None),
    ],
)
def test_a_token_is_for_its_own_origin(url: str, own: str | None, sent: str | None) -> None:
    request = httpx.Request("GET", url, headers={"Authorization": own} if own else {})
    next(TokenFor(URL, "t0ken").auth_flow(request))
    assert request.headers.get("Authorization") == sent


def test_the_first_token_that_is_set_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRST", "")
    monkeypatch.setenv("SECOND", "t0ken")
    monkeypatch.setenv("THIRD", "")
    found = token_for(URL, UNRESTRICTED, "FIRST", "SECOND", "THIRD")
    assert found is not None
    assert found._token == "t0ken"
    assert token_for(URL, UNRESTRICTED, "FIRST") is None
    assert token_for(URL, OutboundPolicy(public_only=True), "SECOND") is None
    for wrong in ("t\u00f6ken", "a\nb"):
        monkeypatch.setenv("THIRD", wrong)
        with pytest.raises(UsageError, match="THIRD contains characters that are not") as caught:
            token_for(URL, UNRESTRICTED, "THIRD")
        assert wrong not in str(caught.value)

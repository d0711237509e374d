"""Every client is bounded: sizes on the wire and after decoding, whoever reads."""

import asyncio
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from assay.errors import AgentFailure, FailureKind
from assay.net.client import (
    CLIENT_MAX_BYTES,
    MAX_BYTES_EXTENSION,
    EncodingRefused,
    ResponseTooLarge,
    open_client,
    open_sync_client,
    tls_context,
)
from assay.net.http import fetch

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
    ("encoding", "encode"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("identity", bytes)],
)
async def test_one_encoding_is_undone(encoding: str, encode) -> None:  # type: ignore[no-untyped-def]
    headers = {"content-encoding": encoding}
    async with answering(encode(b"hello " * 100), headers) as client:
        assert (await client.get(URL)).content == b"hello " * 100


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "compress"])
async def test_other_encodings_are_refused(encoding: str) -> None:
    async with answering(b"x", {"content-encoding": encoding}) as client:
        with pytest.raises(EncodingRefused, match=encoding):
            await client.get(URL)


async def test_a_lie_about_the_encoding_is_refused() -> None:
    async with answering(b"plain", {"content-encoding": "gzip"}) as client:
        with pytest.raises(EncodingRefused, match="does not match"):
            await client.get(URL)


async def test_a_small_body_cannot_unpack_beyond_the_limit() -> None:
    bomb = gzip.compress(bytes(50_000_000))
    assert len(bomb) < 60_000
    async with answering(bomb, {"content-encoding": "gzip"}, max_bytes=1_000_000) as client:
        with pytest.raises(ResponseTooLarge, match="1,000,000"):
            await client.get(URL)


async def test_an_endless_body_ends_at_the_limit() -> None:
    async with answering(Drip(b"x" * 1000, 10**9), max_bytes=5000) as client:
        with pytest.raises(ResponseTooLarge):
            await client.get(URL)


async def test_a_declared_length_beyond_the_limit_is_not_read() -> None:
    async with answering(b"", {"content-length": "999999"}, max_bytes=5000) as client:
        with pytest.raises(ResponseTooLarge):
            await client.get(URL)


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


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ({"content-encoding": "br"}, FailureKind.PROTOCOL),
        ({"content-length": "99999999999"}, FailureKind.INVALID_ANSWER),
    ],
)
async def test_what_is_refused_is_a_classified_failure(
    headers: dict[str, str], kind: FailureKind
) -> None:
    async with answering(b"x", headers) as client:
        with pytest.raises(AgentFailure) as caught:
            await fetch(client, "GET", URL, timeout=5)
    assert caught.value.kind is kind


async def test_proxies_of_the_environment_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    async with open_client() as client:
        wrapped = [mounted for mounted in client._mounts.values() if mounted is not None]
        assert [type(each).__name__ for each in wrapped] == ["BoundedTransport"]


def test_clients_that_block_are_bounded_as_well() -> None:
    with open_sync_client(max_bytes=1000) as client:
        inner = client._transport
        inner._inner = httpx.MockTransport(  # type: ignore[attr-defined]
            lambda _request: httpx.Response(200, content=b"x" * 2000)
        )
        with pytest.raises(ResponseTooLarge):
            client.get(URL)


def test_all_clients_share_one_context_for_each_set_of_authorities(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    usual = tls_context()
    assert tls_context() is usual
    assert usual.verify_mode is ssl.CERT_REQUIRED
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "empty"))
    assert tls_context() is not usual
    assert not tls_context().get_ca_certs()

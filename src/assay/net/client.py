"""The one place where HTTP clients are made: bounded in size, guarded where the policy asks."""

import functools
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from assay.errors import UsageError
from assay.net.outbound import (
    UNRESTRICTED,
    OutboundPolicy,
    Resolve,
    as_address,
    permitted_addresses,
    split_address,
)
from assay.net.redact import remember_secrets

CONNECT_SECONDS = 10.0
CLIENT_MAX_BYTES = 32_000_000  # of one response, if its reader sets no lower limit
# The key in a request's `extensions` that sets another limit for its response.
MAX_BYTES_EXTENSION = "max_bytes"

# Requests are small: one that cannot be written for so long has lost its connection.
_WRITE_SECONDS = 30.0
# Servers commonly drop an idle connection after 5 s; close earlier, to avoid failed calls.
_KEEP_ALIVE_SECONDS = 4.0
# The caller bounds the calls in flight: waiting for a connection would count as the agent's time.
_LIMITS = httpx.Limits(
    max_connections=None, max_keepalive_connections=100, keepalive_expiry=_KEEP_ALIVE_SECONDS
)
_ONE_REQUEST_EACH = httpx.Limits(max_connections=None, max_keepalive_connections=0)
# How long an answer may take is the caller's to say: it bounds the whole call, not each read.
_TIMEOUT = httpx.Timeout(None, connect=CONNECT_SECONDS, write=_WRITE_SECONDS)
_HEADERS = {
    "User-Agent": "assay",
    # Without compression, what is counted against the size limit is what is held in memory.
    "Accept-Encoding": "identity",
}
# A proxy of the environment is another machine, whose localhost has no agent.
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_GZIP = ("gzip", "x-gzip")


class ResponseTooLarge(httpx.RequestError):
    """The response has more bytes than its reader allows, before or after decoding."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the response is larger than {limit:,} bytes")


class EncodingRefused(httpx.RequestError):
    """The response is encoded in a way that was not asked for and is not decoded."""


class _BoundedStream(httpx.AsyncByteStream):
    """The bytes of one response, after a single gzip or deflate is undone; at most `limit`.

    Raises `ResponseTooLarge` or `EncodingRefused`, for what the headers declare at once.
    """

    def __init__(self, inner: httpx.AsyncByteStream, headers: httpx.Headers, limit: int) -> None:
        self._inner = inner
        self._limit = limit
        self._zlib: Any = None
        encoding = headers.pop("content-encoding", "").strip().lower()
        if encoding in _GZIP:
            self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif encoding == "deflate":
            self._zlib = zlib.decompressobj()
        elif encoding not in ("", "identity"):
            raise EncodingRefused(
                f"the response is compressed with {encoding[:40]!r}, which is not supported"
            )
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise ResponseTooLarge(limit)
        if self._zlib:  # the length is that of the compressed body
            headers.pop("content-length", None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        raw = decoded = 0
        async for chunk in self._inner:
            raw += len(chunk)
            if self._zlib and raw <= self._limit:
                try:
                    chunk = self._zlib.decompress(chunk, self._limit - decoded + 1)
                except zlib.error:
                    raise EncodingRefused(
                        "the response body does not match its Content-Encoding, gzip or deflate"
                    ) from None
            decoded += len(chunk)
            if raw > self._limit or decoded > self._limit:
                raise ResponseTooLarge(self._limit)
            yield chunk

    async def aclose(self) -> None:
        # A server that sends more than one response to one request would have the next request
        # read the rest: httpcore reuses the connection whatever h11 has left in its buffer. h11 in
        # an error state makes httpcore close it.
        inner: Any = self._inner
        for name in ("_httpcore_stream", "_stream", "_connection", "_h11_state"):
            inner = getattr(inner, name, None)
        if inner is not None and inner.trailing_data[0]:
            inner.send_failed()
        await self._inner.aclose()


def no_cookies() -> CookieJar:
    """A jar that keeps nothing: what an agent sets must not grow without end and come back."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))


class _Transport(httpx.AsyncBaseTransport):
    """Connects only where `policy` permits, and lets no response grow beyond `limit` bytes.

    Under a policy it resolves the host itself and connects to an address that was checked. A name
    that has a public address first and a private one later (DNS rebinding) gets nowhere, because
    nothing resolves it a second time.
    """

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        limit: int,
        policy: OutboundPolicy,
        resolve: Resolve | None,
    ) -> None:
        self._inner = inner
        self._limit = limit
        self._policy = policy
        self._resolve = resolve

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._send(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        limit = request.extensions.get(MAX_BYTES_EXTENSION, self._limit)
        try:
            # httpx looks where a redirect leads, followed or not, and some hosts are not decodable.
            _ = httpx.URL(response.headers.get("location", "")).host
            response.stream = _BoundedStream(response.stream, response.headers, limit)
        except httpx.RequestError:
            await response.aclose()
            raise
        except (ValueError, httpx.InvalidURL):
            await response.aclose()
            raise httpx.RemoteProtocolError("the Location header is not a URL") from None
        return response

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """The response of the first address that is permitted and can be connected to."""
        if not self._policy.public_only:
            return await self._inner.handle_async_request(request)
        self._policy.check_url(str(request.url))
        host, port = split_address(str(request.url))
        *others, last = await permitted_addresses(self._policy, host, port, self._resolve)
        extensions = dict(request.extensions)
        if as_address(request.url.host) is None:  # Host header and TLS name stay those of the URL
            extensions["sni_hostname"] = request.url.raw_host.decode("ascii")

        async def send(address: str) -> httpx.Response:
            url = request.url.copy_with(host=address)
            pinned = httpx.Request(
                request.method,
                url,
                headers=request.headers,
                stream=request.stream,
                extensions=extensions,
            )
            return await self._inner.handle_async_request(pinned)

        for address in others:
            with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                return await send(address)
        return await send(last)

    async def aclose(self) -> None:
        await self._inner.aclose()


class TokenFor(httpx.Auth):
    """A bearer token for the agent that the user named, and for no other host: an agent's card
    may send its callers anywhere.
    """

    def __init__(self, base: str, token: str) -> None:
        self._origin = _origin(httpx.URL(base))
        self._token = token

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        if _origin(request.url) == self._origin and "Authorization" not in request.headers:
            request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def token_for(base: str, policy: OutboundPolicy, *variables: str) -> TokenFor | None:
    """The token of the first variable that is set, for calls to `base`.

    None if the address came in a request instead of from the user.
    """
    name = next((name for name in variables if os.environ.get(name)), None)
    if policy.public_only or name is None:
        return None
    token = os.environ[name]
    if not (token.isascii() and token.isprintable()):
        raise UsageError(
            f"{name} contains characters that are not allowed in an HTTP header; set it to the "
            "token alone, without quotes or line breaks"
        )
    remember_secrets(token)
    return TokenFor(base, token)


@functools.cache
def _tls_context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    """The certificates that are trusted: reading them takes 20 ms, longer than most calls."""
    return httpx.create_ssl_context()


def open_client(
    policy: OutboundPolicy = UNRESTRICTED,
    resolve: Resolve | None = None,
    *,
    auth: httpx.Auth | None = None,
    max_bytes: int = CLIENT_MAX_BYTES,
    timeout: httpx.Timeout | float | None = None,
    headers: Mapping[str, str] | None = None,
    keep_alive: bool = True,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.AsyncClient:
    """A client for one run or server. It follows no redirect by itself.

    open_client(policy, auth=TokenFor(base, token), max_bytes=1_000_000)

    By default only connecting and sending are timed: the caller bounds the call. Without
    `keep_alive` each request has its own connection, so that none fails because the server
    closed an idle one. `resolve` and `transport` replace the network, in tests.
    """
    client = httpx.AsyncClient(
        transport=transport,
        limits=_LIMITS if keep_alive else _ONE_REQUEST_EACH,
        verify=_tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        trust_env=not policy.public_only,  # a proxy would resolve names on its own
        mounts=dict.fromkeys(_LOOPBACK),
        timeout=_TIMEOUT if timeout is None else timeout,
        headers={**_HEADERS, **(headers or {})},
        auth=auth,
        cookies=no_cookies(),
        follow_redirects=False,
    )
    # httpx builds the transports of the environment's proxies itself: they are wrapped afterwards.
    client._transport = _Transport(client._transport, max_bytes, policy, resolve)
    client._mounts = {
        pattern: mounted and _Transport(mounted, max_bytes, policy, resolve)
        for pattern, mounted in client._mounts.items()
    }
    return client

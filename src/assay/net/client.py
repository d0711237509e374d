"""The one place where HTTP clients are made: bounded in size, guarded where the policy asks.

No response, read by our own code or by an SDK, can exhaust memory: raw and decoded bytes are
counted below everything that reads them.
"""

import functools
import os
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeVar

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

_Request = TypeVar("_Request", bound=Any)
_Response = TypeVar("_Response")

CONNECT_SECONDS = 10.0
CLIENT_MAX_BYTES = 32_000_000  # of one response, if its reader sets no lower limit
# The key in a request's `extensions` that sets another limit for its response.
MAX_BYTES_EXTENSION = "max_bytes"

_WRITE_SECONDS = 30.0
# Servers commonly drop an idle connection after 5 s; close earlier, to avoid failed calls.
_KEEP_ALIVE_SECONDS = 4.0
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
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_GZIP = ("gzip", "x-gzip")


class ResponseTooLarge(httpx.RequestError):
    """The response has more bytes than its reader allows, before or after decoding."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the response is larger than {limit:,} bytes")


class EncodingRefused(httpx.RequestError):
    """The response is encoded in a way that was not asked for and is not decoded."""


class BoundedDecoder:
    """Counts the bytes of one response, and undoes a single gzip or deflate within `limit`.

    `encoding` and `declared` are the headers Content-Encoding and Content-Length: one that is
    larger is refused before anything is read.
    """

    def __init__(self, encoding: str, limit: int, declared: str = "") -> None:
        self._limit = limit
        self._raw = self._decoded = 0
        self._zlib: Any = None
        name = encoding.strip().lower()
        if name in _GZIP:
            self._zlib = zlib.decompressobj(16 + zlib.MAX_WBITS)
        elif name == "deflate":
            self._zlib = zlib.decompressobj()
        elif name not in ("", "identity"):
            raise EncodingRefused(
                f"the response is compressed with {name[:40]!r}, which is not supported"
            )
        if declared.isdecimal() and int(declared[:20]) > limit:
            raise ResponseTooLarge(limit)

    @property
    def decodes(self) -> bool:
        """Whether the bytes that come out differ from those on the wire."""
        return self._zlib is not None

    def feed(self, chunk: bytes) -> bytes:
        """The decoded bytes of a raw chunk. Raises `ResponseTooLarge` or `EncodingRefused`."""
        self._raw += len(chunk)
        if self._raw > self._limit:
            raise ResponseTooLarge(self._limit)
        if self._zlib is None:
            return chunk
        try:
            decoded: bytes = self._zlib.decompress(chunk, self._limit - self._decoded + 1)
        except zlib.error:
            raise EncodingRefused(
                "the response body does not match its Content-Encoding, gzip or deflate"
            ) from None
        self._decoded += len(decoded)
        if self._decoded > self._limit:
            raise ResponseTooLarge(self._limit)
        return decoded


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream, decoder: BoundedDecoder) -> None:
        self._inner = inner
        self._decoder = decoder

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            yield self._decoder.feed(chunk)

    async def aclose(self) -> None:
        close_desynchronized(self._inner)
        await self._inner.aclose()


def close_desynchronized(stream: object) -> None:
    """Keep a connection with unread bytes after its response from being used again.

    Call it before the stream of a response is closed. A server that sends more than one response to
    one request would otherwise have the next request read the rest. httpcore reuses the connection
    whatever h11 has left in its buffer; h11 in an error state makes httpcore close it.
    """
    for name in ("_httpcore_stream", "_stream", "_connection", "_h11_state"):
        stream = getattr(stream, name, None)
    if stream is not None and stream.trailing_data[0]:  # type: ignore[attr-defined]
        stream.send_failed()  # type: ignore[attr-defined]


def no_cookies() -> CookieJar:
    """A jar that keeps nothing: what an agent sets must not grow without end and come back."""
    return CookieJar(DefaultCookiePolicy(allowed_domains=()))


class BoundedTransport(httpx.AsyncBaseTransport):
    """Wraps a transport so that no response grows beyond `limit` bytes."""

    def __init__(self, inner: httpx.AsyncBaseTransport, limit: int) -> None:
        self._inner = inner
        self._limit = limit

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        headers = response.headers
        try:
            # httpx looks where a redirect leads, followed or not, and some hosts are not decodable.
            _ = httpx.URL(headers.get("location", "")).host
            limit = request.extensions.get(MAX_BYTES_EXTENSION, self._limit)
            length = headers.get("content-length", "")
            decoder = BoundedDecoder(headers.get("content-encoding", ""), limit, length)
        except httpx.RequestError:
            await response.aclose()
            raise
        except (ValueError, httpx.InvalidURL):
            await response.aclose()
            raise httpx.RemoteProtocolError("the Location header is not a URL") from None
        if decoder.decodes:  # httpx would decode a second time, without a limit
            del headers["content-encoding"]
            headers.pop("content-length", None)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, decoder)
        return response

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
    token = read_token(policy, *variables)
    return None if token is None else TokenFor(base, token)


def read_token(policy: OutboundPolicy, *variables: str) -> str | None:
    """The token of the first variable that is set; None where it may not be sent."""
    if policy.public_only:
        return None
    name = next((name for name in variables if os.environ.get(name)), None)
    token = None if name is None else os.environ[name]
    if token is not None and not (token.isascii() and token.isprintable()):
        raise UsageError(
            f"{name} contains characters that are not allowed in an HTTP header; set it to the "
            "token alone, without quotes or line breaks"
        )
    remember_secrets(token)
    return token


def tls_context() -> ssl.SSLContext:
    """The certificates that are trusted, as SSL_CERT_FILE or SSL_CERT_DIR say.

    All clients share one: reading the authorities takes 20 ms, longer than most calls.
    """
    return _tls_context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.cache
def _tls_context(_file: str | None, _folder: str | None) -> ssl.SSLContext:
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
    limits = _LIMITS if keep_alive else _ONE_REQUEST_EACH
    options: dict[str, Any] = {
        "timeout": _TIMEOUT if timeout is None else timeout,
        "headers": {**_HEADERS, **(headers or {})},
        "auth": auth,
        "cookies": no_cookies(),
        "follow_redirects": False,
    }

    if transport is None and policy.public_only:
        direct = httpx.AsyncHTTPTransport(limits=limits, verify=tls_context())
        transport = GuardedTransport(policy, direct, resolve)
        options["trust_env"] = False  # a proxy would resolve names on its own
    if transport is not None:
        return httpx.AsyncClient(transport=BoundedTransport(transport, max_bytes), **options)
    client = httpx.AsyncClient(
        mounts=dict.fromkeys(_LOOPBACK), limits=limits, verify=tls_context(), **options
    )
    # httpx builds the transports of the environment's proxies itself: they are wrapped afterwards.
    client._transport = BoundedTransport(client._transport, max_bytes)
    client._mounts = {
        pattern: None if mounted is None else BoundedTransport(mounted, max_bytes)
        for pattern, mounted in client._mounts.items()
    }
    return client


class GuardedTransport(httpx.AsyncBaseTransport):
    """Resolves the host itself and connects to an address that was checked, and to no other.

    A name that answers with a public address first and a private one later (DNS rebinding) gets
    nowhere, because nothing resolves it a second time.
    """

    def __init__(
        self,
        policy: OutboundPolicy,
        inner: httpx.AsyncBaseTransport,
        resolve: Resolve | None = None,
    ) -> None:
        self._policy = policy
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        not_connected = httpx.ConnectError, httpx.ConnectTimeout
        send = self._inner.handle_async_request
        return await send_guarded(request, send, self._policy, not_connected, self._resolve)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def send_guarded(
    request: _Request,
    send: Callable[[_Request], Awaitable[_Response]],
    policy: OutboundPolicy,
    not_connected: tuple[type[Exception], ...],
    resolve: Resolve | None = None,
) -> _Response:
    """Send a request to the first address of its host that is permitted and can be connected to.

    The request is one of httpx, or of the copy of it that an SDK brings; `not_connected` is what
    `send` raises if nobody accepts the connection. Raises `OutboundRefused`.
    """
    policy.check_url(str(request.url))
    host, port = split_address(str(request.url))
    addresses = await permitted_addresses(policy, host, port, resolve)
    for address in addresses[:-1]:
        with suppress(*not_connected):
            return await send(_pinned(request, address))
    return await send(_pinned(request, addresses[-1]))


def _pinned(request: _Request, address: str) -> _Request:
    """The same request sent to `address`: Host header and TLS name stay those of the URL."""
    extensions = dict(request.extensions)
    if as_address(request.url.host) is None:
        name = httpx.URL(scheme="https", host=request.url.host).raw_host
        extensions["sni_hostname"] = name.decode("ascii")
    pinned: _Request = type(request)(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions=extensions,
    )
    return pinned

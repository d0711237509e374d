"""One HTTP exchange: bounded in size and time, kept on its host, its failures an `AgentFailure`.

No body is ever part of a message: responses and requests may contain confidential data.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

import httpx

from assay.errors import GATEWAY_ERRORS, RATE_LIMITED, AgentFailure, FailureKind, UsageError
from assay.net.client import MAX_BYTES_EXTENSION, EncodingRefused, ResponseTooLarge
from assay.net.outbound import OutboundRefused, split_address
from assay.net.redact import AGENT_TOKEN_VARIABLE
from assay.net.retry import parse_retry_after

if TYPE_CHECKING:  # starlette is part of an extra; this layer must not need it
    from starlette.types import Message, Receive

# Of a response. A thousand ids are 20 kB; far more is a mistake.
MAX_BYTES = 1_000_000
# How much of an error's body is read to quote it, and for how long.
ERROR_BODY_BYTES = 8_000
ERROR_BODY_SECONDS = 2.0
REQUEST_TIMEOUT = 408
# To TLS, to another path, to one with a slash: more lead in a circle.
_MAX_REDIRECTS = 5
# After any other status, a client may ask again by GET and without the body (RFC 9110, 15.4).
_METHOD_KEPT = (307, 308)


@asynccontextmanager
async def exchange(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    max_bytes: int = MAX_BYTES,
    any_host: bool = False,
) -> AsyncIterator[httpx.Response]:
    """The response with its body, of at most `max_bytes`, still unread.

    Errors inside the block, such as those of reading, are classified as well. `http` comes from
    `open_client`, which bounds the body and undoes its compression. Redirects to another host are
    followed only with `any_host`: the credentials of `http` are bound to the first one.
    """
    extensions = {MAX_BYTES_EXTENSION: max_bytes}
    with classify_http_errors():
        for _ in range(_MAX_REDIRECTS + 1):
            request = http.build_request(
                method, url, content=content, headers=headers, extensions=extensions
            )
            response = await http.send(request, stream=True)
            try:
                if not response.has_redirect_location:
                    yield response
                    return
            finally:
                await response.aclose()
            url = _next_address(method, url, response, any_host)
        raise AgentFailure(FailureKind.PROTOCOL, f"more than {_MAX_REDIRECTS} redirects")


def _next_address(method: str, url: str, response: httpx.Response, any_host: bool) -> str:
    """Where a redirect leads; `AgentFailure` if it must not be followed."""
    status = response.status_code
    try:
        there = urljoin(url, response.headers["location"])
        new, old = split_address(there), split_address(url)
    except (UsageError, ValueError):
        raise AgentFailure(
            FailureKind.PROTOCOL, f"HTTP {status} redirects to something that is not an http(s) URL"
        ) from None
    schemes = urlsplit(url).scheme, urlsplit(there).scheme
    # The one change of port that is harmless: the same host, now with TLS.
    upgraded = new == (old[0], 443) and old[1] == 80 and schemes[1] == "https"
    if schemes == ("https", "http"):
        problem = "redirects from https to an address without TLS"
    elif new != old and not upgraded and not any_host:
        problem = f"redirects to another host, {new[0][:100]!r}, which is not followed"
    elif method != "GET" and status not in _METHOD_KEPT:
        path = urlsplit(there).path[:100]
        problem = f"for a {method}; use the URL that it redirects to, path {path!r}"
    else:
        return there
    raise AgentFailure(FailureKind.PROTOCOL, f"HTTP {status} {problem}")


async def fetch(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float,
    max_bytes: int = MAX_BYTES,
) -> httpx.Response:
    """The response, read to its end, of an exchange with one deadline for all of it.

    Raises `AgentFailure`; a status of 400 or more is a reply, not a failure.
    """
    try:
        async with (
            asyncio.timeout(timeout),
            exchange(
                http, method, url, content=content, headers=headers, max_bytes=max_bytes
            ) as response,
        ):
            await response.aread()
            return response
    except TimeoutError:
        message = f"no complete response within {timeout:g} s"
        raise AgentFailure(FailureKind.TIMEOUT, message) from None


def too_large(limit: int) -> AgentFailure:
    """The failure for an answer of more than `limit` bytes."""
    return AgentFailure(FailureKind.INVALID_ANSWER, f"the response is larger than {limit:,} bytes")


async def read_error_body(response: httpx.Response) -> bytes:
    """The start of an error's body, so far as it comes at once."""
    body = b""
    with suppress(AgentFailure, httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(ERROR_BODY_SECONDS):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) >= ERROR_BODY_BYTES:
                    break
    return body


def failure_of_status(
    status: int, headers: Mapping[str, str], token_variable: str = AGENT_TOKEN_VARIABLE
) -> AgentFailure | None:
    """What a status of 300 or more means. None for success, which is for the body to say."""
    if status < 300:
        return None
    remedy = ""
    is_error = status >= 500 or status == RATE_LIMITED
    kind, message = FailureKind.AGENT_ERROR if is_error else FailureKind.PROTOCOL, f"HTTP {status}"
    if status in GATEWAY_ERRORS:
        kind = FailureKind.CONNECTION
    elif status in (401, 403):
        kind, message = FailureKind.AGENT_ERROR, f"{message}: the agent refused the credentials"
        remedy = token_variable and f"set {token_variable}"
    after = parse_retry_after(headers.get("retry-after"))
    return AgentFailure(kind, message, remedy=remedy, status=status, retry_after=after)


@contextmanager
def classify_http_errors() -> Iterator[None]:
    """Turn what httpx raises inside the block into an `AgentFailure`."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # a host that is not a name
        kind, message = FailureKind.PROTOCOL, f"the exchange failed ({type(error).__name__})"
        if isinstance(error, OutboundRefused | EncodingRefused):
            message = str(error)
        elif isinstance(error, ResponseTooLarge):
            kind, message = FailureKind.INVALID_ANSWER, str(error)
        elif isinstance(error, httpx.ConnectTimeout | httpx.ConnectError):
            kind, message = FailureKind.CONNECTION, connect_reason(error)
        elif isinstance(error, httpx.TimeoutException):
            kind, message = FailureKind.TIMEOUT, "no data arrived in time"
        elif isinstance(error, httpx.NetworkError):
            kind, message = FailureKind.CONNECTION, "the connection was lost"
        elif isinstance(error, httpx.RemoteProtocolError) and "disconnected" in str(error):
            # Before the head of an answer was complete.
            kind, message = FailureKind.CONNECTION, "the connection was closed without a response"
        elif isinstance(error, httpx.RemoteProtocolError):
            is_cut = "peer closed" in str(error)
            message = "the response was cut off" if is_cut else "the response is not valid HTTP"
        raise AgentFailure(kind, message) from None


def connect_reason(error: BaseException) -> str:
    """Why there is no connection: `connection refused`, `connection timed out`, ..."""
    if isinstance(error, httpx.ConnectTimeout):
        return "connection timed out"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return "connection refused"
        if isinstance(cause, socket.gaierror):
            return "the host name cannot be resolved"
        cause = cause.__cause__ or cause.__context__
    text = str(error)
    if "CERTIFICATE" in text or "SSL" in text:
        return f"TLS failed ({text[:120]})"
    # What a restricted client raises, which resolves names itself.
    if "cannot be resolved" in text:
        return "the host name cannot be resolved"
    return f"no connection ({text[:80] or type(error).__name__})"


class BodyRejected(Exception):
    """The body of a request is too large (413) or took too long (408)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status)
        self.status = status
        self.message = message


class LimitedBody:
    """A request's body of at most `limit` bytes, all of which must arrive within `timeout` seconds.

    `receive` takes the place of the ASGI function of that name.
    """

    def __init__(self, receive: "Receive", limit: int, timeout: float) -> None:
        self._receive = receive
        self._limit = limit
        self._timeout = timeout
        self._deadline: float | None = None
        self._size = 0
        self._complete = False
        self.rejection: BodyRejected | None = None

    async def receive(self) -> "Message":
        """The next message. Raises `BodyRejected`, and keeps it as `rejection`."""
        if self._complete:  # only a disconnect can follow, perhaps after hours
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._timeout
        message: Message = {}
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            late = f"the request body did not arrive within {self._timeout:g} s"
            self.rejection = BodyRejected(REQUEST_TIMEOUT, late)
        self._size += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._size > self._limit:
            self.rejection = BodyRejected(413, f"the body is larger than {self._limit} bytes")
        if self.rejection:
            raise self.rejection from None
        return message

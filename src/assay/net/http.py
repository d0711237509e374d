"""One HTTP exchange: bounded in size and time, kept on its host, its failures classified.

Every way in which it can go wrong leaves here as an `AgentFailure`. No body is ever part of its
message: responses and requests may contain confidential data. What an agent itself says about a
failure is `said`, which a private run leaves out.
"""

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urljoin, urlsplit

import httpx

from assay.errors import GATEWAY_ERRORS, RATE_LIMITED, AgentFailure, FailureKind, UsageError
from assay.net.client import EncodingRefused, ResponseTooLarge
from assay.net.outbound import OutboundRefused, split_address
from assay.net.redact import quote
from assay.net.retry import parse_retry_after

MAX_BYTES = 1_000_000
"""Size limit of a response. A thousand ids are 20 kB; far more is a mistake."""

_MAX_REDIRECTS = 3
ERROR_BODY_BYTES = 8_000
ERROR_BODY_SECONDS = 2.0
"""How much of an error's body is read to quote it, and for how long."""
_METHOD_KEPT = (307, 308)


@asynccontextmanager
async def exchange(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[httpx.Response]:
    """The response with its body still unread. Errors inside the block are classified as well."""
    with classify_http_errors():
        response = await _send(http, method, url, content, headers)
        try:
            yield response
        finally:
            await response.aclose()


async def _send(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    content: bytes | None,
    headers: Mapping[str, str] | None,
) -> httpx.Response:
    for _ in range(_MAX_REDIRECTS + 1):
        request = http.build_request(method, url, content=content, headers=headers)
        response = await http.send(request, stream=True)
        if not response.has_redirect_location:
            return response
        await response.aclose()
        url = _next_address(method, url, response)
    raise AgentFailure(FailureKind.PROTOCOL, f"more than {_MAX_REDIRECTS} redirects")


def _next_address(method: str, url: str, response: httpx.Response) -> str:
    """Where a redirect leads, which may be another path but never another host."""
    status = response.status_code
    try:
        there = urljoin(url, response.headers["location"])
        new, old = split_address(there), split_address(url)
    except (UsageError, ValueError):
        raise AgentFailure(
            FailureKind.PROTOCOL, f"HTTP {status} redirects to something that is not an http(s) URL"
        ) from None
    # The one change of port that is harmless: the same host, now with TLS.
    upgraded = new == (old[0], 443) and urlsplit(there).scheme == "https" and old[1] == 80
    if new != old and not upgraded:
        message = (
            f"HTTP {status} to another host, {new[0][:100]!r}; redirects are not followed there"
        )
        raise AgentFailure(FailureKind.PROTOCOL, message)
    if method != "GET" and status not in _METHOD_KEPT:
        path = urlsplit(there).path[:100]
        message = f"HTTP {status} for a {method}; use the URL that it redirects to, path {path!r}"
        raise AgentFailure(FailureKind.PROTOCOL, message)
    return there


async def read_chunks(
    response: httpx.Response, limit: int = MAX_BYTES
) -> AsyncGenerator[bytes, None]:
    """The body as it comes, until it ends or has grown beyond `limit`.

    `response` comes from a client of `open_client`, which has undone any compression.
    """
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and len(declared) < 20 and int(declared) > limit:
        raise too_large(limit)
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        yield chunk


async def read_body(response: httpx.Response, limit: int = MAX_BYTES) -> bytes:
    """The whole body; raises `AgentFailure` if it has more than `limit` bytes."""
    return b"".join([chunk async for chunk in read_chunks(response, limit)])


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A response that was read to its end."""

    status: int
    headers: httpx.Headers
    body: bytes


async def fetch(
    http: httpx.AsyncClient,
    method: str,
    url: str,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float,
    limit: int = MAX_BYTES,
) -> HttpReply:
    """One exchange with one deadline, from the first byte sent to the last byte read.

    Raises `AgentFailure`; a status of 400 or more is a reply, not a failure.
    """
    try:
        async with (
            asyncio.timeout(timeout),
            exchange(http, method, url, content=content, headers=headers) as response,
        ):
            body = await read_body(response, limit)
            return HttpReply(response.status_code, response.headers, body)
    except TimeoutError:
        message = f"no complete response within {timeout:g} s"
        raise AgentFailure(FailureKind.TIMEOUT, message) from None


def too_large(limit: int) -> AgentFailure:
    """The failure for an answer of more than `limit` bytes."""
    return AgentFailure(FailureKind.INVALID_ANSWER, f"the response is larger than {limit:,} bytes")


async def with_server_message(failure: AgentFailure, response: httpx.Response) -> AgentFailure:
    """The failure with what the response's body says about it, so far as it comes at once."""
    body = b""
    with suppress(AgentFailure, httpx.HTTPError, TimeoutError):
        async with asyncio.timeout(ERROR_BODY_SECONDS), aclosing(read_chunks(response)) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) >= ERROR_BODY_BYTES:
                    break
    failure.said = quote(body)
    return failure


def failure_of_status(response: httpx.Response) -> AgentFailure | None:
    """What a status means before the body is looked at. None if that is for the body to say."""
    status = response.status_code
    if status == RATE_LIMITED or status in GATEWAY_ERRORS:
        kind = FailureKind.AGENT_ERROR if status == RATE_LIMITED else FailureKind.CONNECTION
        after = parse_retry_after(response.headers.get("retry-after"))
        return AgentFailure(kind, f"HTTP {status}", status=status, retry_after=after)
    if status in (401, 403):
        message = f"HTTP {status}: the agent refused the credentials; set AGENT_TOKEN"
        return AgentFailure(FailureKind.AGENT_ERROR, message, status=status)
    return None


class HttpBreach(StrEnum):
    """How a response broke off or was no HTTP; the value is a message."""

    NO_ANSWER = "the connection was closed without a response"
    CUT_OFF = "the response was cut off"
    NOT_HTTP = "the response is not valid HTTP"


def breach_of(error: httpx.RemoteProtocolError) -> HttpBreach:
    """The one place that tells these apart, so that every protocol classifies them alike."""
    if "disconnected" in str(error):  # before the head of an answer was complete
        return HttpBreach.NO_ANSWER
    return HttpBreach.CUT_OFF if "peer closed" in str(error) else HttpBreach.NOT_HTTP


@contextmanager
def classify_http_errors() -> Iterator[None]:
    """Turn what httpx raises inside the block into an `AgentFailure`."""
    try:
        yield
    except OutboundRefused as error:
        raise AgentFailure(FailureKind.PROTOCOL, str(error)) from None
    except ResponseTooLarge as error:
        raise AgentFailure(FailureKind.INVALID_ANSWER, str(error)) from None
    except EncodingRefused as error:
        raise AgentFailure(FailureKind.PROTOCOL, str(error)) from None
    except (httpx.ConnectTimeout, httpx.ConnectError) as error:
        raise _unreachable(connect_reason(error)) from None
    except httpx.TimeoutException:
        raise AgentFailure(FailureKind.TIMEOUT, "no data arrived in time") from None
    except httpx.NetworkError:
        raise _unreachable("the connection was lost") from None
    except httpx.RemoteProtocolError as error:
        breach = breach_of(error)
        if breach is HttpBreach.NO_ANSWER:
            raise _unreachable(breach) from None
        raise AgentFailure(FailureKind.PROTOCOL, breach) from None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # a host that is not a name
        message = f"the exchange failed ({type(error).__name__})"
        raise AgentFailure(FailureKind.PROTOCOL, message) from None


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


def _unreachable(message: str) -> AgentFailure:
    return AgentFailure(FailureKind.CONNECTION, message)

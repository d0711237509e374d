"""What stands before every application: who may come in, and how much they may carry."""

import asyncio
import hmac
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_VARIABLE = "ASSAY_TOKEN"
OPEN_PATHS = frozenset({"/health", "/health/ready"})
BODY_S = 30.0
_TOO_SLOW, _TOO_MUCH = 408, 413


def token_from_environment() -> str | None:
    return os.environ.get(TOKEN_VARIABLE) or None


class BearerToken:
    """401 without the token, where one is set. `open_paths` can be read (GET) by anyone."""

    def __init__(
        self, app: ASGIApp, token: str | None, open_paths: Collection[str] = OPEN_PATHS
    ) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._admits(scope):
            await self._app(scope, receive, send)
        else:
            await refuse(send, 401, "a bearer token is needed", {"www-authenticate": "Bearer"})

    def _admits(self, scope: Scope) -> bool:
        if self._token is None:
            return True
        if scope["method"] in ("GET", "HEAD") and scope["path"] in self._open_paths:
            return True
        # The name of the scheme may be written in any case (RFC 9110, 11.1), the token may not.
        scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token)


class KnownOrigins:
    """403 for what a page of a foreign site sends: a browser would let any page drive a server
    that listens on loopback. Agents are no browsers and send no Origin."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = frozenset({"localhost", "127.0.0.1", "::1", *hosts})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        origin = dict(scope["headers"]).get(b"origin") if scope["type"] == "http" else None
        if origin is None or _host_of(origin.decode("latin-1")) in self._hosts:
            await self._app(scope, receive, send)
        else:
            await refuse(send, 403, "this server does not serve that Origin", {})


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


class BodyLimit:
    """413 for a body above `limit` bytes, whether it declares its length or not; 408 for one that
    has not come whole within `seconds`, which would hold its connection for as long as it likes."""

    def __init__(self, app: ASGIApp, limit: int, *, seconds: float = BODY_S) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared[:20]) > self._limit:
            await _refuse_body(send, _too_large(self._limit))
            return
        body = _Body(receive, self._limit, self._seconds)
        begun = False

        async def note(message: Message) -> None:
            nonlocal begun
            if body.refusal is not None and not begun:
                return  # an application that caught the error below answers something else
            begun = True
            await send(message)

        with suppress(_Refused):
            await self._app(scope, body.receive, note)
        if body.refusal is not None and not begun:
            await _refuse_body(send, body.refusal)


class _Body:
    """A request's body as it comes in. Once it is whole, `receive` only tells of the caller's
    leaving, and may wait for that for hours."""

    def __init__(self, receive: Receive, limit: int, seconds: float) -> None:
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._deadline: float | None = None
        self._taken = 0
        self._whole = False
        self.refusal: tuple[int, str] | None = None

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        message = await self._in_time()
        self._taken += len(message.get("body", b""))
        self._whole = not message.get("more_body", False)
        if self._taken > self._limit:
            self.refusal = _too_large(self._limit)
            raise _Refused
        return message

    async def _in_time(self) -> Message:
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._seconds
        try:
            async with asyncio.timeout_at(self._deadline):
                return await self._receive()
        except TimeoutError:
            self.refusal = (_TOO_SLOW, f"the body did not come within {self._seconds:g} s")
            raise _Refused from None


class _Refused(Exception):
    pass


def _too_large(limit: int) -> tuple[int, str]:
    return _TOO_MUCH, f"the body is larger than {limit} bytes"


async def _refuse_body(send: Send, refusal: tuple[int, str]) -> None:
    """Who is slow is not waited for any longer; who sends too much may first send the rest, or
    would lose the answer with the connection."""
    status, message = refusal
    await refuse(send, status, message, {"connection": "close"} if status == _TOO_SLOW else {})


async def refuse(send: Send, status: int, message: str, headers: dict[str, str]) -> None:
    """A whole answer, for whoever stands before the application."""
    await send_json(send, status, {"error": message}, headers)


async def send_json(
    send: Send, status: int, value: Any, headers: Mapping[str, str] = MappingProxyType({})
) -> None:
    body = orjson.dumps(value)
    sent = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})

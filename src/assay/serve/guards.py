"""What stands before every application: who may come in, and how much they may carry."""

import hmac
import os
from collections.abc import Collection
from contextlib import suppress
from urllib.parse import urlsplit

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_VARIABLE = "ASSAY_TOKEN"
OPEN_PATHS = frozenset({"/health", "/health/ready"})


def token_from_environment() -> str | None:
    return os.environ.get(TOKEN_VARIABLE) or None


class BearerToken:
    """401 without the token, where one is set. `open_paths` can be read (GET) by anyone."""

    def __init__(
        self, app: ASGIApp, token: str | None, open_paths: Collection[str] = OPEN_PATHS
    ) -> None:
        self._app = app
        self._expected = None if token is None else f"Bearer {token}".encode()
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._admits(scope):
            await self._app(scope, receive, send)
        else:
            await refuse(send, 401, "a bearer token is needed", {"www-authenticate": "Bearer"})

    def _admits(self, scope: Scope) -> bool:
        if self._expected is None:
            return True
        if scope["method"] in ("GET", "HEAD") and scope["path"] in self._open_paths:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, self._expected)


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
    """413 for a body above `limit` bytes, whether it declares its length or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        declared = dict(scope["headers"]).get(b"content-length", b"0")
        if declared.isdigit() and int(declared) > self._limit:
            await self._too_large(send)
            return
        taken, begun = 0, False

        async def note(message: Message) -> None:
            nonlocal begun
            if taken > self._limit and not begun:
                return  # an application that caught the error below answers something else
            begun = True
            await send(message)

        async def measured() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limit:
                raise _BodyTooLarge
            return message

        with suppress(_BodyTooLarge):
            await self._app(scope, measured, note)
        if taken > self._limit and not begun:
            await self._too_large(send)

    async def _too_large(self, send: Send) -> None:
        await refuse(send, 413, f"the body is larger than {self._limit} bytes", {})


class _BodyTooLarge(Exception):
    pass


async def refuse(send: Send, status: int, message: str, headers: dict[str, str]) -> None:
    """A whole answer, for whoever stands before the application."""
    body = orjson.dumps({"error": message})
    sent = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        }
    )
    await send({"type": "http.response.body", "body": body})

"""What stands before every application: who may come in, and how much they may carry."""

import hmac
import os
from collections.abc import Collection

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_VARIABLE = "ASSAY_TOKEN"
OPEN_PATHS = frozenset({"/health", "/health/ready"})


def token_from_environment() -> str | None:
    return os.environ.get(TOKEN_VARIABLE) or None


class BearerToken:
    """401 without the token, where one is set. `open_paths` are answered to anyone."""

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
            await _refuse(send, 401, "a bearer token is needed", {"www-authenticate": "Bearer"})

    def _admits(self, scope: Scope) -> bool:
        if self._expected is None or scope["path"] in self._open_paths:
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, self._expected)


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

        async def count(message: Message) -> None:
            nonlocal begun
            begun = begun or message["type"] == "http.response.start"
            await send(message)

        async def measured() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._limit:
                raise _BodyTooLarge
            return message

        try:
            await self._app(scope, measured, count)
        except _BodyTooLarge:
            if not begun:
                await self._too_large(send)

    async def _too_large(self, send: Send) -> None:
        await _refuse(send, 413, f"the body is larger than {self._limit} bytes", {})


class _BodyTooLarge(Exception):
    pass


async def _refuse(send: Send, status: int, message: str, headers: dict[str, str]) -> None:
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

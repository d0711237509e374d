"""Receiving the body of a request within limits: the one place that bounds what servers read."""

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # starlette is part of an extra; this layer must not need it
    from starlette.types import Message, Receive

REQUEST_TIMEOUT, CONTENT_TOO_LARGE = 408, 413


class BodyRejected(Exception):
    """The body is too large or took too long. `message` repeats nothing of it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status)
        self.status = status
        self.message = message

    @classmethod
    def too_large(cls, limit: int) -> "BodyRejected":
        """For a body of more than `limit` bytes."""
        return cls(CONTENT_TOO_LARGE, f"the body is larger than {limit} bytes")


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
        """The next message. Raises `BodyRejected`, and keeps it as `rejection`.

        Once the body is complete, this only reports that the caller has disconnected, and may wait
        for that for hours.
        """
        if self._complete:
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._timeout
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            late = f"the request body did not arrive within {self._timeout:g} s"
            self.rejection = BodyRejected(REQUEST_TIMEOUT, late)
            raise self.rejection from None
        self._size += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        if self._size > self._limit:
            self.rejection = BodyRejected.too_large(self._limit)
            raise self.rejection
        return message

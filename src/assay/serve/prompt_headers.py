"""A connection has to say soon, and in few words, what it wants.

uvicorn waits for the head of a request without an end and keeps however much of it comes, so a
few hundred idle connections would take a server's file handles, and one talkative one its memory.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEADERS_S = 10.0
MOST_HEADERS = 64_000


class PromptHeaders(HttpToolsProtocol):
    """Closes connections whose next request line and headers are late or endless.

    Between two requests uvicorn's own and shorter patience holds.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._late: asyncio.TimerHandle | None = None
        self._size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self._expect()
        super().data_received(data)
        if self._late is not None:
            self._size += len(data)
            if self._size > MOST_HEADERS:
                self.transport.close()

    def on_headers_complete(self) -> None:
        self._there()
        super().on_headers_complete()

    def _expect(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEADERS_S, self.transport.close)
            self._size = 0

    def _there(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

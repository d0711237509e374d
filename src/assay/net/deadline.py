"""One deadline for a blocking exchange, from connecting to the last byte.

The timeouts of httpx bound each read: a server that sends a byte of its headers now and then keeps
within them for ever. Coroutines have `asyncio.timeout`; a thread cannot be interrupted, so here
every wait for the network is cut to what is left.
"""

import math
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpcore

TOO_LONG = "the response took too long as a whole"


class Deadline(threading.local):
    """When the exchange of this thread has to have ended, on the clock of `time.monotonic`."""

    ends = math.inf

    @contextmanager
    def cut(self, timeout: float | None, late: type[Exception]) -> Iterator[float | None]:
        """The time for one wait; raises `late` where none is left, before or after it."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise late(TOO_LONG)
        try:
            yield timeout if left == math.inf else min(left, timeout or math.inf)
        except late:
            if time.monotonic() >= self.ends:
                raise late(TOO_LONG) from None
            raise


class DeadlineBackend(httpcore.NetworkBackend):
    """Connections whose every wait ends at the deadline.

    Parameters:
        inner: what connects.
        deadline: set by the thread that sends a request, before it does.
    """

    def __init__(self, inner: httpcore.NetworkBackend, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *more: Any, **named: Any
    ) -> httpcore.NetworkStream:
        """Called by httpcore."""
        return self._connected(
            lambda left: self._inner.connect_tcp(host, port, left, *more, **named), timeout
        )

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, *more: Any, **named: Any
    ) -> httpcore.NetworkStream:
        """Called by httpcore."""
        return self._connected(
            lambda left: self._inner.connect_unix_socket(path, left, *more, **named), timeout
        )

    def sleep(self, seconds: float) -> None:
        """Called by httpcore between attempts to connect."""
        self._inner.sleep(seconds)

    def _connected(
        self, connect: Callable[[float | None], httpcore.NetworkStream], timeout: float | None
    ) -> httpcore.NetworkStream:
        with self._deadline.cut(timeout, httpcore.ConnectTimeout) as left:
            return _DeadlineStream(connect(left), self._deadline)


class _DeadlineStream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with self._deadline.cut(timeout, httpcore.ReadTimeout) as left:
            return self._inner.read(max_bytes, left)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with self._deadline.cut(timeout, httpcore.WriteTimeout) as left:
            self._inner.write(buffer, left)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        with self._deadline.cut(timeout, httpcore.ConnectTimeout) as left:
            return _DeadlineStream(
                self._inner.start_tls(ssl_context, server_hostname, left), self._deadline
            )

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)

    def close(self) -> None:
        self._inner.close()

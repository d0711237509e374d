"""`GET /health` answers at once, `GET /health/ready` with 200 once the slow part is loaded.

A server binds and shows its card first and loads its index in the background: launchers wait for
the card for seconds only, and an index can take minutes the first time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from assay.errors import AssayError, SearchError
from assay.net.redact import redact_places

_logger = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")

_MORE = "see the server's log"


class Loading(Generic[Loaded]):
    """A value that loads in the background: requests wait for it, `/health/ready` reports it."""

    def __init__(self, load: Callable[[], Awaitable[Loaded]]) -> None:
        self._load = load
        self._task: asyncio.Task[Loaded] | None = None
        self.stage: dict[str, str | int | None] | None = None
        """The current step, how much of it is done, and how much there is."""

    def start(self) -> None:
        """Begin to load; needs a running event loop."""
        self._task = asyncio.create_task(self._run())

    async def get(self) -> Loaded:
        """The value, as soon as it is loaded. Raises why loading failed, in words that are safe to
        show: paths and addresses are in the log alone."""
        assert self._task is not None, "call start() before get()"
        return await asyncio.shield(self._task)

    @property
    def status(self) -> str:
        """`loading`, `ready`, or `failed: ...` in words that are safe to show."""
        if self._task is None or not self._task.done():
            return "loading"
        error = None if self._task.cancelled() else self._task.exception()
        if error is None:
            return "ready"
        return f"failed: {error}" if isinstance(error, AssayError) else "failed"

    def note(self, what: str, done: int, total: int | None) -> None:
        """A `Progress` callback for `load`; may be called from a thread."""
        self.stage = {"what": what, "done": done, "total": total}

    async def stop(self) -> None:
        """Cancel loading, if it is not done."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> Loaded:
        try:
            return await self._load()
        except AssayError as error:
            _logger.error("loading failed: %s", error)
            raise SearchError(f"{redact_places(str(error))} ({_MORE})") from error
        except Exception as error:
            _logger.error("loading failed: %s", type(error).__name__)
            raise


def health_routes(service: str, loading: Loading[Loaded] | None = None) -> list[BaseRoute]:
    """`/health` and `/health/ready` of a server named `service`; ready once `loading` is done."""

    async def health(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "service": service})

    async def ready(_request: Request) -> JSONResponse:
        status = "ready" if loading is None else loading.status
        if status == "ready":
            return JSONResponse({"status": "ready", "service": service})
        body: dict[str, Any] = {"status": "degraded", "service": service, "index": status}
        if loading is not None and loading.stage is not None and status == "loading":
            body["stage"] = loading.stage
        return JSONResponse(body, status_code=503)

    return [Route("/health", health), Route("/health/ready", ready)]

"""`GET /health` at once; `GET /health/ready` when the slow part has been loaded.

A server binds and shows its card first and loads its index in the background: launchers wait for
the card for seconds only, and an index can take minutes the first time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from assay.errors import AssayError

Loaded = TypeVar("Loaded")


class Loading(Generic[Loaded]):
    """Something that is being made ready; requests wait for it, `/health/ready` tells."""

    def __init__(self, load: Callable[[], Awaitable[Loaded]]) -> None:
        self._load = load
        self._task: asyncio.Task[Loaded] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def get(self) -> Loaded:
        """The thing itself, as soon as it is there; raises what went wrong with it."""
        assert self._task is not None, "start() comes before get()"
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

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> Loaded:
        return await self._load()


def health_routes(service: str, loading: Loading[Loaded] | None = None) -> list[BaseRoute]:
    async def health(_request: Request) -> JSONResponse:
        return JSONResponse({"status": "ok", "service": service})

    async def ready(_request: Request) -> JSONResponse:
        status = "ready" if loading is None else loading.status
        if status == "ready":
            return JSONResponse({"status": "ready", "service": service})
        body = {"status": "degraded", "service": service, "index": status}
        return JSONResponse(body, status_code=503)

    return [Route("/health", health), Route("/health/ready", ready)]

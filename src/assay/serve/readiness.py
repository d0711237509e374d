"""`GET /health` answers at once, `GET /health/ready` with 200 once the slow part is loaded.

A server binds and shows its card first and loads its index in the background: launchers wait for
the card for seconds only, and an index can take minutes the first time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route

from assay.contract.server import Readiness, health_response, ready_response
from assay.errors import AssayError, DataError, SearchError
from assay.extras import MissingExtra, missing_extra
from assay.net.json import JsonObject
from assay.net.redact import redact_places
from assay.privacy import log_exception

_logger = logging.getLogger(__name__)

Loaded = TypeVar("Loaded")

_MORE = "see the server's log"


class Loading(Generic[Loaded]):
    """A value that loads in the background: requests wait for it, `/health/ready` reports it.

    `value` is None until it is loaded; `status` is `loading`, `ready`, or `failed: ...` with a
    message that is safe to show; `stage` is the current step, how much is done, and how much of it
    there is.
    """

    def __init__(self, load: Callable[[], Awaitable[Loaded]]) -> None:
        self._load = load
        self._task: asyncio.Task[Loaded] | None = None
        self.value: Loaded | None = None
        self.status = "loading"
        self.stage: tuple[str, int, int | None] | None = None

    def start(self) -> asyncio.Task[Loaded]:
        """Begin to load, unless that is going on or done; needs a running event loop."""
        # What failed is tried again: a host that the data comes from may be back.
        if self._task is None or (self._task.done() and self.value is None):
            self.status = "loading"
            self._task = asyncio.create_task(self._run())
        return self._task

    async def get(self) -> Loaded:
        """The value, as soon as it is loaded. Raises why loading failed, without paths and
        addresses, which are in the log alone."""
        # A caller who gives up must not cancel what all others wait for.
        return await asyncio.shield(self._task or self.start())

    def note(self, what: str, done: int, total: int | None) -> None:
        """A `Progress` callback for `load`; may be called from a thread."""
        self.stage = (what, done, total)

    async def stop(self) -> None:
        """Cancel loading, if it is not done."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> Loaded:
        try:
            self.value = await self._load()
        except Exception as error:
            known = missing_extra(error) if isinstance(error, ImportError) else error
            if not isinstance(known, AssayError):
                self.status = "failed"
                log_exception(_logger, "loading failed", error)
                raise
            message = f"{redact_places(str(known))} ({_MORE})"
            self.status = f"failed: {message}"
            log_exception(_logger, "loading failed", error, **_where(known))
            raise SearchError(message) from error
        self.status = "ready"
        return self.value


def _where(error: AssayError) -> dict[str, str]:
    """What to fix, as far as an error names it beside its text, which may quote data."""
    if isinstance(error, MissingExtra):
        return {"package": error.package, "extra": error.extra}
    if isinstance(error, DataError) and error.file is not None:
        return {"file": f"{error.file}" if error.line is None else f"{error.file}:{error.line}"}
    return {}


def health_routes(service: str, loading: Loading[Loaded] | None = None) -> list[BaseRoute]:
    """`/health` and `/health/ready` of a server named `service`; ready once `loading` is done."""

    async def health(_request: Request) -> JSONResponse:
        return health_response(service)

    async def ready(_request: Request) -> JSONResponse:
        status = "ready" if loading is None else loading.status
        if status == "ready":
            return ready_response(service, Readiness(True))
        stage = loading.stage if loading is not None and status == "loading" else None
        details: JsonObject = {"index": status}
        if stage is not None:
            details["stage"] = dict(zip(("what", "done", "total"), stage, strict=True))
        return ready_response(service, Readiness(False, details))

    return [Route("/health", health), Route("/health/ready", ready)]

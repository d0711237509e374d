"""Admission: new work gets a place before the SDK sees its request, or 503 with Retry-After.

A place is held from the first look at a request until its work has ended, or is counted elsewhere.
Were it counted only when the work begins, all requests of a burst would pass, and those for which
there is no room would end as tasks in a final state: a client that may try again would not.
"""

from collections.abc import Callable
from contextvars import ContextVar

from starlette.types import ASGIApp, Receive, Scope, Send

from assay.net.json import parse_object
from assay.serve.a2a.validation import receive_body, replay
from assay.serve.guards import refuse

OVERLOADED = "too many requests in progress; try again later"
_STARTING_METHODS = frozenset(
    {"message/send", "message/stream", "SendMessage", "SendStreamingMessage"}
)
_STARTING_PATHS = ("/message:send", "/message:stream")


class Place:
    """Room for one piece of work. Calls `give_back` once, however often it is released."""

    def __init__(self, give_back: Callable[[], None]) -> None:
        self._give_back: Callable[[], None] | None = give_back
        self.is_claimed = False

    def release(self) -> None:
        """Give the place back."""
        give_back, self._give_back = self._give_back, None
        if give_back is not None:
            give_back()


Admit = Callable[[], Place | None]
"""Returns a place for new work, or None where there is no room."""


class Capacity:
    """At most `limit` places at once."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.held = 0

    def admit(self) -> Place | None:
        """A place, or None if all are taken."""
        if self.held >= self._limit:
            return None
        self.held += 1
        return Place(self._give_back)

    def _give_back(self) -> None:
        self.held -= 1


# The SDK runs an executor in a copy of the context of the request that started it.
_place: ContextVar[Place | None] = ContextVar("place", default=None)


def claim_place() -> Place | None:
    """The place that the current request was given. Whoever claims it has to release it."""
    place = _place.get()
    if place is None or place.is_claimed:
        return None
    place.is_claimed = True
    return place


class AdmissionControl:
    """503 with Retry-After for requests that would start work where `admit` has no place for it.
    Asking for a task or canceling one always gets through."""

    def __init__(self, app: ASGIApp, admit: Admit, retry_after: int) -> None:
        self._app = app
        self._admit = admit
        self._retry_after = retry_after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = await receive_body(receive)
        receive = replay(body, receive)
        if not _starts_work(scope["path"], body):
            await self._app(scope, receive, send)
            return
        place = self._admit()
        if place is None:
            await refuse(send, 503, OVERLOADED, {"retry-after": str(self._retry_after)})
            return
        token = _place.set(place)
        try:
            await self._app(scope, receive, send)
        finally:
            _place.reset(token)
            if not place.is_claimed:
                place.release()


def _starts_work(path: str, body: bytes) -> bool:
    if path.endswith(_STARTING_PATHS):
        return True
    request = parse_object(body) if path == "/" else None
    return request is not None and request.get("method") in _STARTING_METHODS

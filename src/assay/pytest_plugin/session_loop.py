"""One event loop for the whole session, for connections that outlive a test.

Each test has an event loop of its own, or none. So calls to a connection run on the session's loop,
and tests await them as usual, with any async plugin.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from anyio.from_thread import BlockingPortal

Thing = TypeVar("Thing")


class SessionLoop:
    """An event loop in a thread of its own, for the whole session."""

    def __init__(self, portal: "BlockingPortal") -> None:
        self._portal = portal
        self._thread = portal.call(get_ident)

    def run(self, function: Callable[..., Coroutine[Any, Any, Thing]], *args: Any) -> Thing:
        """Run a coroutine function from a fixture and wait for its result."""
        result: Thing = self._portal.call(function, *args)
        return result

    async def ask(
        self, function: Callable[..., Coroutine[Any, Any, Thing]], *args: Any, **more: Any
    ) -> Thing:
        """Await a coroutine function from a test; canceling the test cancels the call."""
        if get_ident() == self._thread:  # called from this loop already
            return await function(*args, **more)
        there = self._portal.start_task_soon(partial(function, *args, **more))
        return await asyncio.wrap_future(there)

    def entered(
        self, manager: "AbstractAsyncContextManager[Thing]"
    ) -> AbstractContextManager[Thing]:
        """Enter and exit an async context manager in one task, as MCP's client requires."""
        return self._portal.wrap_async_context_manager(manager)

    def proxy(self, thing: Any) -> Any:
        """A proxy for tests, whose coroutine methods run on this loop."""
        return _Lent(self, thing)


class _Lent:
    def __init__(self, loop: SessionLoop, thing: Any) -> None:
        self._loop = loop
        self._thing = thing

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        return partial(self._loop.ask, found) if inspect.iscoroutinefunction(found) else found

    def __repr__(self) -> str:
        return repr(self._thing)


@contextmanager
def session_loop() -> Iterator[SessionLoop]:
    """A running loop; what is left on it is canceled at the end."""
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:
        try:
            yield SessionLoop(portal)
        finally:
            # A fixture that was interrupted while it opened leaves tasks that nothing waits for.
            portal.call(portal.stop, True)
